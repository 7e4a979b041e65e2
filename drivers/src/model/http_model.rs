//! A model behind an HTTP API: sends requests in its dialect, and decodes the response while it arrives.

use std::time::Duration;

use ostler_kernel::port::{BoxFuture, Completion, Delta, Model, ModelError, ModelErrorClass, ModelRequest};
use tokio::time::{Instant, timeout_at};

use super::config::{Dialect, ModelConfig};
use super::config_check::{ConfigFault, endpoint};
use super::decode::{Decoder, Limits, Protocol};
use super::exchange::{Body, Exchange};
use super::key::Key;
use super::profile::{Profile, Quirks};
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
    /// The model of a table `[models.NAME]`.
    ///
    /// # Errors
    ///
    /// The address is invalid.
    pub(super) fn new(name: &str, config: &ModelConfig, key: Key) -> Result<HttpModel, ConfigFault> {
        let place = format!("models.{name}");
        let base = endpoint(config).map_err(|(what, help)| ConfigFault {
            place: format!("{place}.base_url"),
            what,
            help,
        })?;
        let dialect = config.dialect().unwrap_or_default();
        let quirks = config.profile.unwrap_or_else(|| Profile::of_host(&base)).quirks();
        let header = match (dialect, quirks.key_header) {
            (Dialect::Anthropic, _) => KeyHeader::Plain("x-api-key"),
            (Dialect::Openai, Some(name)) => KeyHeader::Plain(name),
            (Dialect::Openai, None) => KeyHeader::Bearer,
        };
        let transport = Transport::new(place.clone(), base, key.clone(), header);
        let exchange = Exchange::Http(transport);
        Ok(HttpModel::over(place, config, quirks, key, exchange))
    }

    fn over(place: String, config: &ModelConfig, quirks: Quirks, key: Key, exchange: Exchange) -> HttpModel {
        HttpModel {
            place,
            model: config.model.clone().unwrap_or_default(),
            dialect: config.dialect().unwrap_or_default(),
            quirks,
            max_output_tokens: config.max_output_tokens,
            timeout: config.timeout,
            idle_timeout: config.idle_timeout,
            limits: Limits::default(),
            key,
            exchange,
        }
    }

    fn wire(&self, request: &ModelRequest) -> WireRequest {
        let asked = request.sampling.max_output_tokens.unwrap_or(self.max_output_tokens);
        let max_tokens = asked.clamp(1, self.max_output_tokens);
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
        drop(request);
        let (protocol, headers) = match self.dialect {
            Dialect::Openai => (Protocol::OpenAi, &[][..]),
            Dialect::Anthropic => (Protocol::Anthropic, &anthropic::HEADERS[..]),
        };
        let deadline = Instant::now() + self.timeout;
        let sent = timeout_at(deadline, self.exchange.send(path, headers, &body)).await;
        let (head, mut response) = sent.map_err(|_| self.too_slow())??;
        let pairs = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut decoder = Decoder::with_limits(protocol, head.status, pairs, self.limits);
        let mut restore = Restore::of(names, answer_tool);
        let mut show = |piece| restore.delta(piece).into_iter().for_each(&mut *delta);
        // A connection that broke after the last byte of the answer does no harm; the decoder knows.
        let cut = self.read(&mut response, &mut decoder, deadline, &mut show).await.err();
        match decoder.end() {
            Ok(mut completion) => {
                restore.completion(&mut completion);
                self.clean(&mut completion);
                Ok(completion)
            }
            Err(error) => Err(self.explain(error, cut)),
        }
    }

    /// Feeds the decoder until the answer is complete.
    async fn read(
        &self,
        response: &mut Body<'_>,
        decoder: &mut Decoder,
        deadline: Instant,
        delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), ModelError> {
        // A server may send its head at once and then read a long prompt, so the first chunk has the time of the call.
        let mut until = deadline;
        loop {
            let chunk = timeout_at(until, response.chunk()).await;
            let chunk = chunk.map_err(|_| if until < deadline { self.idle() } else { self.too_slow() })??;
            let Some(chunk) = chunk else { return Ok(()) };
            decoder.push(&chunk).into_iter().for_each(&mut *delta);
            if decoder.is_over() {
                return Ok(());
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

    fn clean(&self, completion: &mut Completion) {
        for text in [&mut completion.model, &mut completion.response_id].into_iter().flatten() {
            *text = self.key.clean(text);
        }
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
        ModelError { class: ModelErrorClass::Connection, status: None, message, retry_after_s: None }
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

fn shown(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}
