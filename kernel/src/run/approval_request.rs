//! The document shown to a person before an answer. An approval covers exactly the shown document.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::HumanRequestKind;
use crate::id::Digest;
use crate::json;
use crate::lineage;
use crate::plan::{Effect, Kind};
use crate::port::{Artifact, NamedFile};

/// Media type of a document that names files.
const SHOWN: &str = "application/vnd.ostler.shown+json";

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
    /// Programs of the node's contract that test the result, in order.
    pub tests: Vec<ApprovalTest>,
    /// Questions of the node's contract for a person, about a result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Number of the gate's policy: a change asks again.
    pub policy_epoch: u64,
    /// Files of the workspace that the call and its tests name or execute, as they are: a change asks again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<NamedFile>,
    /// The gate's objection if the call were approved now; `None` if the gate allows the call.
    pub refusal: Option<String>,
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

impl ApprovalRequest {
    /// Digest of the whole document; an answer names the digest.
    ///
    /// ```
    /// # use ostler_kernel::{event::HumanRequestKind, plan::{Effect, Kind}, run::ApprovalRequest};
    /// # let (tool_version, refusal, tests, questions) = (None, None, Vec::new(), Vec::new());
    /// let shown = ApprovalRequest {
    ///     ask: HumanRequestKind::Before, kind: Kind::Tool, tool: Some("fs.write".into()), tool_version,
    ///     effect: Effect::Write, impact: 1, params: Default::default(), tests, questions, refusal,
    ///     policy_epoch: 1, files: Vec::new(),
    /// };
    /// let other = ApprovalRequest { impact: 2, ..shown.clone() };
    /// assert_ne!(shown.digest(), other.digest());
    /// ```
    pub fn digest(&self) -> Digest {
        match self.document() {
            Some(document) => lineage::artifact(&document.media, &document.content),
            None => lineage::hash("aos/shown/1", &[&self.canonical()]),
        }
    }

    /// The document as an artifact, if it names files: a later question tells what has changed since. Its digest is that of the
    /// artifact.
    pub fn document(&self) -> Option<Artifact> {
        let content = (!self.files.is_empty()).then(|| self.canonical())?;
        Some(Artifact { media: SHOWN.to_owned(), content })
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
