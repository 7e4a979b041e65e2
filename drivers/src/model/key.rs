//! Keys of providers, which no message, record or debug output shows.

use std::fmt;

use ostler_kernel::port::{ModelError, ModelErrorClass};

/// Maximum bytes of a provider's message in an error.
pub const PROVIDER_MESSAGE_BYTES_MAX: usize = 2_048;

/// A shorter key is not searched in messages: it would match ordinary words.
const KEY_BYTES_MIN: usize = 4;

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

    /// Removes the key from a text of the provider, and cuts the text. In this order: a cut key would not be found.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = match &self.secret {
            Some(secret) if secret.len() >= KEY_BYTES_MIN && text.contains(secret.as_str()) => {
                text.replace(secret.as_str(), "[key removed]")
            }
            _ => text.to_owned(),
        };
        if text.len() > PROVIDER_MESSAGE_BYTES_MAX {
            text.truncate(text.floor_char_boundary(PROVIDER_MESSAGE_BYTES_MAX));
            text.push_str(" […]");
        }
        text
    }
}
