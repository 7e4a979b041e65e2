//! Keys of providers, which no message, record or debug output shows.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ostler_kernel::port::{Delta, ModelError, ModelErrorClass};
use ostler_kernel::text::beginning;
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
    /// Encoded forms of the secret, longest first; see [`encoded_forms`].
    forms: Vec<String>,
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
        let secret = secret.filter(|secret| !secret.is_empty());
        let searched = secret.as_deref().filter(|secret| secret.len() >= KEY_BYTES_MIN);
        let forms = searched.map(encoded_forms).unwrap_or_default();
        Key { variable: variable.map(str::to_owned), secret, forms }
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

    /// Removes every form of the key from a text.
    pub(super) fn remove(&self, text: &str) -> String {
        let found = self.forms.iter().filter(|form| text.contains(form.as_str()));
        found.fold(text.to_owned(), |text, form| text.replace(form.as_str(), KEY_REMOVED))
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
        self.forms.iter().fold(bytes.to_vec(), |bytes, form| without(&bytes, form.as_bytes()))
    }

    /// A text of the provider without the key, on one line, and cut. In this order: a cut key would not be found.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = self.remove(text).replace(char::is_control, " ");
        if text.len() > PROVIDER_MESSAGE_BYTES_MAX {
            text.truncate(beginning(&text, PROVIDER_MESSAGE_BYTES_MAX).len());
            text.push_str(" […]");
        }
        text
    }
}

fn without(bytes: &[u8], form: &[u8]) -> Vec<u8> {
    let (mut kept, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for at in memchr::memmem::find_iter(bytes, form) {
        kept.extend_from_slice(&bytes[from..at]);
        kept.extend_from_slice(KEY_REMOVED.as_bytes());
        from = at + form.len();
    }
    kept.extend_from_slice(&bytes[from..]);
    kept
}

/// Encoded forms of a secret in a text, longest first: plain; inside of JSON, and of JSON in JSON; percent-encoded; in base64, of both
/// alphabets, also as a part of a longer text such as `Bearer KEY`.
fn encoded_forms(secret: &str) -> Vec<String> {
    let quoted = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let in_json = quoted(secret);
    let slashed = in_json.replace('/', "\\/");
    let mut forms = vec![secret.to_owned(), quoted(&in_json), quoted(&slashed), in_json, slashed];
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    for kept in [unreserved, |byte: u8| byte.is_ascii_alphanumeric(), |_: u8| false] {
        let upper = |byte| if kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
        let lower = |byte| if kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
        forms.push(secret.bytes().map(upper).collect());
        forms.push(secret.bytes().map(lower).collect());
    }
    for before in 0..3 {
        let part = in_base64(secret.as_bytes(), before);
        forms.push(part.replace('+', "-").replace('/', "_"));
        forms.push(part.replace('+', "%2B").replace('/', "%2F"));
        forms.push(part);
    }
    forms.retain(|form| form.len() >= KEY_BYTES_MIN);
    forms.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    forms.dedup();
    forms
}

/// The base64 letters that depend on the secret alone, with `before` bytes, modulo three, in front of the secret.
fn in_base64(secret: &[u8], before: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.iter().copied()).collect();
    let text = STANDARD_NO_PAD.encode(&padded);
    // A letter has six bits: from the first letter without a bit of the bytes in front to the last letter without a bit behind.
    let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    text[from..to].to_owned()
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
        if self.forms.is_empty() {
            return Some(piece);
        }
        *held = self.remove(&(std::mem::take(held) + &piece));
        let begun = |form: &String| {
            let begins = |len: &usize| form.get(..*len).is_some_and(|begin| held.ends_with(begin));
            (1..form.len()).rev().find(begins).unwrap_or(0)
        };
        let kept = self.forms.iter().map(begun).max().unwrap_or(0);
        let rest = held.split_off(held.len() - kept);
        let shown = std::mem::replace(held, rest);
        (!shown.is_empty()).then_some(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_removed_in_every_form_that_it_may_be_repeated_in() {
        let secret = "sk+ca/na\"ry-1_é~x";
        let key = Key::read(Some("KEY"), &|_| Some(secret.to_owned()));
        let in_json = Value::from(secret).to_string();
        let percent = "sk%2Bca%2Fna%22ry-1_%C3%A9~x";
        let mut texts = vec![
            secret.to_owned(),
            in_json.clone(),
            Value::from(in_json.as_str()).to_string(),
            in_json.replace('/', "\\/"),
            percent.to_owned(),
            percent.replace("%2B", "%2b").replace("%2F", "%2f").replace("%C3%A9", "%c3%a9"),
            percent.replace('-', "%2D").replace('_', "%5F").replace('~', "%7E"),
        ];
        let around = ["", "a", "ab", "abc", "Bearer ", "user:"];
        for (before, behind) in
            around.iter().flat_map(|before| around.iter().map(move |behind| (before, behind)))
        {
            let text = format!("{before}{secret}{behind}");
            texts.push(STANDARD_NO_PAD.encode(&text));
            texts.push(base64::engine::general_purpose::URL_SAFE.encode(&text));
        }
        for text in texts {
            let body = format!("{{\"error\": \"no such key: {text}!\"}}");
            let veiled = key.remove(&body);
            assert!(veiled.contains(KEY_REMOVED), "{body}: {veiled}");
            // At most a few letters at the seams of base64 are left.
            let left = veiled.len() - KEY_REMOVED.len() - (body.len() - text.len());
            assert!(left <= 24, "{body}: {veiled}");
            assert!(String::from_utf8(key.remove_bytes(body.as_bytes())).unwrap().contains(KEY_REMOVED));
        }
        assert_eq!(key.remove("skating, sk and %2B stay"), "skating, sk and %2B stay");
    }

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
