//! Keys of providers, which no message, record or debug output shows.

use std::fmt;

use ostler_kernel::port::{Delta, ModelError, ModelErrorClass};
use serde_json::Value;

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
                is_unsent: false,
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

    /// Removes the key from every text of a value. A name that holds the key becomes another name.
    pub(super) fn remove_from(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.remove(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove_from(item)),
            Value::Object(members) => {
                let named = std::mem::take(members).into_iter();
                *members = named
                    .map(|(name, mut value)| {
                        self.remove_from(&mut value);
                        (self.remove(&name), value)
                    })
                    .collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
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

/// Removes the key from the pieces of an answer. The end of a text is held back as long as it could begin the key.
pub(super) struct Veil<'k> {
    key: &'k Key,
    text: String,
    reasoning: String,
}

impl<'k> Veil<'k> {
    pub(super) fn of(key: &'k Key) -> Veil<'k> {
        Veil { key, text: String::new(), reasoning: String::new() }
    }

    /// What may be shown of a piece; `None` while nothing may.
    pub(super) fn piece(&mut self, delta: Delta) -> Option<Delta> {
        match delta {
            Delta::Text(piece) => self.key.reveal(&mut self.text, piece).map(Delta::Text),
            Delta::Reasoning(piece) => self.key.reveal(&mut self.reasoning, piece).map(Delta::Reasoning),
            Delta::Call { at, name } => Some(Delta::Call { at, name: self.key.remove(&name) }),
            Delta::Arguments { at, text } => Some(Delta::Arguments { at, text: self.key.remove(&text) }),
        }
    }

    /// The ends that are still held back.
    pub(super) fn rest(self) -> impl Iterator<Item = Delta> {
        let of = |held: String| (!held.is_empty()).then_some(held);
        let reasoning = of(self.reasoning).map(Delta::Reasoning);
        reasoning.into_iter().chain(of(self.text).map(Delta::Text))
    }
}

impl Key {
    /// What may be shown of a text after its next piece. `held` keeps the end that could begin the key.
    fn reveal(&self, held: &mut String, piece: String) -> Option<String> {
        let Some(secret) = self.secret.as_ref().filter(|secret| secret.len() >= KEY_BYTES_MIN) else {
            return Some(piece);
        };
        *held = self.remove(&(std::mem::take(held) + &piece));
        let begins = |len: &usize| secret.get(..*len).is_some_and(|begin| held.ends_with(begin));
        let kept = (1..secret.len()).rev().find(begins).unwrap_or(0);
        let rest = held.split_off(held.len() - kept);
        let shown = std::mem::replace(held, rest);
        (!shown.is_empty()).then_some(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_pieces_of_any_size_is_never_shown() {
        let key = Key::read(Some("KEY"), &|_| Some("sk-canary-1".to_owned()));
        let answer = "the key is sk-canary-1, sk-canary- and sk-canary-1!";
        for (size, kind) in (1..answer.len())
            .flat_map(|size| [(size, Delta::Text as fn(String) -> Delta), (size, Delta::Reasoning)])
        {
            let (mut veil, mut shown) = (Veil::of(&key), String::new());
            let pieces =
                answer.as_bytes().chunks(size).map(|piece| String::from_utf8_lossy(piece).into_owned());
            let mut show = |delta| match delta {
                Delta::Text(text) | Delta::Reasoning(text) => shown += &text,
                other => panic!("{other:?}"),
            };
            pieces.for_each(|piece| veil.piece(kind(piece)).into_iter().for_each(&mut show));
            veil.rest().for_each(&mut show);
            assert_eq!(shown, "the key is [key removed], sk-canary- and [key removed]!", "{size}");
        }
    }
}
