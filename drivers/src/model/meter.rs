//! Counts what a call of a model brings and costs, and reports it to the attempt.

use std::sync::Arc;

use ostler_kernel::id::Digest;
use ostler_kernel::ledger::{Price, Tokens};
use ostler_kernel::port::{
    AttemptLog, CallGrant, Completion, Delta, ModelCall, ModelError, ModelErrorClass, ModelRequest,
    ModelTurnEnd,
};
use tokio::time::Instant;

use super::models::ConfiguredModel;
use super::tokens::{completion_bytes, estimate_tokens};

/// Fewest bytes of a token.
const TOKEN_BYTES_MIN: u64 = 1;

/// Tokens that a provider adds to a prompt at most: instructions of its own and for the use of tools, a few hundred where they are known.
const ADDED_TOKENS_MAX: u64 = 4 << 10;

/// Tokens that a provider adds to a message at most: its role and its ends.
const MESSAGE_TOKENS_MAX: u64 = 16;

/// Highest count of a prompt that is charged, whatever the provider counts.
fn input_tokens_max(request: &ModelRequest, bytes: u64) -> u64 {
    let messages = request.messages.len() as u64 * MESSAGE_TOKENS_MAX;
    (bytes / TOKEN_BYTES_MIN).saturating_add(messages).saturating_add(ADDED_TOKENS_MAX)
}

/// The meter of one call. A dropped meter reports the call as cancelled, with what came until then.
pub(super) struct CallMeter {
    attempt: Arc<dyn AttemptLog>,
    /// Number of the call within the attempt.
    call: u32,
    model: String,
    price: Option<Price>,
    prices: Option<Digest>,
    reservation: Option<u64>,
    input_bytes: u64,
    input_tokens_max: u64,
    output_tokens_max: u64,
    output_bytes: u64,
    started: Instant,
    first_piece_ms: Option<u64>,
    provider: &'static str,
    requested: Option<String>,
    is_reported: bool,
}

impl CallMeter {
    /// `input_bytes`: those of the request.
    pub(super) fn start(
        model: &ConfiguredModel,
        request: &ModelRequest,
        input_bytes: u64,
        attempt: Arc<dyn AttemptLog>,
        grant: CallGrant,
    ) -> CallMeter {
        let call = attempt.model_begins(request.answer_form());
        CallMeter {
            attempt,
            call,
            model: model.name.clone(),
            price: model.price,
            prices: model.prices,
            reservation: grant.reservation,
            input_bytes,
            input_tokens_max: input_tokens_max(request, input_bytes),
            output_tokens_max: grant.max_output_tokens.into(),
            output_bytes: 0,
            started: Instant::now(),
            first_piece_ms: None,
            provider: model.config.provider.as_str(),
            requested: model.config.model.clone(),
            is_reported: false,
        }
    }

    /// Counts a piece and shows it.
    pub(super) fn piece(&mut self, delta: &Delta) {
        if self.first_piece_ms.is_none() {
            self.first_piece_ms = u64::try_from(self.started.elapsed().as_millis()).ok();
        }
        let (Delta::Text(text)
        | Delta::Reasoning(text)
        | Delta::Arguments { text, .. }
        | Delta::Call { name: text, .. }) = delta;
        self.output_bytes += text.len() as u64;
        self.attempt.model_delta(self.call, delta);
    }

    /// Reports the end of the call. Returns true if the call is to be made again, in another turn.
    pub(super) fn end(mut self, called: &Result<Completion, ModelError>) -> bool {
        self.is_reported = true;
        let report = match called {
            Ok(completion) => {
                let usage = completion.usage;
                // A count of nothing for something says only that nobody counted.
                let counted = |count: Option<u64>, bytes| match count {
                    Some(count) if count > 0 || bytes == 0 => count,
                    _ => estimate_tokens(bytes),
                };
                let tokens = Tokens {
                    input: counted(usage.input, self.input_bytes),
                    output: counted(usage.output, completion_bytes(completion)),
                    cache_read: usage.cache_read.unwrap_or(0),
                    cache_write: usage.cache_write.unwrap_or(0),
                };
                ModelCall {
                    answered_by: completion.model.clone(),
                    response_id: completion.response_id.clone(),
                    ..self.report(completion.finish.as_str(), tokens)
                }
            }
            Err(error) => {
                // A provider that refuses a request charges nothing; one that answered, and badly, does. One that was not heard any
                // more may have read all of the prompt.
                let is_lost = error.class == ModelErrorClass::Connection && !error.is_unsent;
                let is_charged =
                    self.first_piece_ms.is_some() || is_lost || error.class == ModelErrorClass::InvalidOutput;
                let tokens = if is_charged { self.so_far() } else { Tokens::default() };
                self.report(error.class.as_str(), tokens)
            }
        };
        let (is_refused, next_call_s) = match called {
            Ok(completion) => (false, completion.next_call_s),
            Err(error) if error.class == ModelErrorClass::RateLimited => (true, error.retry_after_s),
            Err(_) => (false, None),
        };
        self.tell(report, is_refused, next_call_s)
    }

    fn tell(&self, report: ModelCall, is_refused: bool, next_call_s: Option<f64>) -> bool {
        if let Some(reservation) = self.reservation {
            self.attempt.settle_call(reservation, &report);
        }
        let tokens = report.input_tokens.saturating_add(report.output_tokens);
        self.attempt.model_called(self.call, report);
        let next_call_ms = next_call_s.map(|seconds| (seconds * 1_000.0).ceil() as u64);
        self.attempt.model_turn_ended(ModelTurnEnd { model: &self.model, tokens, is_refused, next_call_ms })
    }

    fn so_far(&self) -> Tokens {
        Tokens {
            input: estimate_tokens(self.input_bytes),
            output: estimate_tokens(self.output_bytes),
            ..Tokens::default()
        }
    }

    /// A provider's counts within what the request allows.
    fn believed(&self, counted: Tokens) -> Tokens {
        let input = counted.input.min(self.input_tokens_max);
        let output = counted.output.min(self.output_tokens_max);
        let cache_read = counted.cache_read.min(input);
        let cache_write = counted.cache_write.min(input - cache_read);
        let believed = Tokens { input, output, cache_read, cache_write };
        if believed != counted {
            tracing::warn!(
                model = %self.model, ?counted, charged = ?believed,
                "the provider counts more tokens than the request and max_output_tokens allow; its bill may be higher"
            );
        }
        believed
    }

    fn report(&self, finish: &str, tokens: Tokens) -> ModelCall {
        let tokens = self.believed(tokens);
        ModelCall {
            model: self.model.clone(),
            answered_by: None,
            response_id: None,
            finish: finish.to_owned(),
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cached_tokens: tokens.cache_read,
            nano_usd: self.price.map(|price| price.nano_usd(tokens)),
            prices: self.prices,
            first_piece_ms: self.first_piece_ms,
            took_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ended_at: 0,
            provider: self.provider.to_owned(),
            requested: self.requested.clone(),
        }
    }
}

impl Drop for CallMeter {
    fn drop(&mut self) {
        if !self.is_reported {
            let report = self.report(ModelCall::CANCELLED, self.so_far());
            self.tell(report, false, None);
        }
    }
}
