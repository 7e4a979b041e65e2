//! HTTP as the servers of these tests speak it: one request for each connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A request: its first line in parts, the lower case lines of its head, and its body.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads a request; `None` at the end of the connection.
    pub(crate) fn read(stream: &TcpStream) -> std::io::Result<Option<Request>> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut first, mut head, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            if first.is_empty() {
                first = line;
            }
            head += &lower;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Ok(Some(Request { method, target, head, body }))
    }

    /// The bearer token, as it was sent.
    pub(crate) fn bearer(&self) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix("authorization: bearer "))
    }
}

/// Answers with a status, lines for the head and a body.
pub(crate) fn respond(mut stream: &TcpStream, status: &str, lines: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// Answers with a JSON document.
pub(crate) fn document(stream: &TcpStream, document: &Value) -> std::io::Result<()> {
    respond(stream, "200 OK", "Content-Type: application/json\r\n", &document.to_string())
}
