//! A web server of the test, which keeps what it receives, and requests by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::until;

/// One received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) key: String,
    pub(crate) body: String,
}

/// Status and body of the response to a request.
type Answers = dyn Fn(&Received) -> (u16, String) + Send + Sync;

/// A server until the end of the process.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Web {
    pub(crate) fn start(answers: impl Fn(&Received) -> (u16, String) + Send + Sync + 'static) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (received, answers): (Arc<Mutex<Vec<Received>>>, Arc<Answers>) =
            (Arc::default(), Arc::new(answers));
        let all = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, answers) = (Arc::clone(&all), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, &all, &*answers));
            }
        });
        Web { address, received }
    }

    /// An example with its configuration, at the address of this server.
    pub(crate) fn example(&self, name: &str) -> [String; 2] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans");
        ["yaml", "toml"].map(|kind| {
            let text = std::fs::read_to_string(folder.join(format!("{name}.{kind}"))).unwrap();
            text.replace("127.0.0.1:8017", &self.address.to_string()).replace(":8787", ":0")
        })
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Waits for a request of this line, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(&self, line: &str) -> Received {
        let found = || self.received().into_iter().find(|received| received.line == line);
        until(&format!("{line} was received"), || found().is_some());
        found().unwrap()
    }
}

fn serve(mut stream: TcpStream, all: &Mutex<Vec<Received>>, answers: &Answers) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let head = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            break text[..end].to_owned();
        }
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return,
        }
    };
    let field = |name: &str| {
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let length: usize = field("content-length").parse().unwrap_or(0);
    let from = head.len() + 4;
    while bytes.len() < from + length {
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
    let line = head.lines().next().unwrap_or_default();
    let line = line.rsplit_once(' ').map_or(line, |(line, _)| line).to_owned();
    let body = String::from_utf8_lossy(&bytes[from..]).into_owned();
    let received = Received { line, key: field("idempotency-key"), body };
    all.lock().unwrap().push(received.clone());
    let (status, body) = answers(&received);
    let head = format!("HTTP/1.1 {status} Any\r\nContent-Type: application/json\r\nConnection: close\r\n");
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
}

/// Sends a request to `http://HOST:PORT/PATH`, and returns status and body of the response. `length`: that of the header.
pub(crate) fn request(method: &str, url: &str, more: &str, body: &str, length: usize) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}");
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Posts JSON.
pub(crate) fn post(url: &str, body: &str) -> (u16, String) {
    request("POST", url, "", body, body.len())
}
