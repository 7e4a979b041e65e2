//! The loopback port to which a browser returns.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Largest head of a request to the port, in bytes.
pub const LOGIN_CALLBACK_BYTES_MAX: usize = 16 << 10;

/// Time for a request to arrive.
const ARRIVES: Duration = Duration::from_secs(10);

/// Requests that are read at the same time.
const TOGETHER_MAX: usize = 16;

/// Path of the redirect.
const PATH: &str = "/callback";

/// The port, until the login ends.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

impl Callback {
    /// Listens on a free port, or on the given one.
    pub(super) async fn listen(port: Option<u16>) -> io::Result<Callback> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Callback { listener, port })
    }

    /// The redirect address for the authorization server.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// The address with which the browser returns: the first that carries this state. All others are refused, and waiting goes on.
    pub(super) async fn returned(&self, state: &str) -> Url {
        let (send, mut found) = mpsc::channel(1);
        let mut reading = JoinSet::new();
        loop {
            tokio::select! {
                Some(url) = found.recv() => return url,
                Some(_) = reading.join_next() => {}
                accepted = self.listener.accept(), if reading.len() < TOGETHER_MAX => {
                    let Ok((stream, _)) = accepted else {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    let (state, send, base) = (state.to_owned(), send.clone(), self.address());
                    reading.spawn(async move {
                        let _ = tokio::time::timeout(ARRIVES, answer(stream, &base, &state, send)).await;
                    });
                }
            }
        }
    }
}

/// Reads a request, answers it, and hands its address on if it carries the state.
async fn answer(mut stream: TcpStream, base: &str, state: &str, send: mpsc::Sender<Url>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let room = LOGIN_CALLBACK_BYTES_MAX - head.len();
        if room == 0 || (&mut stream).take(room as u64).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let url = Url::parse(base).ok().and_then(|base| base.join(target).ok());
    let url = url.filter(|url| url.path() == PATH && state_of(url).as_deref() == Some(state));
    let (status, text) = match &url {
        Some(_) => {
            ("200 OK", "Ostler has the answer. Return to the terminal, which says whether you are logged in.")
        }
        None => ("400 Bad Request", "This is not the answer that Ostler waits for."),
    };
    let length = text.len();
    let page = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nReferrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}"
    );
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await?;
    if let Some(url) = url {
        let _ = send.send(url).await;
    }
    Ok(())
}

/// The state that an address carries.
pub(super) fn state_of(url: &Url) -> Option<String> {
    parameter(url, "state")
}

/// A parameter of the query; `None` also if it is there twice.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut found = url.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    found.next().filter(|_| found.next().is_none())
}
