//! The decoder of one response: bytes in, one answer or failure out.

use std::mem;
use std::ops::ControlFlow;

use ostler_kernel::port::{Completion, Delta, ModelError, ModelErrorClass};
use serde_json::Value;

use super::anthropic::{Anthropic, Progress};
use super::failure;
use super::json::{self, Object, Parsed};
use super::openai::OpenAi;
use super::retry_after;
use super::sse::{SseEvent, SseSplitter};
use super::{Limits, Protocol};

/// Decodes one response of a provider.
///
/// # Examples
///
/// ```
/// use ostler_drivers::model::decode::{Decoder, Protocol};
/// use ostler_kernel::port::Finish;
///
/// let mut decoder = Decoder::new(Protocol::OpenAi, 200, [].into_iter());
/// for chunk in ["data: {\"choices\":[{\"delta\":{\"con", "tent\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"] {
///     decoder.push(chunk.as_bytes());
/// }
/// let answer = decoder.end().unwrap();
/// assert_eq!((answer.text.as_str(), answer.finish), ("hi", Finish::Stop));
/// ```
pub struct Decoder {
    status: u16,
    retry_after_s: Option<f64>,
    limits: Limits,
    /// Bytes of the body so far.
    bytes: usize,
    message: Message,
    reading: Reading,
}

/// The form of the body, as far as its bytes tell.
enum Reading {
    /// Too few bytes to tell: the body so far, and its length without anything but blanks.
    Start(Vec<u8>, usize),
    /// The body so far.
    Document(Vec<u8>),
    Stream(SseSplitter),
    /// The stream has ended; further bytes are not read.
    Ended,
    Failed(ModelError),
}

enum Message {
    OpenAi(OpenAi),
    Anthropic(Anthropic),
}

/// Beginnings of an event stream.
const STREAM_STARTS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Maximum bytes of an error body; the rest is not read.
pub const ERROR_BODY_BYTES_MAX: usize = 1 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Decoder {
    /// A decoder of a response with this status and these headers (names in any case). The content type is not asked:
    /// servers label streams as documents and documents as streams, so the first bytes decide.
    pub fn new<'a>(
        protocol: Protocol,
        status: u16,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Decoder {
        Decoder::with_limits(protocol, status, headers, Limits::default())
    }

    /// A decoder with these limits.
    pub fn with_limits<'a>(
        protocol: Protocol,
        status: u16,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        limits: Limits,
    ) -> Decoder {
        let message = match protocol {
            Protocol::OpenAi => Message::OpenAi(OpenAi::new(limits)),
            Protocol::Anthropic => Message::Anthropic(Anthropic::new(limits)),
        };
        let retry_after_s = retry_after::seconds(headers);
        Decoder { status, retry_after_s, limits, bytes: 0, message, reading: Reading::Start(Vec::new(), 0) }
    }

    /// Takes more bytes of the body; returns the pieces of the answer that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Delta> {
        let mut deltas = Vec::new();
        // Only whole bodies decide, so a body that crosses a limit is read up to exactly this byte, whatever its chunks are.
        let is_success = (200..300).contains(&self.status);
        let max = if is_success { self.limits.response_bytes } else { ERROR_BODY_BYTES_MAX };
        let (bytes, beyond) = bytes.split_at(bytes.len().min(max - self.bytes));
        self.bytes += bytes.len();
        self.read(bytes, is_success, &mut deltas);
        if is_success && !beyond.is_empty() && !self.is_over() {
            self.reading = Reading::Failed(failure::beyond("bytes", max));
        }
        deltas
    }

    fn read(&mut self, bytes: &[u8], is_success: bool, deltas: &mut Vec<Delta>) {
        match &mut self.reading {
            Reading::Start(body, blanks) => {
                body.extend_from_slice(bytes);
                let start = if is_success { start(body, blanks) } else { Start::Document };
                let (body, at) = match start {
                    Start::Unknown => return,
                    Start::Document => (mem::take(body), None),
                    Start::Stream(at) => (mem::take(body), Some(at)),
                };
                let Some(at) = at else {
                    self.reading = Reading::Document(body);
                    return;
                };
                self.reading = Reading::Stream(SseSplitter::new(self.limits.line_bytes));
                self.stream(&body[at..], deltas);
            }
            Reading::Document(body) => body.extend_from_slice(bytes),
            Reading::Stream(_) => self.stream(bytes, deltas),
            Reading::Ended | Reading::Failed(_) => {}
        }
    }

    /// True if the answer is complete or has failed: further bytes are ignored.
    pub fn is_over(&self) -> bool {
        match &self.reading {
            Reading::Document(body) => {
                !(200..300).contains(&self.status) && body.len() >= ERROR_BODY_BYTES_MAX
            }
            Reading::Start(..) | Reading::Stream(_) => false,
            Reading::Ended | Reading::Failed(_) => true,
        }
    }

    /// The answer, after the last byte.
    ///
    /// # Errors
    ///
    /// The provider reported a failure, the bytes are no answer, or they ended too early.
    pub fn end(mut self) -> Result<Completion, ModelError> {
        let retry_after_s = self.retry_after_s;
        let result = match mem::replace(&mut self.reading, Reading::Ended) {
            Reading::Start(body, _) | Reading::Document(body) => self.document(&body),
            Reading::Stream(splitter) => self.stream_end(splitter),
            Reading::Ended => self.message.finish(),
            Reading::Failed(failure) => Err(failure),
        };
        result.map_err(|failure| ModelError { retry_after_s, ..failure })
    }

    fn stream(&mut self, bytes: &[u8], deltas: &mut Vec<Delta>) {
        let Reading::Stream(splitter) = &mut self.reading else { return };
        let (message, mut ended) = (&mut self.message, None);
        let _ = splitter.push(bytes, |event| match message.event(&event, deltas) {
            Ok(Progress::More) => ControlFlow::Continue(()),
            Ok(Progress::Over) => {
                ended = Some(Reading::Ended);
                ControlFlow::Break(())
            }
            Err(failure) => {
                ended = Some(Reading::Failed(failure));
                ControlFlow::Break(())
            }
        });
        if ended.is_none() && splitter.is_too_long() {
            ended =
                Some(Reading::Failed(failure::beyond("bytes in a line or event", self.limits.line_bytes)));
        }
        if let Some(reading) = ended {
            self.reading = reading;
        }
    }

    /// A complete object cannot be half an object, so an event that lacks only its last empty line counts.
    fn stream_end(mut self, mut splitter: SseSplitter) -> Result<Completion, ModelError> {
        if let Some(event) = splitter.end() {
            let is_whole =
                is_done(event.data) || matches!(json::parse(event.data), Parsed::Value(Value::Object(_)));
            if is_whole && self.message.event(&event, &mut Vec::new())? == Progress::Over {
                return self.message.finish();
            }
        }
        // A call that was cut in its arguments must not look like a call.
        if self.message.is_finished() {
            self.message.finish()
        } else {
            Err(failure::bare(ModelErrorClass::Connection))
        }
    }

    fn document(mut self, body: &[u8]) -> Result<Completion, ModelError> {
        let body = String::from_utf8_lossy(body.strip_prefix(BOM).unwrap_or(body));
        if !(200..300).contains(&self.status) {
            return Err(failure::of_http(self.status, &body));
        }
        match json::parse(&body) {
            Parsed::Value(Value::Object(document)) => {
                match &mut self.message {
                    Message::OpenAi(message) => message.document(&document)?,
                    Message::Anthropic(message) => message.document(&document)?,
                }
                self.message.finish()
            }
            Parsed::Value(Value::Array(items)) if reports_error(&items) => {
                Err(failure::of_value(&Value::Array(items), &body))
            }
            Parsed::Value(_) | Parsed::Invalid => Err(failure::bare(ModelErrorClass::InvalidOutput)),
            Parsed::Cut => Err(failure::bare(ModelErrorClass::Connection)),
        }
    }
}

impl Message {
    fn event(
        &mut self,
        &SseEvent { name, data }: &SseEvent<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<Progress, ModelError> {
        if is_done(data) {
            return Ok(Progress::Over);
        }
        if name != "error" && self.plain(data, deltas) {
            return Ok(Progress::More);
        }
        let object: Object = match json::parse(data) {
            Parsed::Value(Value::Object(object)) if name == "error" => {
                return Err(failure::of_object(&object));
            }
            Parsed::Value(Value::Object(object)) => object,
            Parsed::Value(value) if name == "error" => return Err(failure::of_value(&value, data)),
            _ if name == "error" => return Err(failure::of_value(&Value::Null, data)),
            Parsed::Cut => return Err(failure::bare(ModelErrorClass::Connection)),
            // A frame is never skipped: it may have held text.
            Parsed::Value(_) | Parsed::Invalid => return Err(failure::bare(ModelErrorClass::InvalidOutput)),
        };
        match self {
            Message::OpenAi(message) => message.chunk(&object, deltas).map(|()| Progress::More),
            Message::Anthropic(message) => message.event(name, &object, deltas),
        }
    }

    /// Takes one of the most frequent events without a tree of values; `false` if the event is another.
    fn plain(&mut self, data: &str, deltas: &mut Vec<Delta>) -> bool {
        match self {
            Message::OpenAi(message) => message.plain_chunk(data, deltas),
            Message::Anthropic(message) => message.plain_piece(data, deltas),
        }
    }

    fn is_finished(&self) -> bool {
        match self {
            Message::OpenAi(message) => message.is_finished(),
            Message::Anthropic(message) => message.is_finished(),
        }
    }

    fn finish(self) -> Result<Completion, ModelError> {
        match self {
            Message::OpenAi(message) => message.finish(),
            Message::Anthropic(message) => message.finish(),
        }
    }
}

/// What the first bytes of a body tell.
enum Start {
    Unknown,
    Document,
    /// Offset of the first event.
    Stream(usize),
}

/// Tells a stream from a document. `blanks` is the length known to be blank, so that each byte is looked at once.
fn start(body: &[u8], blanks: &mut usize) -> Start {
    if *blanks == 0 && BOM.starts_with(&body[..body.len().min(BOM.len())]) {
        if body.len() < BOM.len() {
            return Start::Unknown;
        }
        *blanks = BOM.len();
    }
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    *blanks += body[*blanks..].iter().take_while(is_blank).count();
    let rest = &body[*blanks..];
    if STREAM_STARTS.iter().any(|prefix| rest.starts_with(prefix)) {
        Start::Stream(*blanks)
    } else if STREAM_STARTS.iter().any(|prefix| prefix.starts_with(rest)) {
        Start::Unknown
    } else {
        Start::Document
    }
}

fn is_done(data: &str) -> bool {
    data.trim() == "[DONE]"
}

fn reports_error(items: &[Value]) -> bool {
    items.first().and_then(Value::as_object).is_some_and(|first| json::has(first, "error"))
}
