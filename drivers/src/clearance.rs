//! The clearance authority, over HTTP.

use std::time::Duration;

use ostler_kernel::gate::{CLEARANCE_BYTES_MAX, DenialCode, Reply};
use ostler_kernel::port::{BoxFuture, ClearanceAuthority};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use serde_json::Value;

use crate::http_client;

/// Posts each request as JSON to one URL. The client reuses connections, follows no redirect, sends no request twice, and reads at
/// most [`CLEARANCE_BYTES_MAX`] bytes of an answer and one more.
///
/// ```no_run
/// # fn main() -> Result<(), String> {
/// let authority = ostler_drivers::HttpClearance::new("https://clearance.example.com/v1/decide")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HttpClearance {
    url: Url,
    client: Client,
}

/// The part of an answer that was read.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl HttpClearance {
    /// Reads the platform's certificates for an `https` URL, which blocks.
    ///
    /// # Errors
    ///
    /// See [`HttpClearance::check`]; or the certificates cannot be read.
    pub fn new(url: &str) -> Result<HttpClearance, String> {
        let url = HttpClearance::check(url)?;
        let client = http_client(url.scheme() == "https")?;
        Ok(HttpClearance { url, client })
    }

    /// Reads the URL of an authority.
    ///
    /// # Errors
    ///
    /// No URL, or neither `https` nor `http`.
    pub fn check(url: &str) -> Result<Url, String> {
        let parsed = Url::parse(url).map_err(|error| format!("{url:?} is no URL: {error}"))?;
        match (parsed.scheme(), parsed.host_str()) {
            ("https" | "http", Some(_)) => Ok(parsed),
            _ => Err(format!("{url:?} is no https or http URL")),
        }
    }

    /// Returns `None` if the answer is missing or incomplete.
    async fn exchange(&self, request: Value) -> Option<Answer> {
        let sent = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let mut response = sent.body(request.to_string()).send().await.ok()?;
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        while body.len() <= CLEARANCE_BYTES_MAX {
            let Some(piece) = response.chunk().await.ok()? else { break };
            let room = CLEARANCE_BYTES_MAX + 1 - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Some(Answer { status, body })
    }
}

impl ClearanceAuthority for HttpClearance {
    fn ask(&self, request: Value, deadline_ms: u64) -> BoxFuture<'_, Result<(), DenialCode>> {
        Box::pin(async move {
            let answered = tokio::time::timeout(Duration::from_millis(deadline_ms), self.exchange(request));
            match answered.await {
                Err(_) => Reply::Late.judge(),
                Ok(None) => Reply::Unreachable.judge(),
                Ok(Some(Answer { status, body })) => Reply::Answer { status, body: &body }.judge(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Behaviour of a server on each connection, after the request.
    #[derive(Clone)]
    enum Behaviour {
        Says(String),
        Hangs,
        /// Sends a body without end.
        Floods,
        /// Closes the connection amid the answer.
        BreaksOff,
    }

    async fn serve(mut stream: TcpStream, behaviour: Behaviour) {
        let mut request = [0; 4_096];
        while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
            match &behaviour {
                Behaviour::Says(answer) => drop(stream.write_all(answer.as_bytes()).await),
                Behaviour::Hangs => std::future::pending::<()>().await,
                Behaviour::Floods => {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
                    while stream.write_all(&[b' '; 65_536]).await.is_ok() {}
                    return;
                }
                Behaviour::BreaksOff => {
                    let _ =
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"allow\"").await;
                    return;
                }
            }
        }
    }

    /// Starts a server, and counts the connections to the server.
    async fn server(behaviour: Behaviour) -> (HttpClearance, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, behaviour.clone()));
            }
        });
        (HttpClearance::new(&format!("http://{address}/decide")).unwrap(), connections)
    }

    fn says(status: &str, headers: &str, body: &str) -> Behaviour {
        let length = body.len();
        Behaviour::Says(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
    }

    async fn answer(behaviour: Behaviour) -> Result<(), DenialCode> {
        server(behaviour).await.0.ask(json!({"tool": "pay"}), 10_000).await
    }

    #[tokio::test]
    async fn only_a_plain_yes_lets_a_call_run() {
        let yes = r#"{"allow": true}"#;
        assert_eq!(answer(says("200 OK", "", yes)).await, Ok(()));
        assert_eq!(answer(says("200 OK", "", r#"{"allow": false}"#)).await, Err(DenialCode::ClearanceDenied));
        for lie in [
            r#"{"allow": "true"}"#,
            r#"{"allow": 1}"#,
            "[true]",
            "yes",
            "",
            r#"{"allow": true, "allow": true}"#,
        ] {
            assert_eq!(answer(says("200 OK", "", lie)).await, Err(DenialCode::ClearanceMalformed), "{lie}");
        }
        assert_eq!(answer(says("201 Created", "", yes)).await, Err(DenialCode::ClearanceMalformed));
        assert_eq!(answer(says("500 Oops", "", yes)).await, Err(DenialCode::ClearanceMalformed));
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let (elsewhere, connections) = server(says("200 OK", "", r#"{"allow": true}"#)).await;
        let to = format!("location: {}\r\n", elsewhere.url);
        let moved = says("307 Moved", &to, r#"{"allow": true}"#);
        assert_eq!(answer(moved).await, Err(DenialCode::ClearanceRedirect));
        assert_eq!(connections.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_flood_is_cut_off_and_a_broken_answer_is_none() {
        assert_eq!(answer(Behaviour::Floods).await, Err(DenialCode::ClearanceMalformed));
        assert_eq!(answer(Behaviour::BreaksOff).await, Err(DenialCode::ClearanceUnreachable));
    }

    #[tokio::test]
    async fn nobody_at_the_address_is_a_no() {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let authority = HttpClearance::new(&format!("http://{address}/")).unwrap();
        assert_eq!(authority.ask(json!({}), 10_000).await, Err(DenialCode::ClearanceUnreachable));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_is_left_at_the_deadline_exactly() {
        let (authority, _) = server(Behaviour::Hangs).await;
        let begun = tokio::time::Instant::now();
        assert_eq!(authority.ask(json!({}), 1_500).await, Err(DenialCode::ClearanceTimeout));
        assert_eq!(begun.elapsed(), Duration::from_millis(1_500));
    }

    #[tokio::test]
    async fn a_connection_is_used_again() {
        let (authority, connections) = server(says("200 OK", "", r#"{"allow": true}"#)).await;
        for _ in 0..3 {
            assert_eq!(authority.ask(json!({}), 10_000).await, Ok(()));
        }
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn only_http_has_authorities() {
        assert!(HttpClearance::check("https://clear.example.com/x").is_ok());
        for url in ["", "clear.example.com", "ftp://a/", "file:///etc/passwd"] {
            assert!(HttpClearance::check(url).is_err(), "{url}");
        }
    }
}
