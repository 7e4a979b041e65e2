//! Keys of providers, which no message, record or debug output shows.

use std::fmt;

use ostler_kernel::port::{ModelError, ModelErrorClass};

/// Maximum bytes of a provider's message in an error.
pub const PROVIDER_MESSAGE_BYTES_MAX: usize = 2_048;

/// A shorter key is not searched in messages: it would match ordinary words.
const KEY_BYTES_MIN: usize = 4;

/// Stands where a key was.
const KEY_REMOVED: &str = "[key removed]";

/// The key of a model, by the name of its environment variable.
#[derive(Clone, Default)]
pub(super) struct Key {
    variable: Option<String>,
    secret: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.variable.as_deref().unwrap_or("none"))
    }
}

impl Key {
    /// Reads the variable, if there is one.
    pub(super) fn read(variable: Option<&str>, env: &dyn Fn(&str) -> Option<String>) -> Key {
        let secret = variable.and_then(env).map(|secret| secret.trim().to_owned());
        Key { variable: variable.map(str::to_owned), secret: secret.filter(|secret| !secret.is_empty()) }
    }

    /// True if no key is needed, or the variable holds one.
    pub(super) fn is_ready(&self) -> bool {
        self.variable.is_none() || self.secret.is_some()
    }

    /// The secret to send; `None` if no key is configured.
    ///
    /// # Errors
    ///
    /// The variable is not set.
    pub(super) fn secret(&self) -> Result<Option<&str>, ModelError> {
        match (&self.variable, &self.secret) {
            (Some(variable), None) => Err(ModelError {
                class: ModelErrorClass::Auth,
                status: None,
                message: format!(
                    "environment variable {variable} is not set; set it to the provider's key and start again"
                ),
                retry_after_s: None,
            }),
            (_, secret) => Ok(secret.as_deref()),
        }
    }

    /// The text without the key.
    pub(super) fn remove(&self, text: &str) -> String {
        let Some(secret) = self.secret.as_ref().filter(|secret| secret.len() >= KEY_BYTES_MIN) else {
            return text.to_owned();
        };
        let text = text.replace(secret.as_str(), KEY_REMOVED);
        // The form inside of JSON, where it is another.
        let quoted = serde_json::Value::from(secret.as_str()).to_string();
        match quoted.trim_matches('"') {
            escaped if escaped == secret => text,
            escaped => text.replace(escaped, KEY_REMOVED),
        }
    }

    /// Bytes that are no text, without the key.
    pub(super) fn remove_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let Some(secret) = self.secret.as_ref().filter(|secret| secret.len() >= KEY_BYTES_MIN) else {
            return bytes.to_vec();
        };
        let (mut kept, mut from) = (Vec::with_capacity(bytes.len()), 0);
        for at in memchr::memmem::find_iter(bytes, secret.as_bytes()) {
            kept.extend_from_slice(&bytes[from..at]);
            kept.extend_from_slice(KEY_REMOVED.as_bytes());
            from = at + secret.len();
        }
        kept.extend_from_slice(&bytes[from..]);
        kept
    }

    /// A text of the provider without the key, on one line, and cut. In this order: a cut key would not be found.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = self.remove(text).replace(char::is_control, " ");
        if text.len() > PROVIDER_MESSAGE_BYTES_MAX {
            let is_end = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=PROVIDER_MESSAGE_BYTES_MAX).rev().find(is_end).unwrap_or(0);
            text.truncate(end);
            text.push_str(" […]");
        }
        text
    }
}
