//! What each role is shown. Both the count of tokens and the prompt are made from a [`Context`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::{ContextForm, Mode, Role, View};
use crate::id::NodeId;
use crate::plan::Node;
use crate::run::NodeState;
use crate::text::{TOKEN_BYTES, beginning};

/// Maximum number of tokens of one result shown to a model in full. The result itself is stored whole, and steps reference
/// it.
pub const SHOWN_TOKENS_MAX: u64 = 32 * 1_024;

/// Tokens of a failure: its category and message.
pub const FAILURE_TOKENS: u64 = 8;

/// Tokens of a fault in the list that the next try is shown.
pub const FAULT_TOKENS: u64 = 8;

/// The form in which a result is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The result, up to [`SHOWN_TOKENS_MAX`].
    Full,
    /// The first tokens of its canonical JSON.
    Digest,
}

/// A result in a context. A failed node shows its category and message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The node.
    pub node: NodeId,
    /// The form.
    pub form: Form,
}

/// The faulty answer of an earlier try. The next try is shown the answer and its faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultyTry {
    /// Number of the attempt.
    pub attempt: u32,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Number of faults.
    pub faults: u32,
}

/// The context of a call, besides the base of its role: system text, goal and schema. The order is that of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The index of tools is shown.
    pub tools: bool,
    /// Results, in the order of their commits.
    pub shown: Vec<Shown>,
    /// What an answer asks a planner for, or the message of an operator.
    pub text: Option<String>,
    /// Faulty answers of earlier tries.
    pub faulty: Vec<FaultyTry>,
    /// Searches whose tools are offered beside the listed ones, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<String>,
}

/// Tokens of a text.
pub fn text_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(TOKEN_BYTES)
}

/// The beginning of a text, of at most so many tokens, ending with a whole character.
pub(crate) fn digest(text: &str, tokens: u64) -> &str {
    let most = usize::try_from(tokens.saturating_mul(TOKEN_BYTES)).unwrap_or(usize::MAX);
    beginning(text, most)
}

impl<'a> View<'a> {
    /// The context of the next attempt of a control node.
    pub(super) fn context(self, node: &'a Node, role: Role) -> Context {
        let (shown, text) = match role {
            Role::Planner => self.planner_context(node),
            Role::Reflect => (self.reflection_context(node), None),
            Role::Observe => (self.all(self.covered_evidence(node), Form::Full), None),
            Role::Interject => {
                let reviewed = self.reviewed();
                let form = |id: &NodeId| if reviewed.contains(id) { Form::Digest } else { Form::Full };
                (self.shown(self.evidence(), form), message(node))
            }
            Role::Think | Role::Answer => (self.all(self.evidence(), Form::Full), None),
            Role::Micro => (Vec::new(), None),
        };
        let (faulty, searches) = (self.faulty_tries(&node.id), self.searches(node, role));
        Context { tools: role.sees_tools(), shown, text, faulty, searches }
    }

    /// A planner that goes on from a search is shown what the planner was shown that began.
    fn planner_context(self, node: &'a Node) -> (Vec<Shown>, Option<String>) {
        let node = self.planning_begins(node);
        if node.id == self.goal.opening() {
            return (self.all(self.earlier(), Form::Digest), None);
        }
        let asker = self.asker(node);
        let text = asker.and_then(|asker| match self.answer(asker)? {
            Answer::Reflected(answer) => answer.next,
            Answer::Observed(answer) => answer.next,
            Answer::Planned(_) | Answer::Thought(_) => None,
        });
        let observer = asker.filter(|asker| self.role(asker) == Some(Role::Observe));
        let shown = match observer.and_then(|observer| self.run.node(observer)) {
            Some(observer) => self.all(self.covered_evidence(observer), Form::Full),
            None => self.all(self.evidence(), Form::Digest),
        };
        (shown, text)
    }

    /// The node whose answer asked for this planner.
    pub(super) fn asker<'n>(&self, planner: &'n Node) -> Option<&'n NodeId> {
        planner.deps.first().map(|dep| &dep.n)
    }

    fn reflection_context(self, node: &Node) -> Vec<Shown> {
        let cover: BTreeSet<&NodeId> = self.covered_evidence(node).collect();
        let (observed, reviewed) = (self.observed(), self.reviewed());
        let evidence =
            self.evidence().filter(|id| cover.contains(id) || reviewed.contains(id) || self.is_earlier(id));
        self.shown(evidence, |id| {
            if cover.contains(id) && !observed.contains(id) { Form::Full } else { Form::Digest }
        })
    }

    /// Work that an observer has judged. Observers exist in one mode only.
    fn observed(&self) -> BTreeSet<&NodeId> {
        if self.goal.terms.mode != Mode::Orchestrator {
            return BTreeSet::new();
        }
        let judged =
            self.of_role(Role::Observe).filter(|(_, instance)| instance.state() == NodeState::Executed);
        judged.flat_map(|(node, _)| self.covered_evidence(node)).collect()
    }

    pub(super) fn all<'n>(self, nodes: impl Iterator<Item = &'n NodeId>, form: Form) -> Vec<Shown> {
        self.shown(nodes, |_| form)
    }

    fn shown<'n>(
        self,
        nodes: impl Iterator<Item = &'n NodeId>,
        form: impl Fn(&NodeId) -> Form,
    ) -> Vec<Shown> {
        let is_cumulative = self.goal.terms.context == ContextForm::Cumulative;
        let mut nodes: Vec<&NodeId> = nodes.collect();
        nodes.sort_by_key(|node| self.run.instance(node).map(|instance| instance.commit_number));
        let form = |node: &NodeId| match is_cumulative {
            true => Form::Full,
            // Of any size, and read by the run that made them.
            false if self.is_earlier(node) => Form::Digest,
            false => form(node),
        };
        nodes.into_iter().map(|node| Shown { node: node.clone(), form: form(node) }).collect()
    }

    fn faulty_tries(self, node: &NodeId) -> Vec<FaultyTry> {
        let calls = self.goal.calls.iter().filter(|call| call.is_by(node));
        calls
            .filter_map(|call| {
                let end = call.end.filter(|end| end.faults > 0)?;
                let (attempt, output_tokens) = (call.intent.attempt, call.output_tokens);
                Some(FaultyTry { attempt, output_tokens, faults: end.faults })
            })
            .collect()
    }

    /// Tokens of a context with the base of its role.
    pub(super) fn tokens(self, role: Role, context: &Context) -> u64 {
        let index = if context.tools { self.goal.tools.index_tokens() } else { 0 };
        let shown: u64 = context.shown.iter().map(|shown| self.shown_tokens(shown)).sum();
        let text = context.text.as_deref().map_or(0, text_tokens);
        let found = self.found_tokens(&context.searches);
        let faulty =
            |again: &FaultyTry| again.output_tokens.saturating_add(FAULT_TOKENS * u64::from(again.faults));
        let faulty = context.faulty.iter().map(faulty).fold(0, u64::saturating_add);
        (self.goal.terms.base.of(role) + index + shown + text + found).saturating_add(faulty)
    }

    fn shown_tokens(self, shown: &Shown) -> u64 {
        let full = match self.run.instance(&shown.node) {
            Some(done) if done.state() == NodeState::Executed => {
                done.result().map_or(0, |output| output.bytes.div_ceil(TOKEN_BYTES))
            }
            Some(_) | None => FAILURE_TOKENS,
        };
        match shown.form {
            Form::Full => full.min(SHOWN_TOKENS_MAX),
            Form::Digest => full.min(self.goal.terms.digest_tokens),
        }
    }
}

fn message(interjection: &Node) -> Option<String> {
    interjection.params.get("message")?.as_str().map(str::to_owned)
}
