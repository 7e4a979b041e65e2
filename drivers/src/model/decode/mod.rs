//! Decodes the answer of a model provider into one normalised reading.
//!
//! [`Decoder`] takes the HTTP status, the headers and the bytes of the body as they arrive, and returns a [`Completion`] or a
//! [`ModelError`]. The result does not depend on how the bytes are split into chunks, and no rule looks at the provider: only the
//! [`Protocol`] and the bytes count. [`decode_case`] compares a
//! recorded response with its expected decoding.

#[cfg(doc)]
use ostler_kernel::port::{Completion, ModelError};

mod anthropic;
mod body;
mod calls;
mod failure;
mod json;
mod openai;
mod plain;
mod provider_data;
mod recorded_case;
mod retry_after;
mod sse;
mod usage;

pub use body::{Decoder, ERROR_BODY_BYTES_MAX};
pub use recorded_case::{BadCase, CaseResult, RecordedCase, decode_case};

/// Limits of a successful response. A response beyond one of them is `invalid_output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of the body.
    pub response_bytes: usize,
    /// Maximum bytes of a line of a stream, and of the data of an event.
    pub line_bytes: usize,
    /// Maximum tool calls.
    pub calls: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { response_bytes: 16 << 20, line_bytes: 4 << 20, calls: 1_024 }
    }
}

/// The dialect of an HTTP API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /chat/completions` as OpenAI defines it, and the many servers that copy it.
    OpenAi,
    /// `POST /messages` as Anthropic defines it.
    Anthropic,
}
