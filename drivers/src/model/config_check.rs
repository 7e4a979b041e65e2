//! Faults of the configuration of models that no single key shows.

use std::fmt;
use std::net::IpAddr;

use ostler_kernel::plan::MODEL_DEFAULT;
use reqwest::Url;

use super::config::{CassetteMode, ModelConfig, ModelsConfig, Provider};

/// Longest name of a model in the configuration, in bytes.
pub const MODEL_NAME_BYTES_MAX: usize = 64;
/// Maximum models of a configuration.
pub const MODELS_MAX: usize = 256;
/// Maximum fallback models of a model.
pub const FALLBACKS_MAX: usize = 8;

/// A fault of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// The key, such as `models.default.base_url`.
    pub place: String,
    /// The problem, as a sentence without a full stop.
    pub what: String,
    /// The remedy, as a sentence without a full stop.
    pub help: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.help)
    }
}

impl std::error::Error for ConfigFault {}

impl ModelsConfig {
    /// Every fault that the tables have together.
    pub fn check(&self) -> Vec<ConfigFault> {
        let mut faults = Vec::new();
        if self.models.len() > MODELS_MAX {
            faults.push(fault(
                "models",
                format!("{} models", self.models.len()),
                format!("configure at most {MODELS_MAX}"),
            ));
        }
        for (name, model) in &self.models {
            let place = format!("models.{name}");
            if !is_name(name) {
                faults.push(fault(
                    &place,
                    "not a name of a model",
                    format!("use at most {MODEL_NAME_BYTES_MAX} lower-case letters, digits, - and _, a letter first"),
                ));
            }
            self.check_fallback(name, model, &mut faults);
            check_model(&place, model, &mut faults);
        }
        for (role, model) in &self.roles {
            // Without any model, `default` names the one that a person configures next.
            let is_next = self.models.is_empty() && model == MODEL_DEFAULT;
            if !is_next && !self.models.contains_key(model) {
                faults.push(unknown_model(&format!("roles.{role}"), model));
            }
        }
        faults
    }

    fn check_fallback(&self, name: &str, model: &ModelConfig, faults: &mut Vec<ConfigFault>) {
        let place = format!("models.{name}.fallback");
        if model.fallback.len() > FALLBACKS_MAX {
            let what = format!("{} models", model.fallback.len());
            faults.push(fault(&place, what, format!("name at most {FALLBACKS_MAX}")));
        }
        for other in &model.fallback {
            if other == name {
                faults.push(fault(&place, "the model itself", "name other models"));
            } else if !self.models.contains_key(other) {
                faults.push(unknown_model(&place, other));
            }
        }
    }
}

fn check_model(place: &str, model: &ModelConfig, faults: &mut Vec<ConfigFault>) {
    let mut add =
        |key: &str, what: &str, help: &str| faults.push(fault(&format!("{place}.{key}"), what, help));
    if model.api_key_env.as_ref().is_some_and(|variable| variable.name().is_none()) {
        add(
            "api_key_env",
            "not the name of an environment variable (the value is not shown, as it could be a key)",
            "write the name of the variable that holds the key, such as OPENAI_API_KEY",
        );
    }
    let is_recording = model.provider == Provider::Cassette && model.mode == CassetteMode::Record;
    let calls_http = matches!(model.provider, Provider::Openai | Provider::Anthropic) || is_recording;
    if calls_http {
        if model.model.as_ref().is_none_or(|name| name.trim().is_empty()) {
            add("model", "missing", "name the model as the provider knows it");
        }
        if let Err((what, help)) = endpoint(model) {
            add("base_url", &what, &help);
        }
    }
    match model.provider {
        Provider::Scripted | Provider::Cassette if model.file.is_none() => {
            add("file", "missing", "name the file with the answers");
        }
        Provider::Openai | Provider::Anthropic if model.file.is_some() => {
            add("file", "only for scripted and cassette", "remove it, or set provider = \"cassette\"");
        }
        _ => {}
    }
    if model.max_output_tokens == 0 {
        add("max_output_tokens", "0", "use at least 1");
    }
    if model.context_tokens.is_some_and(|context| context <= model.max_output_tokens) {
        add("context_tokens", "not above max_output_tokens", "leave room for the prompt");
    }
    for (key, rate) in
        [("requests_per_minute", model.requests_per_minute), ("tokens_per_minute", model.tokens_per_minute)]
    {
        if rate == Some(0) {
            add(key, "0, which allows no call", "use at least 1, or remove the key for no limit");
        }
    }
    if let Some(problem) = model.price.as_ref().and_then(super::price::PriceConfig::problem) {
        add(
            "price",
            &problem,
            "write US dollars per million tokens, such as {input = 0.15, output = 0.6}, or \"free\"",
        );
    }
}

/// The address of the API.
pub(super) fn endpoint(model: &ModelConfig) -> Result<Url, (String, String)> {
    let fail = |what: &str, help: &str| Err((what.to_owned(), help.to_owned()));
    let example = "write an address such as http://127.0.0.1:11434/v1";
    // A wrong address may hold a password, so no message repeats it.
    let Ok(url) = Url::parse(model.base_url()) else { return fail("not a URL", example) };
    if !url.username().is_empty() || url.password().is_some() {
        return fail("holds a name or a password", "remove it, and name the key's variable in api_key_env");
    }
    if url.fragment().is_some() {
        return fail("holds a fragment", "remove # and what follows");
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) || model.api_key_env.is_none() => {}
        "http" => {
            return fail(
                "plain http would send the key unencrypted to another host",
                "use https, or remove api_key_env",
            );
        }
        _ => return fail("neither http nor https", example),
    }
    if url.host_str().is_none() { fail("without a host", example) } else { Ok(url) }
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("");
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

fn is_name(name: &str) -> bool {
    name.len() <= MODEL_NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_')
}

fn unknown_model(place: &str, name: &str) -> ConfigFault {
    fault(place, format!("model {name:?} is not configured"), format!("add [models.{name}], or name another"))
}

fn fault(place: &str, what: impl Into<String>, help: impl Into<String>) -> ConfigFault {
    ConfigFault { place: place.to_owned(), what: what.into(), help: help.into() }
}
