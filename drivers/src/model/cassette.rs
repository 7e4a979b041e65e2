//! Recorded HTTP exchanges, a JSON object a line: first the header, then the exchanges.
//!
//! Requests are kept without headers, so no key gets into the file; of the headers of responses, an allow-list.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_kernel::port::{ModelError, ModelErrorClass};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cassette_miss;
use super::config::Dialect;
use super::key::Key;
use super::profile::Profile;
use super::transport::Head;
use crate::regular_file::{open_to_append, read_text};

/// Maximum bytes of a cassette.
pub const CASSETTE_BYTES_MAX: u64 = 256 << 20;

/// Maximum bytes of a header that is read.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// Version of the format.
const VERSION: u32 = 1;

/// Headers of responses that are kept: those that the decoder reads, and the content type for people.
const HEADERS_KEPT: [&str; 4] = ["content-type", "date", "retry-after", "retry-after-ms"];

/// The first line: what decides about the form of requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    cassette: u32,
    pub(super) dialect: Dialect,
    pub(super) profile: Profile,
    pub(super) model: String,
}

impl Header {
    pub(super) fn new(dialect: Dialect, profile: Profile, model: &str) -> Header {
        Header { cassette: VERSION, dialect, profile, model: model.to_owned() }
    }
}

/// A request and its response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) response: Response,
}

/// A request, normalised: a path and a body with sorted keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) body: Value,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The body in base64, if it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_b64: Option<String>,
    /// Offsets at which the body arrived in pieces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<usize>,
}

/// A cassette that answers.
pub(super) struct Player {
    file: PathBuf,
    exchanges: Vec<Exchange>,
    /// Exchanges that have answered.
    used: Mutex<Vec<bool>>,
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Player({}, {} exchanges)", self.file.display(), self.exchanges.len())
    }
}

impl Player {
    /// Reads a cassette; returns its bytes too.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no cassette.
    pub(super) fn open(file: &Path) -> Result<(Header, Player, Vec<u8>), String> {
        let text = read(file)?;
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines.next().ok_or("an empty file; record a cassette with mode = \"record\"")?;
        let header = header(first)?;
        let mut exchanges = Vec::new();
        for (at, line) in lines {
            let exchange: Exchange =
                serde_json::from_str(line).map_err(|error| format!("line {}: {}", at + 1, told(&error)))?;
            exchange.response.body().map_err(|problem| format!("line {}: {problem}", at + 1))?;
            exchanges.push(exchange);
        }
        let used = Mutex::new(vec![false; exchanges.len()]);
        Ok((header, Player { file: file.to_owned(), exchanges, used }, text.into_bytes()))
    }

    /// The recorded response: of the first equal request that has not answered yet, or else of the last equal one.
    pub(super) fn answer(&self, path: &str, body: &Value) -> Result<(Head, VecDeque<Vec<u8>>), ModelError> {
        let request = Request { path: path.to_owned(), body: body.clone() };
        let equal = |at: &usize| self.exchanges[*at].request == request;
        let all: Vec<usize> = (0..self.exchanges.len()).filter(equal).collect();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = all.iter().copied().find(|at| !used[*at]).or(all.last().copied()) else {
            let message = format!(
                "cassette {}: {}",
                self.file.display(),
                cassette_miss::explain(&self.exchanges, &request)
            );
            return Err(ModelError {
                class: ModelErrorClass::InvalidRequest,
                status: None,
                message,
                retry_after_s: None,
                is_unsent: false,
            });
        };
        used[at] = true;
        let response = &self.exchanges[at].response;
        let head = Head { status: response.status, headers: response.headers.clone() };
        Ok((head, response.pieces()))
    }
}

impl Response {
    /// A document, as a provider sends it for a whole answer.
    pub(super) fn document(body: &Value) -> Response {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Response { status: 200, headers, body: Some(body.to_string()), body_b64: None, chunks: Vec::new() }
    }

    fn body(&self) -> Result<Vec<u8>, String> {
        let body = match (&self.body, &self.body_b64) {
            (Some(body), None) => body.clone().into_bytes(),
            (None, Some(body)) => STANDARD.decode(body).map_err(|error| format!("body_b64: {error}"))?,
            _ => return Err("response: give one of body and body_b64".to_owned()),
        };
        let rises = self.chunks.is_sorted() && self.chunks.last().is_none_or(|last| *last <= body.len());
        if rises { Ok(body) } else { Err("chunks: no rising offsets within the body".to_owned()) }
    }

    fn pieces(&self) -> VecDeque<Vec<u8>> {
        let body = self.body().unwrap_or_default();
        let mut from = 0;
        let ends = self.chunks.iter().copied().chain([body.len()]);
        let pieces = ends.map(|end| {
            let piece = body[from..end].to_vec();
            from = end;
            piece
        });
        pieces.filter(|piece| !piece.is_empty()).collect()
    }
}

/// A cassette that records.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    /// The folder whose links are the operator's.
    folder: Arc<Path>,
    /// The cassette, from that folder on.
    beneath: Arc<Path>,
    file: Arc<Path>,
    header: Header,
    key: Key,
    /// Held while a line is appended.
    appending: Arc<Mutex<()>>,
}

impl Recorder {
    /// Records to a cassette, a new one or one of the same header; `file` is a path from the configuration's folder on, or an absolute
    /// one. Writes nothing before the first exchange. No link of the folder is followed.
    ///
    /// # Errors
    ///
    /// The file is another cassette.
    pub(super) fn open(folder: &Path, file: &Path, own: Header, key: Key) -> Result<Recorder, String> {
        let file = folder.join(file);
        let (folder, beneath) = match (file.strip_prefix(folder), file.parent(), file.file_name()) {
            (Ok(beneath), ..) => (folder, beneath),
            (Err(_), Some(parent), Some(name)) => (parent, Path::new(name)),
            (Err(_), ..) => return Err("no name of a file".to_owned()),
        };
        let (folder, beneath) = (folder.into(), beneath.into());
        let recorder =
            Recorder { folder, beneath, file: file.into(), header: own, key, appending: Arc::default() };
        match open_to_append(&recorder.folder, &recorder.beneath, false) {
            Ok(found) => recorder.check_header(&found)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(recorder)
    }

    /// Checks that a file is empty or begins with the header of this recorder.
    fn check_header(&self, file: &File) -> Result<(), String> {
        let mut line = String::new();
        let read = BufReader::new(file).take(HEADER_BYTES_MAX).read_line(&mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let (found, own) = (header(&line)?, &self.header);
        if (found.dialect, found.profile, &found.model) == (own.dialect, own.profile, &own.model) {
            return Ok(());
        }
        Err(format!("a cassette of model {:?}; remove it to record {:?}", found.model, own.model))
    }

    /// Keeps an exchange. Blocks.
    pub(super) fn keep(
        &self,
        request: &Request,
        head: &Head,
        body: &[u8],
        chunks: Vec<usize>,
    ) -> Result<(), String> {
        let headers = head.headers.iter().filter(|(name, _)| HEADERS_KEPT.contains(&name.as_str()));
        let text = std::str::from_utf8(body).ok().map(|text| self.key.remove(text));
        let is_whole = text.as_ref().is_none_or(|text| text.len() == body.len());
        let response = Response {
            status: head.status,
            headers: headers.map(|(name, value)| (name.clone(), self.key.remove(value))).collect(),
            body_b64: text.is_none().then(|| STANDARD.encode(self.key.remove_bytes(body))),
            body: text,
            chunks: if is_whole { chunks } else { Vec::new() },
        };
        let exchange = Exchange { request: request.clone(), response };
        let line = serde_json::to_string(&exchange).map_err(|error| error.to_string())?;
        // Prompts may hold the key as well.
        self.append(&self.key.remove(&line))
    }

    fn append(&self, line: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot write: {error}");
        let _appending = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = open_to_append(&self.folder, &self.beneath, true).map_err(failed)?;
        self.check_header(&file)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut lines = String::new();
        if size == 0 {
            lines.push_str(&serde_json::to_string(&self.header).map_err(|error| error.to_string())?);
            lines.push('\n');
        }
        lines.push_str(line);
        lines.push('\n');
        if size + lines.len() as u64 > CASSETTE_BYTES_MAX {
            return Err(format!("more than {CASSETTE_BYTES_MAX} bytes; begin another cassette"));
        }
        // One write, so that a process that dies leaves whole lines.
        file.write_all(lines.as_bytes()).map_err(failed)
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

fn read(file: &Path) -> Result<String, String> {
    read_text(file, CASSETTE_BYTES_MAX).map_err(|error| error.to_string())
}

/// The error in a line that was read by itself: its column, and for a line that is cut off no words of the parser.
fn told(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return format!("it is cut off at column {}", error.column());
    }
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    format!("column {}: {}", error.column(), text.strip_suffix(&place).unwrap_or(&text))
}

fn header(line: &str) -> Result<Header, String> {
    let header: Header = serde_json::from_str(line)
        .map_err(|error| format!("line 1: no header of a cassette: {}", told(&error)))?;
    if header.cassette == VERSION {
        Ok(header)
    } else {
        Err(format!("line 1: version {}; this program reads version {VERSION}", header.cassette))
    }
}
