//! What is wrong with a plan, or with a change of one.

use std::fmt;

use serde::{Serialize, Serializer};

use super::pointer::Pointer;

/// One fault of a plan or of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Which rule is broken.
    pub code: DiagnosticCode,
    /// The node that breaks it, the name that is missing, or [`Fault::PLAN`].
    pub node: String,
    /// Where it stands in the plan as written, as a JSON pointer (RFC 6901): `/nodes/3/deps/0`. Empty: the plan as
    /// a whole, or a change of a running one. What is missing is pointed at where it should stand.
    pub pointer: String,
    /// What is wrong, as a sentence without a full stop.
    pub detail: String,
    /// What would mend it, as a sentence without a full stop.
    #[serde(rename = "mend")]
    pub help: String,
    /// The line where that is, from 1, within the text that stands there; `None`: the text as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl Diagnostic {
    /// The name under which faults of the plan as a whole are reported.
    pub const PLAN: &'static str = "*";

    /// A fault of `node` (or of the plan as a whole), of which nobody says where it stands.
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

    /// The same fault, standing there.
    pub fn at(self, place: &Pointer) -> Diagnostic {
        Diagnostic { pointer: place.as_str().to_owned(), ..self }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}; {}", self.code, self.node, self.detail, self.help)
    }
}

/// Faults of one code and name that are told; of more, only how many there are.
pub const SAME_DIAGNOSTICS_MAX: usize = 8;

/// Sorts faults by code and name, those of the same in the order of the plan, and tells each once.
pub(super) fn in_order(mut faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    faults.sort_by(|a, b| (a.code, &a.node).cmp(&(b.code, &b.node)));
    let mut told: Vec<Diagnostic> = Vec::with_capacity(faults.len());
    let (mut same, mut more) = (0usize, 0usize);
    for fault in faults {
        let alike = told.last().is_some_and(|last| (last.code, &last.node) == (fault.code, &fault.node));
        if !alike {
            tell_more(&mut told, more);
            (same, more) = (0, 0);
        }
        if told[told.len() - same..].contains(&fault) {
            continue;
        }
        if same < SAME_DIAGNOSTICS_MAX {
            told.push(fault);
            same += 1;
        } else {
            more += 1;
        }
    }
    tell_more(&mut told, more);
    told
}

fn tell_more(told: &mut [Diagnostic], more: usize) {
    if let (Some(last), true) = (told.last_mut(), more > 0) {
        last.detail = format!("{} (and {more} more such faults of {})", last.detail, last.node);
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident,)*) => {
        /// The rules a plan (`V..`) and a change of a running plan (`D..`) must keep.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DiagnosticCode {
            $($(#[$doc])* $code,)*
        }

        impl DiagnosticCode {
            /// Every code, in order.
            pub const ALL: &'static [DiagnosticCode] = &[$(DiagnosticCode::$code),*];

            /// The code as it is written everywhere, such as `V03`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(DiagnosticCode::$code => stringify!($code),)*
                }
            }
        }
    };
}

codes! {
    /// Rewires or sets a node that is neither pending nor blocked, or cancels a terminal one.
    D01,
    /// The version is already the last one allowed.
    D02,
    /// Rewires, sets, cancels or replaces a node that does not exist.
    D03,
    /// Cancels a declared output, or every output.
    D04,
    /// The plan is cancelled or concluded.
    D05,
    /// Sets an id, deps, a join or a dispatch.
    D06,
    /// Was made for another version of the plan than the present one.
    D07,
    /// An id used twice, or malformed.
    V01,
    /// An edge from a node to itself.
    V02,
    /// A dependency, a reference or an output names no node.
    V03,
    /// A cycle, order edges of ordered joins included.
    V04,
    /// A node that leads to no output and no control node.
    V05,
    /// An any_of without two distinct candidates, or with a repeated one.
    V06,
    /// An explicit all_of over nothing.
    V07,
    /// No contract rule.
    V08,
    /// A rule without method, or with `p` outside (0, 1].
    V09,
    /// A declared read that is neither a dependency nor a reference.
    V10,
    /// A reference that its join does not allow.
    V11,
    /// A speculative effect.
    V12,
    /// No nodes, too many, or too deep.
    V13,
    /// A timeout, heartbeat timeout, budget of attempts or human timeout out of bounds.
    V14,
    /// Effect and impact disagree.
    V15,
    /// Impact 2 that only a model judges.
    V16,
    /// A malformed path.
    V17,
    /// A terminal edge as a candidate.
    V18,
    /// An aggregator with consumers.
    V19,
    /// An unknown tool, or a tool node without one.
    V20,
    /// A kind that nothing here executes.
    V21,
    /// A parameter given both literally and by reference.
    V22,
    /// A parameter that its tool does not take, or one that it needs and does not get.
    V23,
    /// A parameter whose value its tool cannot work with.
    V24,
    /// A test among the rules of the plan as a whole.
    V25,
    /// A domain that nobody has given weights to.
    V26,
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
        let mut faults: Vec<Diagnostic> =
            (0..SAME_DIAGNOSTICS_MAX + 2).map(|at| fault(DiagnosticCode::V03, "b", format!("lacks {at}"))).collect();
        faults.push(fault(DiagnosticCode::V03, "b", "lacks 0".into()));
        faults.push(fault(DiagnosticCode::V03, "a", "lacks x".into()));
        faults.push(fault(DiagnosticCode::D01, "z", "has started".into()));
        let told: Vec<String> = in_order(faults).iter().map(|f| f.to_string()).collect();
        assert_eq!(told.len(), 2 + SAME_DIAGNOSTICS_MAX);
        assert_eq!(
            (told[0].as_str(), told[1].as_str(), told[2].as_str()),
            ("D01 z: has started; mend it", "V03 a: lacks x; mend it", "V03 b: lacks 0; mend it")
        );
        let last = "V03 b: lacks 7 (and 2 more such faults of b); mend it";
        assert_eq!(told.last().map(String::as_str), Some(last));
    }
}
