//! The capability of a callback address: a keyed hash of run and node.
//!
//! The token is derived whenever it is needed and stored nowhere. It answers one wait of one run: ids of nodes never recur
//! within a run, whatever version of the plan added the node.

use std::fmt;

use serde_json::{Map, Value};

use crate::id::{Digest, NodeId, RunId};
use crate::lineage;

/// Text in place of a token wherever an address is shown or recorded.
pub const HIDDEN_TOKEN: &str = "HIDDEN";

/// Path of callbacks, below the public base address.
pub const CALLBACK_PATH: &str = "v1/callback";

/// The secret key of a data folder from which its tokens are derived.
#[derive(Clone)]
pub struct CallbackKey([u8; 32]);

impl fmt::Debug for CallbackKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackKey")
    }
}

impl CallbackKey {
    /// A key from secret bytes.
    pub fn new(bytes: [u8; 32]) -> CallbackKey {
        CallbackKey(bytes)
    }

    /// The token of a wait: 64 hexadecimal digits.
    ///
    /// ```
    /// # use ostler_kernel::callback::CallbackKey;
    /// # use ostler_kernel::id::RunId;
    /// let (key, run) = (CallbackKey::new([7; 32]), RunId::default());
    /// let token = key.token(run, &"payment".into());
    /// assert!(key.verifies(run, &"payment".into(), &token));
    /// assert!(!key.verifies(run, &"refund".into(), &token));
    /// ```
    pub fn token(&self, run: RunId, node: &NodeId) -> String {
        self.keyed(run, node).to_hex().to_string()
    }

    /// True if `token` is that of the wait, as [`CallbackKey::token`] writes it. Takes the same time whatever the token.
    pub fn verifies(&self, run: RunId, node: &NodeId, token: &str) -> bool {
        let is_written_so = !token.bytes().any(|byte| byte.is_ascii_uppercase());
        // Equality of `blake3::Hash` takes constant time.
        is_written_so && blake3::Hash::from_hex(token).is_ok_and(|token| token == self.keyed(run, node))
    }

    fn keyed(&self, run: RunId, node: &NodeId) -> blake3::Hash {
        let of = lineage::hash("ostler/callback/1", &[run.to_string().as_bytes(), node.as_str().as_bytes()]);
        blake3::keyed_hash(&self.0, &of.0)
    }
}

/// The address of a wait, to be sent out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitAddress {
    /// The URL.
    pub url: String,
    /// Identity of the address within a manifest: the same for each process that serves the run, and another for each run.
    pub identity: Digest,
}

impl WaitAddress {
    /// The address below `base`, which has no slash at its end.
    pub fn new(base: &str, run: RunId, node: &NodeId, token: &str) -> WaitAddress {
        let parts = [run.to_string(), node.to_string()];
        let identity =
            lineage::hash("ostler/callback-address/1", &[parts[0].as_bytes(), parts[1].as_bytes()]);
        let [run, node] = parts;
        WaitAddress { url: format!("{base}/{CALLBACK_PATH}/{run}/{node}/{token}"), identity }
    }
}

/// Replaces tokens in the texts and keys of a value by [`HIDDEN_TOKEN`].
pub fn hide(value: &mut Value, tokens: &[String]) {
    match value {
        Value::String(text) => hide_in(text, tokens),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, tokens)),
        Value::Object(members) => hide_members(members, tokens),
        _ => {}
    }
}

/// [`hide`] for the members of an object.
pub fn hide_members(members: &mut Map<String, Value>, tokens: &[String]) {
    let has_token = |key: &String| tokens.iter().any(|token| find(key, token).is_some());
    if members.keys().any(has_token) {
        let hidden = std::mem::take(members).into_iter().map(|(mut key, value)| {
            hide_in(&mut key, tokens);
            (key, value)
        });
        *members = hidden.collect();
    }
    members.values_mut().for_each(|member| hide(member, tokens));
}

/// [`hide`] for a text.
pub fn hide_in(text: &mut String, tokens: &[String]) {
    for token in tokens {
        let (mut hidden, mut rest) = (String::new(), text.as_str());
        while let Some(at) = find(rest, token) {
            hidden.push_str(&rest[..at]);
            hidden.push_str(HIDDEN_TOKEN);
            rest = &rest[at + token.len()..];
        }
        if !hidden.is_empty() {
            hidden.push_str(rest);
            *text = hidden;
        }
    }
}

/// Where a token begins in a text, in whatever case: a service may repeat an address in capitals.
fn find(text: &str, token: &str) -> Option<usize> {
    let (text, token) = (text.as_bytes(), token.as_bytes());
    let mut parts = (!token.is_empty()).then(|| text.windows(token.len()))?;
    parts.position(|part| part.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_that_of_one_wait_of_one_run_under_one_key() {
        let (one, other) = (CallbackKey::new([1; 32]), CallbackKey::new([2; 32]));
        let (run, wait) = (RunId::default(), NodeId::from("pay"));
        let token = one.token(run, &wait);
        assert_eq!(token.len(), 64);
        assert!(one.verifies(run, &wait, &token));
        assert!(!other.verifies(run, &wait, &token));
        assert!(!one.verifies(RunId::hashed(Digest([3; 32])), &wait, &token));
        assert!(!one.verifies(run, &"pay.0".into(), &token));
        for wrong in
            ["", "HIDDEN", &token[..63], &token.to_uppercase(), &format!("{token}0"), &"é".repeat(32)]
        {
            assert!(!one.verifies(run, &wait, wrong), "{wrong}");
        }
    }

    #[test]
    fn hidden_is_every_token_of_a_value() {
        let tokens = vec!["abc".to_owned()];
        let mut value = json!({"abc": ["xabcx", 1], "b": {"c": "abcéABC"}});
        hide(&mut value, &tokens);
        assert_eq!(value, json!({"HIDDEN": ["xHIDDENx", 1], "b": {"c": "HIDDENéHIDDEN"}}));
    }
}
