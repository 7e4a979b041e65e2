//! The document shown to a person before an answer. An approval covers exactly the shown document.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::HumanRequestKind;
use crate::gate::CallClass;
use crate::grant::Grant;
use crate::id::Digest;
use crate::json;
use crate::lineage;
use crate::plan::{Effect, Kind};
use crate::port::{Artifact, NamedFile};
use crate::run::oversight::CONTROLS;

/// Media type of a document.
const SHOWN: &str = "application/vnd.ostler.shown+json";

/// Name of [`ApprovalRequest::written`] among the parts of a question.
pub const WRITTEN: &str = "written";

/// The planned work of an attempt, or the question of a human_approval node. (The approval of a result shows the result and the
/// questions of the contract; the digest is the artifact's.)
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalRequest {
    /// The question.
    pub ask: HumanRequestKind,
    /// Kind of the node.
    pub kind: Kind,
    /// The tool to be called.
    pub tool: Option<String>,
    /// Version of the tool.
    pub tool_version: Option<String>,
    /// Effect of the call on the world.
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control: the larger of the gate's value and the plan's floor.
    pub impact: u8,
    /// The resolved parameters, with the tool's defaults.
    pub params: Map<String, Value>,
    /// The folder of a call that has paths or runs programs: the same words in another one do something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Programs of the node's contract that test the result, in order.
    pub tests: Vec<ApprovalTest>,
    /// Questions of the node's contract for a person, about a result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Digest of the content of the gate's policy, and of what confines programs: a change asks again, a policy that is only read anew
    /// does not.
    pub policy: Digest,
    /// Files of the workspace that the call and its tests name or execute, as they are: a change asks again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<NamedFile>,
    /// Of a program that acts: a digest of how many calls have written where the program may read, so that a step that writes there later
    /// asks again. A program finds more files than its call names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Digest>,
    /// Reasons of the gate to hold the call. A yes from before was given without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HeldFor>,
    /// The gate's objection if the call were approved now; `None` if the gate allows the call.
    pub refusal: Option<String>,
}

/// A reason why the gate holds a call until a person allows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFor {
    /// Code of the hold: `RULE_OF_TWO`, `TAINT_SENSITIVE_PARAM` or `TAINT_AUTHOR`.
    pub code: String,
    /// The parameters that strangers may have chosen; none for `RULE_OF_TWO`.
    pub params: Vec<String>,
}

/// A test program of a contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalTest {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Effect of the program on the world.
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
}

/// A part of a question that is another one than before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownChange {
    /// Name of the part: `params.NAME`, or a field of the document.
    pub part: String,
    /// The value before; `None` if there was none, or if it says nothing to a person.
    pub was: Option<Value>,
    /// The value now.
    pub now: Option<Value>,
}

/// The members in which two values differ, by name; of values that are no objects, the whole.
pub fn shown_changes(part: &str, was: &Value, now: &Value) -> Vec<ShownChange> {
    match (was.as_object(), now.as_object()) {
        (Some(was), Some(now)) => {
            let names: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
            let differs = |name: &&String| was.get(*name) != now.get(*name);
            let change = |name: &String| ShownChange {
                part: if part.is_empty() { name.clone() } else { format!("{part}.{name}") },
                was: was.get(name).cloned(),
                now: now.get(name).cloned(),
            };
            names.into_iter().filter(differs).map(change).collect()
        }
        _ if was == now => Vec::new(),
        _ => vec![ShownChange { part: part.to_owned(), was: Some(was.clone()), now: Some(now.clone()) }],
    }
}

impl ApprovalRequest {
    /// Differences of this document from an earlier one; none if that is no such document. Files are compared apart.
    pub fn changes_since(&self, document: &Artifact) -> Vec<ShownChange> {
        let read = serde_json::from_slice::<Value>(&document.content).ok();
        let Some(mut before) = read.filter(|_| document.media == SHOWN) else { return Vec::new() };
        let mut now = serde_json::to_value(self).expect("names, numbers and JSON are JSON");
        let params = |document: &mut Value| document["params"].take();
        let mut changes = shown_changes("params", &params(&mut before), &params(&mut now));
        let is_other = |part: &str| before[part] != now[part];
        let others = ["policy", WRITTEN].into_iter().filter(|part| is_other(part));
        let others: Vec<ShownChange> =
            others.map(|part| ShownChange { part: part.to_owned(), was: None, now: None }).collect();
        let words = shown_changes("", &before, &now).into_iter();
        // Documents of versions before had the number of the policy.
        let is_told = |change: &ShownChange| {
            !matches!(change.part.as_str(), "policy" | "policy_epoch" | "files" | "ask" | WRITTEN)
        };
        changes.extend(words.filter(is_told).chain(others));
        changes
    }

    /// The document of a call that a grant answers. A grant binds the files that it was given for, and no other file; it is for the
    /// time to come, in which steps write.
    pub fn under(self, grant: &Grant) -> ApprovalRequest {
        let mut files = self.files;
        files.retain(|file| grant.files.contains_key(&file.path));
        ApprovalRequest { files, written: None, ..self }
    }

    /// True if approvals of other calls end once this approved call has run. A call that looks changes nothing; one that controls, and
    /// reaches the outside, could do by itself whatever another approved one may, and several such calls would void each other's
    /// approvals. `class`: that of the call by its tool, which decides about its cage; a plan may have raised the one that is shown.
    pub fn counts_as_write(&self, class: CallClass) -> bool {
        let tests = self.tests.iter().map(|test| (test.impact, test.effect));
        let mut all = tests.chain([(class.impact, class.effect)]);
        all.any(|(impact, effect)| impact > 0 && (impact < CONTROLS || effect != Effect::External))
    }

    /// True if a test has more impact, or a network, that a program before the test lacks: such a program could write what the test runs.
    /// `class`: class of the call by its tool; `None` if the call runs no program.
    pub fn has_wider_tests(&self, class: Option<CallClass>) -> bool {
        let power = |impact: u8, effect: Effect| (impact, effect == Effect::External);
        let mut least = class.map(|class| power(class.impact, class.effect));
        self.tests.iter().any(|test| {
            let (impact, reaches_out) = power(test.impact, test.effect);
            let is_wider = least.is_some_and(|least| impact > least.0 || reaches_out && !least.1);
            least = Some(
                least.map_or((impact, reaches_out), |least| (impact.min(least.0), reaches_out && least.1)),
            );
            is_wider
        })
    }

    /// Digest of the whole document; an answer names the digest.
    ///
    /// ```
    /// # use ostler_kernel::{event::HumanRequestKind, id::Digest, plan::{Effect, Kind}, run::ApprovalRequest};
    /// # let (tool_version, refusal, tests, questions) = (None, None, Vec::new(), Vec::new());
    /// let shown = ApprovalRequest {
    ///     ask: HumanRequestKind::Before, kind: Kind::Tool, tool: Some("fs.write".into()), tool_version,
    ///     effect: Effect::Write, impact: 1, params: Default::default(), workspace: None, tests, questions, refusal,
    ///     policy: Digest([1; 32]), files: Vec::new(), written: None, holds: Vec::new(),
    /// };
    /// let other = ApprovalRequest { impact: 2, ..shown.clone() };
    /// assert_ne!(shown.digest(), other.digest());
    /// ```
    pub fn digest(&self) -> Digest {
        lineage::artifact(SHOWN, &self.canonical())
    }

    /// The document as an artifact: a later question tells what has changed since. Its digest is that of the artifact.
    pub fn document(&self) -> Artifact {
        Artifact { media: SHOWN.to_owned(), content: self.canonical() }
    }

    /// The files that a document of [`ApprovalRequest::document`] names; none if it is no such document.
    pub fn files_of(document: &Artifact) -> Vec<NamedFile> {
        #[derive(Deserialize)]
        struct Files {
            files: Vec<NamedFile>,
        }
        let read = (document.media == SHOWN).then(|| serde_json::from_slice::<Files>(&document.content).ok());
        read.flatten().map(|read| read.files).unwrap_or_default()
    }

    fn canonical(&self) -> Vec<u8> {
        let document = serde_json::to_value(self).expect("names, numbers and JSON are JSON");
        let document =
            json::canonical(&document).expect("parameters are canonical before anybody is shown them");
        document.as_str().as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Idempotency;

    fn request(change: impl FnOnce(&mut ApprovalRequest)) -> ApprovalRequest {
        let mut request = ApprovalRequest {
            ask: HumanRequestKind::Before,
            kind: Kind::Tool,
            tool: Some("fs.write".into()),
            tool_version: Some("1".into()),
            effect: Effect::Write,
            impact: 1,
            params: Map::from_iter([("path".to_owned(), json!("a")), ("text".to_owned(), json!("x"))]),
            workspace: Some("/srv/site".into()),
            tests: Vec::new(),
            questions: Vec::new(),
            policy: Digest([1; 32]),
            files: Vec::new(),
            written: None,
            holds: Vec::new(),
            refusal: None,
        };
        change(&mut request);
        request
    }

    fn class(impact: u8, effect: Effect) -> CallClass {
        CallClass { impact, effect, idem: Idempotency::None }
    }

    fn tested(tests: &[(u8, Effect)]) -> ApprovalRequest {
        let test =
            |&(impact, effect): &(u8, Effect)| ApprovalTest { argv: vec!["t".to_owned()], effect, impact };
        request(|shown| shown.tests = tests.iter().map(test).collect())
    }

    #[test]
    fn a_call_counts_as_a_write_unless_all_that_it_runs_controls_and_reaches_out_or_looks() {
        use Effect::{External, Read, Write};
        for (impact, effect, tests, expected) in [
            (2, External, &[][..], false),
            (2, Write, &[], true),
            (1, External, &[], true),
            (0, Read, &[], false),
            (0, Read, &[(1, Write)], true),
            (2, External, &[(2, External)], false),
            (2, External, &[(2, External), (1, Write)], true),
            (1, Write, &[(2, External)], true),
        ] {
            let counts = tested(tests).counts_as_write(class(impact, effect));
            assert_eq!(counts, expected, "{impact} {effect:?} {tests:?}");
        }
    }

    #[test]
    fn a_test_is_wider_than_the_least_program_before_it() {
        use Effect::{External, Write};
        for (call, tests, expected) in [
            (None, &[(2, External)][..], false),
            (Some((1, Write)), &[(1, Write)], false),
            (Some((1, Write)), &[(2, Write)], true),
            (Some((2, Write)), &[(2, External)], true),
            (Some((2, External)), &[(2, External), (1, Write)], false),
            (None, &[(1, Write), (2, Write)], true),
            (Some((2, External)), &[(2, Write), (2, External)], true),
        ] {
            let call = call.map(|(impact, effect)| class(impact, effect));
            assert_eq!(tested(tests).has_wider_tests(call), expected, "{call:?} {tests:?}");
        }
    }

    #[test]
    fn what_a_question_shows_otherwise_is_named_part_by_part() {
        let before = request(|_| {});
        let check = |now: ApprovalRequest, expected: &[&str]| {
            let changes = now.changes_since(&before.document());
            let text = |value: Option<Value>| value.map_or("-".to_owned(), |value| value.to_string());
            let told =
                |change: ShownChange| format!("{} {} {}", change.part, text(change.was), text(change.now));
            assert_eq!(changes.into_iter().map(told).collect::<Vec<_>>(), expected);
            assert_eq!(now.digest() == before.digest(), expected.is_empty());
        };
        check(request(|_| {}), &[]);
        check(request(|now| now.params["text"] = json!("y")), &["params.text \"x\" \"y\""]);
        check(request(|now| drop(now.params.remove("text"))), &["params.text \"x\" -"]);
        check(request(|now| now.impact = 2), &["impact 1 2"]);
        check(request(|now| now.workspace = Some("/b".into())), &["workspace \"/srv/site\" \"/b\""]);
        check(request(|now| now.tool_version = None), &["tool_version \"1\" null"]);
        check(request(|now| now.policy = Digest([2; 32])), &["policy - -"]);
        let held = HeldFor { code: "RULE_OF_TWO".to_owned(), params: Vec::new() };
        let told = r#"holds - [{"code":"RULE_OF_TWO","params":[]}]"#;
        check(request(|now| now.holds = vec![held]), &[told]);
        check(request(|now| now.written = Some(Digest([2; 32]))), &["written - -"]);
        let other = Artifact { media: "application/json".to_owned(), content: before.document().content };
        assert_eq!(request(|now| now.impact = 2).changes_since(&other), []);
    }
}
