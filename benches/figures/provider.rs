//! A model provider whose answers the measurement writes piece by piece.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

pub(crate) struct Provider(TcpListener);

impl Provider {
    pub(crate) fn start() -> Provider {
        Provider(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Configuration with the provider as the default model and a limit of output tokens above every limit of bytes.
    pub(crate) fn config(&self) -> String {
        let port = self.0.local_addr().unwrap().port();
        format!(
            "[models.default]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"m\"\n\
             profile = \"generic\"\nprice = \"free\"\nmax_output_tokens = 100000000\n"
        )
    }

    /// Waits for a request, and begins the answer.
    pub(crate) fn call(&self) -> Call {
        let (mut stream, _) = self.0.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut request, mut some) = (Vec::new(), [0; 8_192]);
        while !is_whole(&request) {
            let count = stream.read(&mut some).unwrap();
            request.extend_from_slice(&some[..count]);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        Call(stream)
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
}

pub(crate) struct Call(TcpStream);

impl Call {
    /// Sends a piece of text. `false`: the caller has ended the call.
    pub(crate) fn text(&mut self, text: &str) -> bool {
        self.send(&json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
    }

    pub(crate) fn end(mut self) {
        self.send(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
        let _ = self.0.write_all(b"data: [DONE]\n\n");
    }

    fn send(&mut self, event: &Value) -> bool {
        self.0.write_all(format!("data: {event}\n\n").as_bytes()).is_ok()
    }
}
