//! Decodes the answer of a model provider into one normalised reading.
//!
//! [`Decoder`] takes the HTTP status, the headers and the bytes of the body as they arrive, and returns an [`Answer`] or a
//! [`Failure`]. The result does not depend on how the bytes are split into chunks, and no rule looks at the provider: only the
//! [`Protocol`] and the bytes count. [`decode_case`] compares a
//! recorded response with its expected decoding.

mod answer;
mod anthropic;
mod body;
mod calls;
mod failure;
mod json;
mod openai;
mod plain;
mod recorded_case;
mod retry_after;
mod sse;
mod usage;

pub use answer::{Answer, Delta, Finish, ToolCall, Usage};
pub use body::Decoder;
pub use failure::{Class, Failure};
pub use recorded_case::{BadCase, CaseResult, decode_case};

/// The dialect of an HTTP API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /chat/completions` as OpenAI defines it, and the many servers that copy it.
    OpenAi,
    /// `POST /messages` as Anthropic defines it.
    Anthropic,
}
