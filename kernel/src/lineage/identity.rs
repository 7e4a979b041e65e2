//! Identity hashing: which results may be reused, and where a result came from.
//!  
//! The identity of work is `r = H(sigma, x)`. `sigma` is the digest of the executable (tool, version, model, prompt, ..), `x`
//! the digest of its inputs (parameters, referenced results, effects of predecessors). Work with equal `r` may reuse the
//! recorded result. Nothing else enters the hash: no id or name of plan, run or node, no path, title, limit, contract or
//! position. An edit of the plan therefore invalidates only nodes with changed inputs, and a node with the same result as
//! before cuts the invalidation off.
//!  
//! Both documents are canonical JSON, so equal content gives equal bytes. Absent and default fields have no key; adding a field
//! later does not change existing digests.

use std::collections::BTreeMap;

use serde_json::Value;

use super::hash::hash;
use crate::id::{ClientId, Digest, NodeId, RunId};
use crate::json::{Json, JsonError, Object, Sink, canonical, utf16_order, write_string};

/// Digest of an artifact over media type and content: canonical JSON for `application/json`, UTF-8 for `text/*`.
pub fn artifact(media: &str, content: &[u8]) -> Digest {
    hash("aos/artifact/1", &[media.as_bytes(), content])
}

/// Digest of a parameter value after projection and template.
pub fn value(value: &Json) -> Digest {
    hash("aos/value/1", &[value.as_str().as_bytes()])
}

/// Digest of a prompt's template text.
pub fn prompt(template: &str) -> Digest {
    hash("aos/prompt/1", &[template.as_bytes()])
}

/// The executable of a node, `sigma`. Absent fields have no key, nor have the defaults `application/json` of `media` and 0 of
/// `fresh`.
///  
/// ```
/// use ostler_kernel::lineage::ExecutableSpec;
/// let sigma = ExecutableSpec { kind: "tool", tool: Some("fs.read"), tool_version: Some("1"), ..ExecutableSpec::default() };
/// assert_eq!(sigma.document().unwrap().as_str(), r#"{"kind":"tool","tool":"fs.read","tool_version":"1"}"#);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecutableSpec<'a> {
    /// Kind of the node, as spelled in plan files.
    pub kind: &'a str,
    /// Tool name.
    pub tool: Option<&'a str>,
    /// Tool version.
    pub tool_version: Option<&'a str>,
    /// Digest of the executed code, if known.
    pub code: Option<&'a str>,
    /// Model name.
    pub model: Option<&'a str>,
    /// Model revision as declared by the provider.
    pub model_rev: Option<&'a str>,
    /// Sampling parameters.
    pub sampling: Option<&'a Value>,
    /// Sampling seed.
    pub seed: Option<&'a Value>,
    /// Digest of the prompt's template, see [`prompt`].
    pub prompt: Option<Digest>,
    /// Media type of the output.
    pub media: Option<&'a str>,
    /// Freshness token: a new value forces a new execution, and a repeated value finds the earlier record. 0 counts as no
    /// token.
    pub fresh: Option<&'a Value>,
}

impl ExecutableSpec<'_> {
    /// The canonical document.
    ///  
    /// # Errors
    ///  
    /// Same as [`canonical`], for `sampling`, `seed` and `fresh`.
    pub fn document(&self) -> Result<Json, JsonError> {
        let mut document = Document::new(256);
        document.text("code", self.code);
        if let Some(fresh) = self.fresh.map(canonical).transpose()?.filter(|fresh| fresh.as_str() != "0") {
            document.json("fresh", &fresh);
        }
        document.text("kind", Some(self.kind));
        document.text("media", self.media.filter(|&media| media != crate::port::JSON));
        document.text("model", self.model);
        document.text("model_rev", self.model_rev);
        if let Some(prompt) = self.prompt {
            document.key("prompt");
            push_digest(prompt, &mut document.text);
        }
        if let Some(sampling) = self.sampling {
            document.json("sampling", &canonical(sampling)?);
        }
        if let Some(seed) = self.seed {
            document.json("seed", &canonical(seed)?);
        }
        document.text("tool", self.tool);
        document.text("tool_version", self.tool_version);
        Ok(document.close())
    }
}

/// The inputs of a node, `x`.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// Receipts of the direct predecessors with effect write or external, with multiplicity.
    pub effects: &'a BTreeMap<Digest, u64>,
    /// Literal parameters.
    pub params: &'a Object,
    /// Parameters from results: name, and digest of the [`value`] as received.
    pub refs: &'a BTreeMap<String, Digest>,
    /// Freshness token of a read from the outside world.
    pub world: Option<&'a str>,
}

impl Inputs<'_> {
    /// The canonical document. Always has all four keys.
    ///  
    /// # Errors
    ///  
    /// Same as [`canonical`], for `params` and the counts of `effects`.
    pub fn document(&self) -> Result<Json, JsonError> {
        let mut document = Document::new(256);
        document.key("effects");
        let mut effects = Document::over(document.text);
        for (&receipt, &count) in self.effects {
            effects.comma();
            push_digest(receipt, &mut effects.text);
            effects.text.push(':');
            effects.text.push_str(canonical(&Value::from(count))?.as_str());
        }
        document = Document::resume(effects);
        document.key("params");
        document.text.push_str(self.params.canonical()?.as_str());
        document.key("refs");
        let mut names: Vec<(&String, &Digest)> = self.refs.iter().collect();
        names.sort_unstable_by(|left, right| utf16_order(left.0, right.0));
        let mut refs = Document::over(document.text);
        for (name, &digest) in names {
            refs.key(name);
            push_digest(digest, &mut refs.text);
        }
        document = Document::resume(refs);
        document.key("world");
        match self.world {
            Some(token) => write_string(token, &mut document.text),
            None => document.text.push_str("null"),
        }
        Ok(document.close())
    }
}

/// `sigma`: the digest of an [`ExecutableSpec`] document.
pub fn executable_digest(document: &Json) -> Digest {
    hash("aos/sigma/1", &[document.as_str().as_bytes()])
}

/// `x`: the digest of an [`Inputs`] document.
pub fn inputs_digest(document: &Json) -> Digest {
    hash("aos/x/1", &[document.as_str().as_bytes()])
}

/// `r`: the identity of work.
pub fn reuse(sigma: Digest, x: Digest) -> Digest {
    hash("aos/reuse/1", &[&sigma.0, &x.0])
}

/// Kind of dependency, for [`lineage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge<'a> {
    /// A reference with this name.
    Ref(&'a str),
    /// Order without a reference.
    Order,
}

/// Provenance of a result, `k`: a Merkle hash over the result's `r` and the `k` of each ancestor with its edge. For audits;
/// reuse ignores it.
///
/// For a result that a person replaced, `k` is [`overridden`].
pub fn lineage(reuse: Digest, edges: &[(Edge<'_>, Digest)]) -> Digest {
    let mut edges: Vec<(String, Digest)> = edges
        .iter()
        .map(|&(edge, k)| match edge {
            Edge::Ref(name) => (format!("ref:{name}"), k),
            Edge::Order => ("order".to_owned(), k),
        })
        .collect();
    edges.sort_unstable();
    let mut parts: Vec<&[u8]> = Vec::with_capacity(1 + 2 * edges.len());
    parts.push(&reuse.0);
    for (name, k) in &edges {
        parts.push(name.as_bytes());
        parts.push(&k.0);
    }
    hash("aos/lineage/1", &parts)
}

/// Provenance of a person's artifact in place of a result, derived from the `k` of that result.
pub fn overridden(k: Digest, artifact: Digest, author: &str) -> Digest {
    hash("aos/override/1", &[&k.0, &artifact.0, author.as_bytes()])
}

/// Key of the newest record of the work. The client is part of the key, because clients share no records.
pub fn record_key(client: &ClientId, reuse: Digest) -> Digest {
    hash("aos/record/1", &[client.as_str().as_bytes(), &reuse.0])
}

/// Key of the record last bound to a node of a plan.
pub fn last_record_key(client: &ClientId, plan: &str, node: &NodeId) -> Digest {
    hash("aos/last-record/1", &[client.as_str().as_bytes(), plan.as_bytes(), node.as_str().as_bytes()])
}

/// Digest that proves an effect. With a `key` (the idempotency key, for keyed and non-idempotent effects) each execution has
/// its own receipt; without one (naturally idempotent effects) equal work has equal receipts.
pub fn receipt(reuse: Digest, artifact: Digest, key: Option<Digest>) -> Digest {
    match key {
        Some(key) => hash("aos/receipt/1", &[&reuse.0, &artifact.0, &key.0]),
        None => hash("aos/receipt/1", &[&reuse.0, &artifact.0]),
    }
}

/// Key by which the receiver of an effect recognises a repetition. All attempts of a node generation share the key, until a
/// patch increments `patch_count`.
pub fn idempotency_key(run: RunId, node: &NodeId, generation: u64, patch_count: u64) -> Digest {
    let mut text = uuid::Uuid::encode_buffer();
    idempotency_key_of(run.0.hyphenated().encode_lower(&mut text), node, generation, patch_count)
}

/// Equal to [`idempotency_key`], for run ids of any text, as in simulations.
pub fn idempotency_key_of(run: &str, node: &NodeId, generation: u64, patch_count: u64) -> Digest {
    let (generation, patch_count) = (generation.to_le_bytes(), patch_count.to_le_bytes());
    hash("aos/idem/1", &[run.as_bytes(), node.as_str().as_bytes(), &generation, &patch_count])
}

/// Key of an effectful step within an agent's work; `work` is the key of the work.
pub fn step_key(work: Digest, step: &str) -> Digest {
    hash("aos/idem/step/1", &[&work.0, step.as_bytes()])
}

/// Builds a JSON object; the caller adds keys in canonical order.
struct Document {
    text: String,
    empty: bool,
}

impl Document {
    fn new(capacity: usize) -> Document {
        Document::over(String::with_capacity(capacity))
    }

    /// Opens an object at the end of `text`.
    fn over(mut text: String) -> Document {
        text.push('{');
        Document { text, empty: true }
    }

    /// Closes an inner object and continues the outer one.
    fn resume(inner: Document) -> Document {
        let mut text = inner.text;
        text.push('}');
        Document { text, empty: false }
    }

    fn comma(&mut self) {
        if !self.empty {
            self.text.push(',');
        }
        self.empty = false;
    }

    fn key(&mut self, key: &str) {
        self.comma();
        write_string(key, &mut self.text);
        self.text.push(':');
    }

    fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.key(key);
            write_string(value, &mut self.text);
        }
    }

    fn json(&mut self, key: &str, value: &Json) {
        self.key(key);
        self.text.push_str(value.as_str());
    }

    fn close(mut self) -> Json {
        self.text.push('}');
        Json::from_canonical_text(self.text)
    }
}

/// Writes a digest as a JSON string: `b3:` and 64 hex digits.
fn push_digest(digest: Digest, out: &mut impl Sink) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0u8; 64];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(digest.0) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out.push("\"b3:");
    out.push(std::str::from_utf8(&hex).expect("hex digits are ASCII"));
    out.push("\"");
}
