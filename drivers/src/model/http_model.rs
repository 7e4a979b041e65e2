//! A model behind an HTTP API: sends requests in its dialect, and decodes the response while it arrives.

use std::path::Path;
use std::time::Duration;

use ostler_kernel::port::{BoxFuture, Completion, Delta, Model, ModelError, ModelErrorClass, ModelRequest};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::cassette::{Header, Player, Recorder};
use super::config::{Dialect, ModelConfig};
use super::config_check::{ConfigFault, endpoint};
use super::decode::{Decoder, Limits, Protocol};
use super::exchange::{Body, Exchange};
use super::key::{Key, Veil};
use super::profile::{Profile, Quirks};
use super::rate_headers;
use super::tokens::{completion_bytes, delta_bytes};
use super::transport::{KeyHeader, Transport};
use super::wire::{Restore, WireRequest};
use super::{anthropic, openai};

/// A model of a provider.
#[derive(Debug)]
pub(super) struct HttpModel {
    place: String,
    model: String,
    dialect: Dialect,
    quirks: Quirks,
    max_output_tokens: u32,
    timeout: Duration,
    idle_timeout: Duration,
    limits: Limits,
    key: Key,
    exchange: Exchange,
}

impl HttpModel {
    /// A model that calls its provider. `record`: the cassette that keeps the exchanges.
    ///
    /// # Errors
    ///
    /// The address is invalid, or the cassette cannot be written.
    pub(super) fn calling(
        name: &str,
        config: &ModelConfig,
        key: Key,
        folder: &Path,
        record: Option<&Path>,
    ) -> Result<HttpModel, ConfigFault> {
        let fault =
            |field: &str, what, help| ConfigFault { place: format!("models.{name}.{field}"), what, help };
        let base = endpoint(config).map_err(|(what, help)| fault("base_url", what, help))?;
        let dialect = config.dialect().unwrap_or_default();
        let profile = config.profile.unwrap_or_else(|| Profile::of_host(&base));
        let header = match (dialect, profile.quirks().key_header) {
            (Dialect::Anthropic, _) => KeyHeader::Plain("x-api-key"),
            (Dialect::Openai, Some(name)) => KeyHeader::Plain(name),
            (Dialect::Openai, None) => KeyHeader::Bearer,
        };
        let transport = Transport::new(format!("models.{name}"), base, key.clone(), header);
        let model = config.model.clone().unwrap_or_default();
        let form = Header::new(dialect, profile, &model);
        let exchange = match record {
            None => Exchange::Http(transport),
            Some(file) => {
                let recorder =
                    Recorder::open(folder, file, form.clone(), key.clone()).map_err(|problem| {
                        let what = format!("{}: {problem}", folder.join(file).display());
                        fault("file", what, "name another file, or remove this one".to_owned())
                    })?;
                Exchange::Record(transport, recorder)
            }
        };
        Ok(HttpModel::over(name, config, &form, key, exchange))
    }

    /// A model that a cassette answers for; returns the bytes of the cassette too.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no cassette.
    pub(super) fn played(
        name: &str,
        config: &ModelConfig,
        file: &Path,
    ) -> Result<(HttpModel, Vec<u8>), String> {
        let (mut form, player, bytes) = Player::open(file)?;
        if let Some(profile) = config.profile {
            form.profile = profile;
        }
        if let Some(model) = &config.model {
            form.model.clone_from(model);
        }
        Ok((HttpModel::over(name, config, &form, Key::default(), Exchange::Play(player)), bytes))
    }

    fn over(name: &str, config: &ModelConfig, form: &Header, key: Key, exchange: Exchange) -> HttpModel {
        HttpModel {
            place: format!("models.{name}"),
            model: form.model.clone(),
            dialect: form.dialect,
            quirks: form.profile.quirks(),
            max_output_tokens: config.max_output_tokens,
            timeout: config.timeout,
            idle_timeout: config.idle_timeout,
            limits: Limits::default(),
            key,
            exchange,
        }
    }

    /// Most tokens of the answer to a request.
    fn max_tokens(&self, request: &ModelRequest) -> u32 {
        let asked = request.sampling.max_output_tokens.unwrap_or(self.max_output_tokens);
        asked.clamp(1, self.max_output_tokens)
    }

    fn wire(&self, request: &ModelRequest) -> WireRequest {
        let max_tokens = self.max_tokens(request);
        match self.dialect {
            Dialect::Openai => openai::request(&self.model, request, max_tokens, self.quirks),
            Dialect::Anthropic => anthropic::request(&self.model, request, max_tokens),
        }
    }

    async fn exchange(
        &self,
        request: ModelRequest,
        delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Completion, ModelError> {
        let WireRequest { path, body, names, answer_tool } = self.wire(&request);
        let max_tokens = self.max_tokens(&request);
        drop(request);
        let (protocol, headers) = match self.dialect {
            Dialect::Openai => (Protocol::OpenAi, &[][..]),
            Dialect::Anthropic => (Protocol::Anthropic, &anthropic::HEADERS[..]),
        };
        let deadline = Instant::now() + self.timeout;
        let sent = timeout_at(deadline, self.exchange.send(path, headers, &body)).await;
        let (head, mut response) = sent.map_err(|_| self.too_slow())??;
        let pairs = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let next_call_s = rate_headers::next_call_s(pairs.clone());
        let mut decoder = Decoder::with_limits(protocol, head.status, pairs.clone(), self.limits);
        let mut restore = Restore::of(names, answer_tool);
        let (mut is_shown, mut answer_bytes) = (false, 0);
        let mut veil = Veil::of(&self.key);
        let mut show = |piece: Delta| {
            is_shown = true;
            answer_bytes += delta_bytes(&piece);
            restore.delta(piece).into_iter().filter_map(|piece| veil.piece(piece)).for_each(&mut *delta);
        };
        // A connection that broke after the last byte of the answer does no harm; the decoder knows.
        let cut = self.read(&mut response, &mut decoder, deadline, max_tokens, &mut show).await.err();
        veil.rest().for_each(&mut *delta);
        let ended = decoder.end();
        let answer_bytes = ended.as_ref().map_or(answer_bytes, completion_bytes).max(answer_bytes);
        if answer_bytes > answer_bytes_max(max_tokens) {
            return Err(self.endless(max_tokens));
        }
        if cut.is_none() {
            let shows_key = |taped: Vec<u8>| {
                let mut decoder = Decoder::with_limits(protocol, head.status, pairs, self.limits);
                decoder.push(&taped);
                decoder.end().is_ok_and(|completion| self.repeats_key(&completion))
            };
            let repeats_key = ended.as_ref().is_ok_and(|completion| self.repeats_key(completion));
            if repeats_key && response.taped(&self.key).is_some_and(shows_key) {
                return Err(self.unrecordable());
            }
            response.keep().await?;
        }
        match ended {
            Ok(mut completion) => {
                restore.completion(&mut completion);
                completion.next_call_s = next_call_s;
                self.clean(&mut completion);
                // Some servers answer a request for a stream with one document.
                if !is_shown && !completion.text.is_empty() {
                    delta(Delta::Text(completion.text.clone()));
                }
                Ok(completion)
            }
            Err(mut error) => {
                if error.class == ModelErrorClass::RateLimited {
                    error.retry_after_s = error.retry_after_s.or(next_call_s);
                }
                Err(self.explain(error, cut))
            }
        }
    }

    /// Feeds the decoder until the answer is complete.
    async fn read(
        &self,
        response: &mut Body<'_>,
        decoder: &mut Decoder,
        deadline: Instant,
        max_tokens: u32,
        delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), ModelError> {
        let mut left = answer_bytes_max(max_tokens);
        // A server may send its head at once and then read a long prompt, so the first chunk has the time of the call.
        let mut until = deadline;
        loop {
            let chunk = timeout_at(until, response.chunk()).await;
            let chunk = chunk.map_err(|_| if until < deadline { self.idle() } else { self.too_slow() })??;
            let Some(chunk) = chunk else { return Ok(()) };
            for piece in decoder.push(&chunk) {
                left = left.saturating_sub(delta_bytes(&piece));
                delta(piece);
            }
            if decoder.is_over() {
                return Ok(());
            }
            if left == 0 {
                return Err(self.endless(max_tokens));
            }
            until = deadline.min(Instant::now() + self.idle_timeout);
        }
    }

    /// The error of a response, or of the connection that cut it.
    fn explain(&self, error: ModelError, cut: Option<ModelError>) -> ModelError {
        let mut error = match cut {
            // A status outside 2xx says more than the cut of its body.
            Some(cut) if error.status.is_none() && error.class == ModelErrorClass::Connection => cut,
            _ => error,
        };
        if error.status.is_some_and(|status| (300..400).contains(&status)) {
            // The same request is redirected again.
            error.class = ModelErrorClass::InvalidRequest;
            let place = &self.place;
            error.message = format!(
                "the server redirects, which is not followed; set base_url of {place} to the final address"
            );
        } else if error.message.is_empty() {
            error.message = match error.class {
                ModelErrorClass::InvalidOutput => {
                    "the response is no answer of such an API; check base_url".to_owned()
                }
                ModelErrorClass::Connection => "the response ended too early".to_owned(),
                _ => error.message,
            };
        }
        error.message = self.key.clean(&error.message);
        error
    }

    /// Removes the key from all that an answer may repeat.
    fn clean(&self, completion: &mut Completion) {
        let key = &self.key;
        completion.text = key.remove(&completion.text);
        completion.reasoning = key.remove(&completion.reasoning);
        completion.refusal = completion.refusal.take().map(|text| key.remove(&text));
        for call in &mut completion.tool_calls {
            call.name = key.remove(&call.name);
            call.id = call.id.take().map(|id| key.remove(&id));
            match &mut call.arguments {
                // The names of arguments are the model's own words too.
                Ok(arguments) => {
                    let mut whole = Value::Object(std::mem::take(arguments));
                    key.remove_from(&mut whole);
                    if let Value::Object(cleaned) = whole {
                        *arguments = cleaned;
                    }
                }
                Err(text) => *text = key.remove(text),
            }
        }
        if let Some(data) = &mut completion.provider_data {
            key.remove_from(data);
        }
        for text in [&mut completion.model, &mut completion.response_id].into_iter().flatten() {
            *text = self.key.clean(text);
        }
    }

    fn repeats_key(&self, completion: &Completion) -> bool {
        let mut cleaned = completion.clone();
        self.clean(&mut cleaned);
        cleaned != *completion
    }

    /// The key is in the answer and not in one piece of its bytes, so a cassette would keep it.
    fn unrecordable(&self) -> ModelError {
        self.unusable(format!("the answer repeats the key of {}, which a cassette must not hold", self.place))
    }

    /// The server ignores the limit of the request, or the model writes what nobody counts.
    fn endless(&self, max_tokens: u32) -> ModelError {
        let most = answer_bytes_max(max_tokens);
        let place = &self.place;
        self.unusable(format!(
            "the answer has more than {most} bytes although the request allows {max_tokens} tokens; if the server counts \
             other tokens, raise max_output_tokens of {place}"
        ))
    }

    fn unusable(&self, message: String) -> ModelError {
        ModelError { class: ModelErrorClass::InvalidOutput, message, ..self.late(String::new()) }
    }

    fn too_slow(&self) -> ModelError {
        self.late(format!(
            "no complete answer within {}; raise timeout of {}, or ask for less",
            shown(self.timeout),
            self.place
        ))
    }

    fn idle(&self) -> ModelError {
        self.late(format!("no bytes for {}; raise idle_timeout of {}", shown(self.idle_timeout), self.place))
    }

    fn late(&self, message: String) -> ModelError {
        ModelError {
            class: ModelErrorClass::Connection,
            status: None,
            message,
            retry_after_s: None,
            is_unsent: false,
        }
    }
}

impl Model for HttpModel {
    fn call<'a>(
        &'a self,
        request: ModelRequest,
        delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(self.exchange(request, delta))
    }
}

/// Most bytes of a token, on average over an answer. Runs of blanks or dashes have the longest tokens.
const TOKEN_BYTES_MAX: u64 = 16;

/// The beginning of an answer that may have longer tokens.
const ANSWER_BYTES_LEAST: u64 = 4 << 10;

fn answer_bytes_max(max_tokens: u32) -> u64 {
    ANSWER_BYTES_LEAST + u64::from(max_tokens) * TOKEN_BYTES_MAX
}

fn shown(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}
