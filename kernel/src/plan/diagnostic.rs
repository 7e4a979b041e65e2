//! Diagnostics about a plan or a change of a plan.

use std::fmt;

use serde::{Serialize, Serializer};

use super::pointer::Pointer;

/// A broken rule of a plan or a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The broken rule.
    pub code: DiagnosticCode,
    /// The offending node, the missing name, or [`Diagnostic::PLAN`].
    pub node: String,
    /// JSON pointer (RFC 6901) into the plan as written, such as `/nodes/3/deps/0`. Empty for the plan as a
    /// whole and for changes of a running plan. A missing key has the pointer of its expected place.
    pub pointer: String,
    /// Problem, a sentence without a full stop.
    pub detail: String,
    /// Suggested fix, a sentence without a full stop.
    #[serde(rename = "mend")]
    pub help: String,
    /// Line within the text at `pointer`, from 1; `None` means the text as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Diagnostic {
    /// Node name of diagnostics about the plan as a whole.
    pub const PLAN: &'static str = "*";

    /// Creates a diagnostic without a pointer.
    pub fn new(
        code: DiagnosticCode,
        node: impl fmt::Display,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic {
            code,
            node: node.to_string(),
            pointer: String::new(),
            detail: detail.into(),
            help: help.into(),
            line: None,
        }
    }

    /// Sets the pointer.
    pub fn at(self, place: &Pointer) -> Diagnostic {
        Diagnostic { pointer: place.as_str().to_owned(), ..self }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}; {}", self.code, self.node, self.detail, self.help)
    }
}

/// Diagnostics kept per code and node; the last one counts the rest.
pub const SAME_DIAGNOSTICS_MAX: usize = 8;

/// Sorts diagnostics by code and node, in plan order within one pair, drops duplicates and keeps at most
/// [`SAME_DIAGNOSTICS_MAX`] per pair.
pub(super) fn sort_and_limit(mut faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    faults.sort_by(|a, b| (a.code, &a.node).cmp(&(b.code, &b.node)));
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(faults.len());
    let (mut same, mut more) = (0usize, 0usize);
    for fault in faults {
        let alike = kept.last().is_some_and(|last| (last.code, &last.node) == (fault.code, &fault.node));
        if !alike {
            append_count(&mut kept, more);
            (same, more) = (0, 0);
        }
        if kept[kept.len() - same..].contains(&fault) {
            continue;
        }
        if same < SAME_DIAGNOSTICS_MAX {
            kept.push(fault);
            same += 1;
        } else {
            more += 1;
        }
    }
    append_count(&mut kept, more);
    kept
}

fn append_count(kept: &mut [Diagnostic], more: usize) {
    if let (Some(last), true) = (kept.last_mut(), more > 0) {
        last.detail = format!("{} (and {more} more such faults of {})", last.detail, last.node);
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident,)*) => {
        /// Rules of a plan (`V..`) and of a change of a running plan (`D..`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DiagnosticCode {
            $($(#[$doc])* $code,)*
        }

        impl DiagnosticCode {
            /// Every code, ascending.
            pub const ALL: &'static [DiagnosticCode] = &[$(DiagnosticCode::$code),*];

            /// The code as text, such as `V03`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(DiagnosticCode::$code => stringify!($code),)*
                }
            }
        }
    };
}

codes! {
    /// Rewires or sets a started node, or cancels a terminal one.
    D01,
    /// The plan has no version left.
    D02,
    /// Rewires, sets, cancels or replaces an unknown node.
    D03,
    /// Cancels a declared output, or every output.
    D04,
    /// The run is cancelled or concluded.
    D05,
    /// Sets an id, dependencies, a join or a dispatch.
    D06,
    /// Rewires or sets a collector or an undo node.
    D07,
    /// Written for another version.
    D08,
    /// Duplicate or malformed id.
    V01,
    /// An edge from a node to itself.
    V02,
    /// A dependency, reference or output names an unknown node.
    V03,
    /// A cycle over edges and the candidate order of ordered joins.
    V04,
    /// A node without a path to an output or a control node.
    V05,
    /// An `any_of` with fewer than two distinct candidates, or a repeated one.
    V06,
    /// An explicit `all_of` without dependencies.
    V07,
    /// No contract rule.
    V08,
    /// A rule with a malformed spec, without a method, or with `p` outside (0, 1].
    V09,
    /// A declared read that is neither a dependency nor a reference.
    V10,
    /// A reference forbidden by the join of its node.
    V11,
    /// A speculative effect.
    V12,
    /// No nodes, too many nodes, or too deep.
    V13,
    /// A time or an attempt budget out of range.
    V14,
    /// Effect and impact disagree.
    V15,
    /// Impact 2 judged by a model only.
    V16,
    /// A malformed or unreachable path.
    V17,
    /// A terminal edge to a candidate.
    V18,
    /// An aggregator with consumers.
    V19,
    /// An unknown tool, or a tool node without a tool.
    V20,
    /// A kind without an executor, or a tool or model unused by the kind.
    V21,
    /// A parameter given both literally and by reference.
    V22,
    /// A parameter unknown to the tool, or a missing required one.
    V23,
    /// A parameter with an invalid value.
    V24,
    /// A `test`, `model` or `human` rule in the contract of the plan.
    V25,
    /// An unknown domain.
    V26,
    /// A malformed guard.
    V27,
    /// A malformed or misplaced `for_each`; a collector in a written plan.
    V28,
    /// A wait without a deadline or with an effect, an approval or a tool; a deadline elsewhere.
    V29,
    /// A malformed `undo`, or one where nothing can be undone.
    V30,
    /// An id reserved for the engine.
    V31,
    /// An unknown `on_failure`.
    V32,
    /// The address of a wait where none can be sent out.
    V33,
    /// A malformed `fresh`, or one where nothing is read or a person decides.
    V34,
}

impl fmt::Display for DiagnosticCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for DiagnosticCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_sort_as_their_texts_do() {
        let texts: Vec<&str> = DiagnosticCode::ALL.iter().map(|code| code.as_str()).collect();
        let mut sorted = texts.clone();
        sorted.sort_unstable();
        assert_eq!(texts, sorted);
        assert!(DiagnosticCode::ALL.is_sorted());
    }

    #[test]
    fn faults_of_one_code_and_node_stand_each_for_themselves_up_to_a_limit() {
        let fault = |code, node: &str, detail: String| Diagnostic::new(code, node, detail, "mend it");
        let mut faults: Vec<Diagnostic> = (0..SAME_DIAGNOSTICS_MAX + 2)
            .map(|at| fault(DiagnosticCode::V03, "b", format!("lacks {at}")))
            .collect();
        faults.push(fault(DiagnosticCode::V03, "b", "lacks 0".into()));
        faults.push(fault(DiagnosticCode::V03, "a", "lacks x".into()));
        faults.push(fault(DiagnosticCode::D01, "z", "has started".into()));
        let kept: Vec<String> = sort_and_limit(faults).iter().map(|f| f.to_string()).collect();
        assert_eq!(kept.len(), 2 + SAME_DIAGNOSTICS_MAX);
        assert_eq!(
            (kept[0].as_str(), kept[1].as_str(), kept[2].as_str()),
            ("D01 z: has started; mend it", "V03 a: lacks x; mend it", "V03 b: lacks 0; mend it")
        );
        let last = "V03 b: lacks 7 (and 2 more such faults of b); mend it";
        assert_eq!(kept.last().map(String::as_str), Some(last));
    }
}
