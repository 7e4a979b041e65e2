//! One HTTP exchange: with the provider, or with a cassette.

use std::collections::VecDeque;

use ostler_kernel::port::{ModelError, ModelErrorClass};
use serde_json::Value;

use super::cassette::{Player, Recorder, Request};
use super::key::Key;
use super::transport::{Head, Transport};

/// The other end of an exchange.
#[derive(Debug)]
pub(super) enum Exchange {
    Http(Transport),
    Play(Player),
    Record(Transport, Recorder),
}

/// The body of a response. Dropping it closes the connection, and records nothing.
#[expect(clippy::large_enum_variant, reason = "one lives on the stack of each call")]
pub(super) enum Body<'a> {
    Http { response: reqwest::Response, transport: &'a Transport, tape: Option<Tape<'a>> },
    Played(VecDeque<Vec<u8>>),
}

/// What is recorded of a response so far.
pub(super) struct Tape<'a> {
    recorder: &'a Recorder,
    request: Request,
    head: Head,
    body: Vec<u8>,
    chunks: Vec<usize>,
}

impl Exchange {
    pub(super) async fn send(
        &self,
        path: &str,
        headers: &[(&'static str, &'static str)],
        body: &Value,
    ) -> Result<(Head, Body<'_>), ModelError> {
        let (transport, recorder) = match self {
            Exchange::Http(transport) => (transport, None),
            Exchange::Record(transport, recorder) => (transport, Some(recorder)),
            Exchange::Play(player) => {
                let (head, pieces) = player.answer(path, body)?;
                return Ok((head, Body::Played(pieces)));
            }
        };
        let (head, response) = transport.send(path, headers, body.to_string().into_bytes()).await?;
        let tape = recorder.map(|recorder| Tape {
            recorder,
            request: Request { path: path.to_owned(), body: body.clone() },
            head: head.clone(),
            body: Vec::new(),
            chunks: Vec::new(),
        });
        Ok((head, Body::Http { response, transport, tape }))
    }
}

impl Body<'_> {
    /// The next bytes; `None` after the last.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        match self {
            Body::Http { response, transport, tape } => {
                let chunk = response.chunk().await.map_err(|error| transport.lost(&error))?;
                if let (Some(tape), Some(chunk)) = (tape, &chunk) {
                    if !tape.body.is_empty() {
                        tape.chunks.push(tape.body.len());
                    }
                    tape.body.extend_from_slice(chunk);
                }
                Ok(chunk.map(Vec::from))
            }
            Body::Played(pieces) => Ok(pieces.pop_front()),
        }
    }

    /// The bytes that a cassette would keep; `None`: nothing is recorded.
    pub(super) fn taped(&self, key: &Key) -> Option<Vec<u8>> {
        let Body::Http { tape: Some(tape), .. } = self else { return None };
        Some(match std::str::from_utf8(&tape.body) {
            Ok(text) => key.remove(text).into_bytes(),
            Err(_) => key.remove_bytes(&tape.body),
        })
    }

    /// Keeps a complete exchange, if a cassette records.
    pub(super) async fn keep(self) -> Result<(), ModelError> {
        let Body::Http { tape: Some(tape), .. } = self else { return Ok(()) };
        let Tape { recorder, request, head, body, chunks } = tape;
        let recorder = recorder.clone();
        let file = recorder.file().display().to_string();
        let kept = tokio::task::spawn_blocking(move || recorder.keep(&request, &head, &body, chunks)).await;
        let kept = kept.unwrap_or_else(|error| Err(error.to_string()));
        kept.map_err(|problem| ModelError {
            class: ModelErrorClass::InvalidRequest,
            status: None,
            message: format!("cassette {file}: {problem}; the answer came and is not recorded"),
            retry_after_s: None,
            is_unsent: false,
        })
    }
}
