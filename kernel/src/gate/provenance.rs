//! Where values come from, and whether that is trusted.
//!
//! A value is the user's own, an author's (the plan, a trusted tool), or a stranger's. It keeps its provenance through
//! references, templates and the tools it passes: an output is untrusted if any input is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::code::DenialCode;
use super::policy::GatePolicy;

/// Trust in a value, from most to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The user typed or passed the value, or the operator set it as a default. Trusted whoever wrote the step.
    Own,
    /// Trusted as far as the author of the step is.
    Author,
    /// Strangers may have chosen it.
    Untrusted,
}

/// Provenance of the parameters of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Whoever wrote the step had read untrusted data.
    pub untrusted_author: bool,
    /// Trust by parameter; an absent one is [`Trust::Author`].
    pub params: BTreeMap<String, Trust>,
    /// Labels of the data behind the references of the call.
    pub labels: BTreeSet<String>,
}

impl Provenance {
    /// A step of a trusted author, with values of its own.
    pub const PLAN: &'static Provenance =
        &Provenance { untrusted_author: false, params: BTreeMap::new(), labels: BTreeSet::new() };

    /// The taint of a parameter, if it is sensitive; `filled`: the value is the tool's default.
    pub(super) fn taint(&self, name: &str, filled: bool) -> Option<DenialCode> {
        if filled {
            return None;
        }
        match self.params.get(name).copied().unwrap_or(Trust::Author) {
            Trust::Untrusted => Some(DenialCode::TaintSensitiveParam),
            Trust::Author if self.untrusted_author => Some(DenialCode::TaintAuthor),
            Trust::Author | Trust::Own => None,
        }
    }
}

/// The results that a call may read, as far as provenance asks.
pub trait Results {
    /// The node behind a result; `None`: there is none of this name.
    fn source(&self, id: &str) -> Option<Source<'_>>;

    /// True if the results of a registered tool are as trusted as its inputs.
    fn is_trusted(&self, tool: &str) -> bool;
}

/// The node behind a result.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its tool.
    pub tool: &'a str,
    /// Whoever wrote it had read untrusted data.
    pub untrusted_author: bool,
    /// Trust in each literal.
    pub literals: Literals<'a>,
    /// The nodes that it reads.
    pub reads: Vec<&'a str>,
    /// The nodes whose results a model had seen when it wrote this one. Their labels pass on: a model may copy what it has seen.
    /// Trust does not pass here; it is in `untrusted_author`.
    pub seen: Vec<&'a str>,
    /// Labels of its result.
    pub labels: Vec<&'a str>,
}

/// Literal parameters with the labels of their values, by JSON pointer; a value without one is the plan's.
#[derive(Debug, Clone, Copy)]
pub struct Literals<'a> {
    /// The parameters.
    pub params: &'a Map<String, Value>,
    /// Labels by pointer; the longest prefix of a leaf's pointer counts.
    pub labels: &'a BTreeMap<String, Vec<String>>,
}

/// Labels of literals that all are the plan's.
pub static NO_LABELS: BTreeMap<String, Vec<String>> = BTreeMap::new();

impl Literals<'_> {
    /// Trust in one parameter: that of its least trusted leaf.
    fn trust(&self, name: &str, value: &Value, user: &str, results: &dyn Results) -> Trust {
        if self.labels.is_empty() {
            return Trust::Author;
        }
        let mut worst = Trust::Own;
        each_leaf(&mut pointer("", name), value, &mut |leaf| {
            worst = worst.max(self.leaf_trust(leaf, user, results));
        });
        worst
    }

    fn leaf_trust(&self, leaf: &str, user: &str, results: &dyn Results) -> Trust {
        let is_prefix =
            |at: &str| leaf.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let longest = self.labels.iter().filter(|(at, _)| is_prefix(at)).max_by_key(|(at, _)| at.len());
        let labels = longest.map_or(&[][..], |(_, labels)| labels);
        labels.iter().map(|label| trust_of(label, user, results)).max().unwrap_or(Trust::Author)
    }

    /// Trust in all of them; without any parameter, in the empty object.
    fn least(&self, user: &str, results: &dyn Results) -> Trust {
        if self.params.is_empty() {
            return self.leaf_trust("", user, results);
        }
        let all = self.params.iter().map(|(name, value)| self.trust(name, value, user, results));
        all.max().unwrap_or(Trust::Author)
    }
}

/// Trust in a value with this label.
fn trust_of(label: &str, user: &str, results: &dyn Results) -> Trust {
    match label.split_once(':') {
        None if label == "user" => Trust::Own,
        None if label == "plan" => Trust::Author,
        Some(("steer", of)) if of == user => Trust::Own,
        Some(("tool", tool)) if results.is_trusted(tool) => Trust::Author,
        _ => Trust::Untrusted,
    }
}

fn pointer(base: &str, key: &str) -> String {
    format!("{base}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Visits the pointer of each scalar, null and empty container.
fn each_leaf(at: &mut String, value: &Value, visit: &mut dyn FnMut(&str)) {
    let length = at.len();
    let mut descend = |key: &str, inner: &Value| {
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        each_leaf(at, inner, visit);
        at.truncate(length);
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| descend(&index.to_string(), item));
        }
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, inner)| descend(name, inner));
        }
        _ => visit(at),
    }
}

/// Traces the parameters of a call of `user`: its literals, and its references by parameter name. `seen` are the nodes whose results
/// the author of the call had seen.
///
/// Cost: each node behind the references is visited once for each reference.
pub fn trace<'a>(
    results: &dyn Results,
    user: &str,
    untrusted_author: bool,
    literals: Literals<'_>,
    refs: impl Iterator<Item = (&'a str, &'a str)>,
    seen: impl IntoIterator<Item = &'a str>,
) -> Provenance {
    let mut provenance = Provenance { untrusted_author, ..Provenance::default() };
    let mut labelled: Vec<&str> = seen.into_iter().collect();
    for (name, value) in literals.params {
        let trust = literals.trust(name, value, user, results);
        if trust != Trust::Author {
            provenance.params.insert(name.clone(), trust);
        }
    }
    for (name, from) in refs {
        if is_untrusted(results, user, [from]) {
            provenance.params.insert(name.to_owned(), Trust::Untrusted);
        }
        labelled.push(from);
    }
    provenance.labels = labels(results, labelled);
    provenance
}

/// Labels of these results, of what they were made from, and of what models had seen that wrote the nodes.
pub fn labels<'a>(results: &'a dyn Results, nodes: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    let mut visited = BTreeSet::new();
    let mut open: Vec<_> = nodes.into_iter().collect();
    while let Some(id) = open.pop() {
        let Some(source) = results.source(id).filter(|_| visited.insert(id)) else { continue };
        labels.extend(source.labels.into_iter().map(str::to_owned));
        open.extend(source.reads.into_iter().chain(source.seen));
    }
    labels
}

/// True if the result of one of these nodes is untrusted: its tool is, its author is (unless every input is the user's own),
/// an input is, or the node cannot be traced to its end. Depth first: a node that is entered again before it was left reads itself.
pub fn is_untrusted<'a>(
    results: &'a dyn Results,
    user: &str,
    nodes: impl IntoIterator<Item = &'a str>,
) -> bool {
    let mut left: BTreeMap<&str, bool> = BTreeMap::new();
    let mut open: Vec<_> = nodes.into_iter().map(|node| (node, false)).collect();
    while let Some((id, leave)) = open.pop() {
        if leave {
            left.insert(id, true);
            continue;
        }
        match left.get(id) {
            Some(true) => continue,
            Some(false) => return true,
            None => left.insert(id, false),
        };
        let Some(source) = results.source(id).filter(|source| !taints_itself(source, user, results)) else {
            return true;
        };
        open.push((id, true));
        open.extend(source.reads.into_iter().map(|read| (read, false)));
    }
    false
}

/// True if the result behind a source is untrusted; see [`is_untrusted`].
pub fn is_source_untrusted(results: &dyn Results, user: &str, source: Source<'_>) -> bool {
    taints_itself(&source, user, results) || is_untrusted(results, user, source.reads)
}

fn taints_itself(source: &Source<'_>, user: &str, results: &dyn Results) -> bool {
    if !results.is_trusted(source.tool) {
        return true;
    }
    match source.literals.least(user, results) {
        Trust::Untrusted => true,
        Trust::Own if source.reads.is_empty() => false,
        Trust::Own | Trust::Author => source.untrusted_author,
    }
}

impl GatePolicy {
    /// True if the results of a tool are as trusted as its inputs: what the operator says, or what the tool says of itself.
    pub fn trusts(&self, tool: &str, says: bool) -> bool {
        self.tools.get(tool).and_then(|rules| rules.trusted).unwrap_or(says)
    }

    /// True if a cumulative budget limits calls of a tool.
    pub fn has_budgets(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|rules| !rules.budgets.is_empty())
    }

    /// True if the operator calls parameters of a tool sensitive.
    pub fn has_sensitive(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|rules| !rules.sensitive.is_empty())
    }

    /// True if results of any tool have labels.
    pub fn has_labels(&self) -> bool {
        self.tools.values().any(|rules| !rules.labels.is_empty())
    }

    /// Labels of the results of a tool.
    pub fn labels_of(&self, tool: &str) -> impl Iterator<Item = &str> {
        self.tools.get(tool).into_iter().flat_map(|rules| rules.labels.iter().map(String::as_str))
    }

    /// Labels of the results of all tools.
    pub fn all_labels(&self) -> impl Iterator<Item = &str> {
        self.tools.values().flat_map(|rules| rules.labels.iter().map(String::as_str))
    }
}
