//! The tables `[models.NAME]` and `[roles]` of the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ostler_kernel::plan::{DURATION_RULE, HumanDuration, MODEL_DEFAULT};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

use super::price::PriceConfig;
use super::profile::Profile;

/// Default of `max_output_tokens`.
pub const MAX_OUTPUT_TOKENS_DEFAULT: u32 = 2_048;
/// Default of `timeout`.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// Default of `idle_timeout`.
pub const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Maximum of `timeout` and `idle_timeout`.
pub const MODEL_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// All models, and the roles they serve.
///
/// ```
/// let text = r#"
///     [models.default]
///     provider = "openai"
///     base_url = "http://127.0.0.1:11434/v1"
///     model = "qwen3:8b"
///     price = "free"
///     [roles]
///     judge = "default"
/// "#;
/// let config: ostler_drivers::model::ModelsConfig = toml::from_str(text).unwrap();
/// assert!(config.check().is_empty());
/// assert_eq!(config.model_of("planner"), "default");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// `[models.NAME]`.
    pub models: BTreeMap<String, ModelConfig>,
    /// `[roles]`: names of models by role.
    pub roles: BTreeMap<String, String>,
}

/// `[models.NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table of a model")]
pub struct ModelConfig {
    /// Kind of driver.
    pub provider: Provider,
    /// Address of the API; `None`: the provider's own.
    pub base_url: Option<String>,
    /// Name of the model, as the provider knows it.
    pub model: Option<String>,
    /// Environment variable that holds the key; `None`: no key is sent.
    pub api_key_env: Option<KeyVariable>,
    /// Deviations of the server from OpenAI's API; `None`: by host.
    pub profile: Option<Profile>,
    /// Tokens that fit the model, prompt and answer together.
    pub context_tokens: Option<u32>,
    /// Maximum tokens of an answer.
    #[serde(default = "max_output_tokens")]
    pub max_output_tokens: u32,
    /// Maximum duration of a call.
    #[serde(default = "timeout", deserialize_with = "with_unit")]
    pub timeout: Duration,
    /// Maximum time between two chunks of an answer.
    #[serde(default = "idle_timeout", deserialize_with = "with_unit")]
    pub idle_timeout: Duration,
    /// Price; `None`: from the table that ships.
    pub price: Option<PriceConfig>,
    /// Maximum requests in a minute.
    pub requests_per_minute: Option<u32>,
    /// Maximum tokens in a minute.
    pub tokens_per_minute: Option<u32>,
    /// Models that are asked in turn when this one is overloaded, broken or too small.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// The script, or the cassette.
    pub file: Option<PathBuf>,
    /// Plays or records a cassette.
    #[serde(default)]
    pub mode: CassetteMode,
    /// Dialect that a cassette records.
    #[serde(default)]
    pub dialect: Dialect,
}

impl ModelConfig {
    /// The configuration of a model with defaults for all but the provider.
    pub fn of(provider: Provider) -> ModelConfig {
        ModelConfig {
            provider,
            base_url: None,
            model: None,
            api_key_env: None,
            profile: None,
            context_tokens: None,
            max_output_tokens: MAX_OUTPUT_TOKENS_DEFAULT,
            timeout: TIMEOUT_DEFAULT,
            idle_timeout: IDLE_TIMEOUT_DEFAULT,
            price: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            fallback: Vec::new(),
            file: None,
            mode: CassetteMode::default(),
            dialect: Dialect::default(),
        }
    }

    /// A model that answers from a script.
    pub fn scripted(file: impl Into<PathBuf>) -> ModelConfig {
        ModelConfig { file: Some(file.into()), ..ModelConfig::of(Provider::Scripted) }
    }

    /// Dialect of the requests; `None` for a script.
    pub fn dialect(&self) -> Option<Dialect> {
        match self.provider {
            Provider::Openai => Some(Dialect::Openai),
            Provider::Anthropic => Some(Dialect::Anthropic),
            Provider::Cassette => Some(self.dialect),
            Provider::Scripted => None,
        }
    }

    /// Address of the API, configured or the provider's own.
    pub fn base_url(&self) -> &str {
        let own = match self.dialect() {
            Some(Dialect::Anthropic) => "https://api.anthropic.com",
            Some(Dialect::Openai) => "https://api.openai.com/v1",
            None => "",
        };
        self.base_url.as_deref().unwrap_or(own)
    }
}

/// Kinds of drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// An API like OpenAI's chat completions.
    Openai,
    /// An API like Anthropic's messages.
    Anthropic,
    /// Answers from a file.
    Scripted,
    /// Recorded HTTP exchanges.
    Cassette,
}

impl Provider {
    /// The name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Openai => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Scripted => "scripted",
            Provider::Cassette => "cassette",
        }
    }
}

/// Dialects of HTTP APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `POST /chat/completions`.
    #[default]
    Openai,
    /// `POST /v1/messages`.
    Anthropic,
}

/// Whether a cassette plays or records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CassetteMode {
    /// Answers from the file; no network.
    #[default]
    Play,
    /// Calls the provider, and appends each exchange to the file.
    Record,
}

/// Name of an environment variable that holds a key. A text that could be a key itself is dropped at once, so that no message
/// and no record repeats it; [`ModelsConfig::check`] reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct KeyVariable(Option<String>);

impl KeyVariable {
    /// The name; `None` if the text was no name of a variable.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl From<String> for KeyVariable {
    fn from(text: String) -> KeyVariable {
        // Keys have small letters or dashes; names of variables for keys have neither.
        let is_name = (1..=128).contains(&text.len())
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        KeyVariable(is_name.then_some(text))
    }
}

impl ModelsConfig {
    /// Name of the model that thinks for a role.
    pub fn model_of(&self, role: &str) -> &str {
        self.roles.get(role).map_or(MODEL_DEFAULT, String::as_str)
    }
}

fn max_output_tokens() -> u32 {
    MAX_OUTPUT_TOKENS_DEFAULT
}

fn timeout() -> Duration {
    TIMEOUT_DEFAULT
}

fn idle_timeout() -> Duration {
    IDLE_TIMEOUT_DEFAULT
}

/// Deserialises a duration with a unit, above zero.
fn with_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct WithUnit;

    impl Visitor<'_> for WithUnit {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{DURATION_RULE}, in quotes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            let duration = HumanDuration::with_unit(text)
                .and_then(|duration| u64::try_from(duration.ticks(1_000)).ok())
                .map(Duration::from_millis)
                .filter(|duration| !duration.is_zero() && *duration <= MODEL_TIMEOUT_MAX);
            duration.ok_or_else(|| {
                E::custom(format!(
                    "expected {DURATION_RULE}, in quotes, above zero and at most 24h, found {text:?}"
                ))
            })
        }
    }

    deserializer.deserialize_str(WithUnit)
}
