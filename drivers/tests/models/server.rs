//! A server of the real HTTP protocol that behaves as each test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the server does after it read a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Sends these bytes, then closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes one at a time.
    Slowly(Vec<u8>),
    /// Sends these pieces one at a time.
    Pieces(Vec<Vec<u8>>),
    /// Sends these bytes, then keeps the connection open and silent.
    Holds(Vec<u8>),
    /// Sends the first bytes, then the others again and again, as fast as they are read.
    Endless(Vec<u8>, Vec<u8>),
    /// As `Endless`, with a pause before each repetition.
    Drips(Vec<u8>, Vec<u8>),
    /// Sends these bytes, and the head of the request as the message of an error.
    Echoes(String),
}

/// Answers the connections in turn, the last reply again and again; keeps the requests.
pub(crate) struct Server {
    pub(crate) port: u16,
    /// Requests, whole.
    pub(crate) asked: mpsc::UnboundedReceiver<String>,
    /// Connections that the client closed first.
    pub(crate) closed: mpsc::UnboundedReceiver<()>,
    /// Bytes sent in all.
    pub(crate) sent: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) async fn start(replies: Vec<Reply>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ask, asked) = mpsc::unbounded_channel();
        let (close, closed) = mpsc::unbounded_channel();
        let sent = Arc::new(AtomicUsize::new(0));
        let bytes = sent.clone();
        tokio::spawn(async move {
            let mut replies = replies.into_iter().peekable();
            let mut reply = replies.next().unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (ask, close, bytes, now) = (ask.clone(), close.clone(), bytes.clone(), reply.clone());
                tokio::spawn(async move {
                    let request = read(&mut stream).await;
                    let _ = ask.send(request.clone());
                    if answer(stream, now, &request, &bytes).await.is_err() {
                        let _ = close.send(());
                    }
                });
                reply = replies.next().unwrap_or(reply);
            }
        });
        Server { port, asked, closed, sent }
    }

    /// Starts a server with one reply, given as a whole response.
    pub(crate) async fn answering(status: &str, headers: &str, body: &str) -> Server {
        Server::start(vec![Reply::Bytes(response(status, headers, body))]).await
    }

    /// The table of a model at this server.
    pub(crate) fn config(&self, provider: &str, more: &str) -> String {
        let path = if provider == "openai" { "/v1" } else { "" };
        format!(
            "[models.default]\nprovider = \"{provider}\"\nbase_url = \"http://127.0.0.1:{}{path}\"\nmodel = \"m\"\n\
             api_key_env = \"KEY\"\nprice = {{input = 1, output = 2}}\n{more}\n",
            self.port
        )
    }
}

/// A response that ends with the connection, without a length.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}\r\n{body}").into_bytes()
}

/// An event stream of these data.
pub(crate) fn stream(events: &[&str]) -> Vec<u8> {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    response("200 OK", "content-type: text/event-stream\r\n", &body)
}

async fn read(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !is_whole(&request) && stream.read_buf(&mut request).await.unwrap_or(0) > 0 {}
    String::from_utf8_lossy(&request).into_owned()
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
}

async fn send_pieces(stream: &mut TcpStream, pieces: &[Vec<u8>], sent: &AtomicUsize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    for piece in pieces {
        stream.write_all(piece).await?;
        sent.fetch_add(piece.len(), Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn answer(
    mut stream: TcpStream,
    reply: Reply,
    request: &str,
    sent: &AtomicUsize,
) -> std::io::Result<()> {
    let send = async |stream: &mut TcpStream, bytes: &[u8]| {
        stream.write_all(bytes).await?;
        sent.fetch_add(bytes.len(), Ordering::Relaxed);
        std::io::Result::Ok(())
    };
    match reply {
        Reply::Bytes(bytes) => send(&mut stream, &bytes).await?,
        Reply::Slowly(bytes) => {
            let bytes: Vec<Vec<u8>> = bytes.into_iter().map(|byte| vec![byte]).collect();
            send_pieces(&mut stream, &bytes, sent).await?;
        }
        Reply::Pieces(pieces) => send_pieces(&mut stream, &pieces, sent).await?,
        Reply::Holds(bytes) => {
            send(&mut stream, &bytes).await?;
            // The client sends nothing more, so reading ends when it closes.
            stream.read_u8().await?;
        }
        Reply::Endless(first, again) => {
            send(&mut stream, &first).await?;
            loop {
                send(&mut stream, &again).await?;
            }
        }
        Reply::Drips(first, again) => {
            send(&mut stream, &first).await?;
            let mut pace = tokio::time::interval(std::time::Duration::from_millis(5));
            loop {
                pace.tick().await;
                send(&mut stream, &again).await?;
            }
        }
        Reply::Echoes(status) => {
            let head = request.split("\r\n\r\n").next().unwrap_or_default();
            let body = serde_json::json!({"error": {"message": format!("bad request: {head}"), "type": "x"}});
            send(&mut stream, &response(&status, "", &body.to_string())).await?;
        }
    }
    stream.shutdown().await
}
