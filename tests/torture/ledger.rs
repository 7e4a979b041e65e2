//! A ledger outside the process under test: it stores every POST, and treats a repeated key as the same
//! entry.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum bytes of a body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Maximum delay of a response, so that a kill can hit between an effect and its result.
const ANSWER_MS_MAX: u64 = 80;

/// Timeout of a connection.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// A server on the loopback interface, until the process ends.
pub(crate) struct Ledger {
    address: SocketAddr,
    posts: Arc<Mutex<Vec<Post>>>,
}

impl Ledger {
    pub(crate) fn open() -> Result<Ledger> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let ledger = Ledger { address: listener.local_addr()?, posts: Arc::default() };
        let posts = Arc::clone(&ledger.posts);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let posts = Arc::clone(&posts);
                // A broken connection means that the client was killed; complete requests count.
                thread::spawn(move || serve(stream, &posts));
            }
        });
        Ok(ledger)
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// POSTs whose path has this prefix, in order of arrival.
    pub(crate) fn posts(&self, prefix: &str) -> Vec<Post> {
        let posts = self.posts.lock().unwrap_or_else(PoisonError::into_inner);
        posts.iter().filter(|post| post.path.starts_with(prefix)).cloned().collect()
    }

    /// Entries by key. A key with two different bodies is an error.
    pub(crate) fn entries(&self) -> std::result::Result<BTreeMap<String, Post>, String> {
        let mut entries: BTreeMap<String, Post> = BTreeMap::new();
        for post in self.posts("/") {
            let key = post.key.clone().ok_or_else(|| format!("{} came without a key", post.path))?;
            let entry = entries.entry(key.clone()).or_insert_with(|| post.clone());
            if *entry != post {
                return Err(format!(
                    "key {key} came for {} and for {}, or with two bodies",
                    entry.path, post.path
                ));
            }
        }
        Ok(entries)
    }
}

fn serve(stream: TcpStream, posts: &Mutex<Vec<Post>>) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(post) = read(&mut reader)? else { return Ok(()) };
    let arrived = {
        let mut posts = posts.lock().unwrap_or_else(PoisonError::into_inner);
        posts.push(post);
        posts.len() as u64
    };
    thread::sleep(Duration::from_millis(arrived * 7 % (ANSWER_MS_MAX + 1)));
    let body = r#"{"ok":true}"#;
    let length = body.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

/// Reads one request; `None` if it is no POST or incomplete.
fn read(reader: &mut impl BufRead) -> Result<Option<Post>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some("POST"), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let (path, mut key, mut length) = (path.to_owned(), None, 0);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => key = Some(value.trim().to_owned()),
            "content-length" => length = value.trim().parse().unwrap_or(usize::MAX),
            _ => {}
        }
    }
    if length > BODY_BYTES_MAX {
        return Ok(None);
    }
    let mut body = vec![0; length];
    match reader.read_exact(&mut body) {
        Ok(()) => Ok(Some(Post { path, key, body })),
        Err(_) => Ok(None),
    }
}
