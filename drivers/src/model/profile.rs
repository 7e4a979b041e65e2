//! Deviations of OpenAI-compatible servers from OpenAI's API.

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::config_check::is_loopback;

/// An OpenAI-compatible server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// OpenAI.
    OpenAi,
    /// Azure OpenAI.
    Azure,
    /// OpenRouter.
    OpenRouter,
    /// Ollama.
    Ollama,
    /// The server of llama.cpp.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// Groq.
    Groq,
    /// Mistral.
    Mistral,
    /// DeepSeek.
    DeepSeek,
    /// The OpenAI-compatible API of Gemini.
    Gemini,
    /// Any other server.
    Generic,
}

/// How a server takes a schema of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaMode {
    /// Enforced if every object is closed and every field required.
    Strict,
    /// Taken as it is, and enforced as far as the server can.
    Plain,
    /// Only "some JSON object" can be asked for; the prompt holds the schema.
    JsonObject,
}

/// The deviations of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quirks {
    pub(super) schema: SchemaMode,
    /// The server enforces strict schemas of the parameters of tools.
    pub(super) strict_tools: bool,
    /// Name of the field for the maximum tokens of the answer.
    pub(super) max_tokens: &'static str,
    /// Name of the field for the seed.
    pub(super) seed: &'static str,
    /// Value of `tool_choice` for "at least one tool".
    pub(super) required: &'static str,
    /// The server tells the usage of a stream only if asked with `stream_options`.
    pub(super) asks_usage: bool,
    /// Header of the key; the others take `authorization: Bearer`.
    pub(super) key_header: Option<&'static str>,
}

impl Profile {
    /// The profile of the server at this address.
    pub(super) fn of_host(url: &Url) -> Profile {
        let host = url.host_str().unwrap_or("");
        let is_of = |domain: &str| {
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        match url.port_or_known_default() {
            Some(11_434) if is_loopback(url) => return Profile::Ollama,
            Some(8_080) if is_loopback(url) => return Profile::LlamaCpp,
            _ => {}
        }
        for (domain, profile) in [
            ("api.openai.com", Profile::OpenAi),
            ("openai.azure.com", Profile::Azure),
            ("azure.com", Profile::Azure),
            ("openrouter.ai", Profile::OpenRouter),
            ("groq.com", Profile::Groq),
            ("mistral.ai", Profile::Mistral),
            ("deepseek.com", Profile::DeepSeek),
            ("generativelanguage.googleapis.com", Profile::Gemini),
        ] {
            if is_of(domain) {
                return profile;
            }
        }
        Profile::Generic
    }

    pub(super) fn quirks(self) -> Quirks {
        let usual = Quirks {
            schema: SchemaMode::Plain,
            strict_tools: false,
            max_tokens: "max_tokens",
            seed: "seed",
            required: "required",
            asks_usage: true,
            key_header: None,
        };
        match self {
            Profile::OpenAi | Profile::Azure => Quirks {
                schema: SchemaMode::Strict,
                strict_tools: true,
                max_tokens: "max_completion_tokens",
                key_header: (self == Profile::Azure).then_some("api-key"),
                ..usual
            },
            Profile::OpenRouter | Profile::Groq => Quirks { schema: SchemaMode::Strict, ..usual },
            // Mistral refuses fields that it does not know, and tells the usage unasked.
            Profile::Mistral => Quirks { seed: "random_seed", required: "any", asks_usage: false, ..usual },
            Profile::DeepSeek => Quirks { schema: SchemaMode::JsonObject, ..usual },
            Profile::Ollama | Profile::LlamaCpp | Profile::Vllm | Profile::Gemini | Profile::Generic => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_tells_the_profile() {
        for (url, profile) in [
            ("https://api.openai.com/v1", Profile::OpenAi),
            ("https://mine.openai.azure.com/openai/v1", Profile::Azure),
            ("https://openrouter.ai/api/v1", Profile::OpenRouter),
            ("http://127.0.0.1:11434/v1", Profile::Ollama),
            ("http://localhost:8080/v1", Profile::LlamaCpp),
            ("http://example.com:11434/v1", Profile::Generic),
            ("https://notmistral.ai/v1", Profile::Generic),
            ("https://api.mistral.ai/v1", Profile::Mistral),
        ] {
            assert_eq!(Profile::of_host(&Url::parse(url).unwrap()), profile, "{url}");
        }
    }
}
