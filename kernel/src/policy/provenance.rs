//! Provenance of values in a run, as input of the gate.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::node_calls::{labels_of, labels_of_call, labels_of_test_calls, own_call, test_call, tests_of};
use super::{GoalTools, ToolTerms, View};
use crate::event::Exposure;
use crate::gate::{self, Literals, NO_LABELS, Provenance, Results, Source, is_untrusted, trace};
use crate::id::NodeId;
use crate::plan::{Effect, Kind, Node, ParamRef, TEST_TOOL, model_of_tool};
use crate::port::WorkspaceUse;
use crate::run::{NodeInstance, NodeStatus, Run};

/// Known provenance of tool results.
pub trait ResultTerms {
    /// True if the results of a tool's calls with this effect are free of texts of strangers; false for an unknown tool.
    fn trusts(&self, tool: &str, effect: Effect) -> bool;

    /// Effect of a call with these literal parameters; the worst of the values that are not known yet, and of an unknown tool.
    fn effect(&self, tool: &str, literal: &Map<String, Value>) -> Effect;

    /// What calls of a tool do with the files of the workspace.
    fn workspace_use(&self, tool: &str) -> WorkspaceUse;

    /// Labels of the results of a tool.
    fn labels(&self, tool: &str) -> Vec<&str>;

    /// Labels of the results of all tools.
    fn all_labels(&self) -> Vec<&str>;
}

/// The tools of a goal run, as far as taint asks: without labels. Of a tool that the goal does not know, everything is assumed.
pub(super) struct OfferedTools<'a>(pub(super) &'a dyn GoalTools);

impl ResultTerms for OfferedTools<'_> {
    fn trusts(&self, tool: &str, effect: Effect) -> bool {
        let is_trusted = |terms: &ToolTerms| match effect {
            Effect::External => terms.trusted_outside,
            _ => terms.trusted,
        };
        self.0.terms(tool).is_some_and(is_trusted)
    }

    fn effect(&self, tool: &str, literal: &Map<String, Value>) -> Effect {
        self.0.reach(tool, literal, &BTreeMap::new()).effect
    }

    fn workspace_use(&self, tool: &str) -> WorkspaceUse {
        self.0.terms(tool).map_or(WorkspaceUse::BOTH, |terms| terms.workspace_use)
    }

    fn labels(&self, _: &str) -> Vec<&str> {
        Vec::new()
    }

    fn all_labels(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// Provenance of a node's parameters: author, literals, and sources of the references. A value is untrusted if a model
/// wrote the value after reading strangers' texts, if the value was computed from such texts, or if it was read from the
/// workspace after the run had written such values there.
pub fn provenance(run: &Run, node: &Node, terms: &dyn ResultTerms) -> Provenance {
    let results = RunResults::new(run, terms);
    let literals = Literals { params: &node.params, labels: &NO_LABELS };
    let refs = node.param_refs.iter().map(|(name, from)| (name.as_str(), source(run, node, from).as_str()));
    let seen = results.seen(&node.id);
    let mut provenance = trace(&results, "", results.is_steered(&node.id), literals, refs, seen);
    provenance.labels.extend(results.author_labels().map(str::to_owned));
    provenance
}

/// Code of a call that waits for a person because of the rule of two.
pub const RULE_OF_TWO: &str = "RULE_OF_TWO";

/// Label of private data.
const PRIVATE: &str = "private";

/// The rule of two: a run that has read texts of strangers and private data sends nothing out unless a person allows the call. What the
/// caller of the run had read counts too.
pub fn has_read_strangers_and_private(run: &Run, terms: &dyn ResultTerms) -> bool {
    let (strangers, private) = reads(run, terms, Before::Anything);
    strangers && private
}

/// The same before a test of a node, in the attempt of this number: the test runs once the node's own call has read what it reads.
pub fn has_read_both_before_test(run: &Run, node: &Node, attempt: u32, terms: &dyn ResultTerms) -> bool {
    let (strangers, private) = reads(run, terms, Before::Test(node, attempt));
    strangers && private
}

/// Labels of what the author of a node's tests has seen: a test repeats no results, and may repeat what its author knew.
pub fn labels_of_tests(run: &Run, node: &Node, terms: &dyn ResultTerms) -> BTreeSet<String> {
    let results = RunResults::new(run, terms);
    let mut labels = gate::labels(&results, results.seen(&node.id));
    labels.extend(results.author_labels().map(str::to_owned));
    labels
}

/// The exposure of a child run that the call of `node` opens. What the run reads later exposes the child too: ask again, and let the
/// child apply an [`Event::Exposed`](crate::event::Event::Exposed) record where the answer is wider.
pub fn exposure(run: &Run, node: &Node, terms: &dyn ResultTerms) -> Exposure {
    // The present call has read only what the child is about to read.
    let (strangers, private) = reads(run, terms, Before::Call(node));
    Exposure { labels: provenance(run, node, terms).labels, strangers, private }
}

/// Exposure of a run beside this one: data that this run, and its caller, have read by now, whatever became of it. The program that opened
/// both may hand them on, and so may the workspace.
pub fn exposure_of_run(run: &Run, terms: &dyn ResultTerms) -> Exposure {
    let (strangers, private) = reads(run, terms, Before::Anything);
    let results = RunResults::new(run, terms);
    let mut labels: BTreeSet<String> = results.author_labels().map(str::to_owned).collect();
    for node in run.replaced().iter().chain(called(run)) {
        labels.extend(labels_of(node, terms).into_iter().map(str::to_owned));
        let handed_on = run.goal().and_then(|goal| goal.earlier(&node.id));
        labels.extend(handed_on.into_iter().flat_map(|result| result.labels.iter().cloned()));
    }
    Exposure { labels, strangers, private }
}

/// The moment before which something was read.
#[derive(Clone, Copy)]
enum Before<'a> {
    /// Anything that comes next: all attempts count.
    Anything,
    /// The own call of a node, in its present attempt.
    Call(&'a Node),
    /// A test of a node, in the attempt of this number.
    Test(&'a Node, u32),
}

/// True if the run, its caller, or a run that it is asked on has read texts of strangers; and private data.
fn reads(run: &Run, terms: &dyn ResultTerms, before: Before<'_>) -> (bool, bool) {
    let caller = run.exposure();
    let (mut strangers, mut private) = (caller.strangers, caller.private);
    // The answers of the runs that the goal is asked on stand in its prompts.
    for earlier in run.goal().map_or(&[][..], |goal| &goal.terms().on) {
        strangers |= earlier.is_tainted;
        private |= earlier.labels.contains(PRIVATE);
    }
    let mut read = |node: &Node, call: bool, tests: bool| {
        let own = own_call(node, terms).filter(|_| call);
        for (tool, effect) in own.into_iter().chain(test_call(node, terms).filter(|_| tests)) {
            strangers |= !terms.trusts(tool, effect);
        }
        private |= call && labels_of_call(node, terms).contains(&PRIVATE);
        private |= tests && labels_of_test_calls(node, terms).contains(&PRIVATE);
        strangers |= is_answered_by_stranger(run, node);
        let handed_on = run.goal().and_then(|goal| goal.earlier(&node.id));
        strangers |= handed_on.is_some_and(|result| result.is_tainted);
        private |= handed_on.is_some_and(|result| result.labels.contains(PRIVATE));
    };
    run.replaced().iter().for_each(|node| read(node, true, true));
    let present = match before {
        Before::Anything => None,
        Before::Call(node) | Before::Test(node, _) => Some(&node.id),
    };
    called(run).filter(|node| Some(&node.id) != present).for_each(|node| read(node, true, true));
    match before {
        Before::Anything => {}
        // The present call has read nothing yet; the tests of earlier attempts have.
        Before::Call(node) => {
            let attempts = run.instance(&node.id).map_or(0, |instance| instance.attempts);
            read(node, false, attempts > 1);
        }
        Before::Test(node, attempt) => read(node, true, attempt > 1 || tests_of(node) > 1),
    }
    (strangers, private)
}

/// Nodes with an attempt, or with a result of another run. An attempt that failed has read and written too, and its message quotes
/// what it read. [`Run::replaced`] has the earlier descriptions of such nodes.
fn called(run: &Run) -> impl Iterator<Item = &Node> {
    let is_called =
        |instance: &NodeInstance| instance.attempts > 0 || instance.status == NodeStatus::Executed;
    run.instances().filter(move |(_, instance)| is_called(instance)).map(|(node, _)| node)
}

/// True for a wait with the answer of a sender that only knew the address.
fn is_answered_by_stranger(run: &Run, node: &Node) -> bool {
    node.kind == Kind::Wait
        && run.instance(&node.id).is_some_and(|instance| {
            let by = instance.wait.as_deref().map_or("", |wait| &wait.accepted_by);
            instance.status == NodeStatus::Executed && by.is_empty()
        })
}

/// Labels of the result of a node and of everything behind it.
pub(super) fn labels_behind(run: &Run, node: &NodeId, terms: &dyn ResultTerms) -> BTreeSet<String> {
    gate::labels(&RunResults::new(run, terms), [node.as_str()])
}

/// True if the result of a node is untrusted.
pub(super) fn is_result_untrusted(run: &Run, node: &NodeId, terms: &dyn ResultTerms) -> bool {
    is_untrusted(&RunResults::new(run, terms), "", [node.as_str()])
}

struct RunResults<'a> {
    run: &'a Run,
    terms: &'a dyn ResultTerms,
    /// True if the run may have written untrusted values to the workspace; computed when asked for.
    is_workspace_tainted: OnceCell<bool>,
}

impl<'a> RunResults<'a> {
    fn new(run: &'a Run, terms: &'a dyn ResultTerms) -> RunResults<'a> {
        RunResults { run, terms, is_workspace_tainted: OnceCell::new() }
    }

    fn is_workspace_tainted(&self) -> bool {
        // A run above, or an earlier one, may have written what it read from strangers.
        if self.run.exposure().strangers {
            return true;
        }
        *self.is_workspace_tainted.get_or_init(|| {
            // The first tainted write has its taint from elsewhere than the workspace.
            let elsewhere = RunResults { is_workspace_tainted: OnceCell::from(false), ..*self };
            let writes =
                |node: &&Node| node.tool.as_deref().is_some_and(|tool| self.terms.workspace_use(tool).writes);
            let present = called(self.run).filter(writes).map(|node| node.id.as_str());
            let mut all = self.run.replaced().iter().chain(called(self.run));
            is_untrusted(&elsewhere, "", present)
                || self.run.replaced().iter().filter(writes).any(|node| elsewhere.was_call_untrusted(node))
                || self.terms.workspace_use(TEST_TOOL).writes
                    && all.any(|node| elsewhere.are_tests_untrusted(node))
        })
    }

    /// True if an attempt under a replaced description of a node passed untrusted values on.
    fn was_call_untrusted(&self, node: &'a Node) -> bool {
        let view = View::of(self.run, 0);
        let mut source = self.source_of(node);
        source.untrusted_author |= view.is_some_and(|view| view.was_ever_written_tainted(&node.id));
        gate::is_source_untrusted(self, "", source)
    }

    fn source_of(&self, node: &'a Node) -> Source<'_> {
        let handed_on = self.run.goal().and_then(|goal| goal.earlier(&node.id));
        let refs = node.param_refs.values().map(|from| source(self.run, node, from).as_str());
        // Templates, models and collectors read all that they depend on.
        let reads_all = matches!(node.kind, Kind::Model | Kind::Aggregator | Kind::Collector);
        let deps = node.deps.iter().filter(|_| reads_all).map(|dep| dep.n.as_str());
        Source {
            tool: node.tool.as_deref().unwrap_or_default(),
            untrusted_author: handed_on.is_some_and(|result| result.is_tainted)
                || is_answered_by_stranger(self.run, node)
                || own_call(node, self.terms).is_some_and(|call| self.reads_strangers_outside(call))
                || self.are_tests_untrusted(node)
                || self.is_steered(&node.id),
            literals: Literals { params: &node.params, labels: &NO_LABELS },
            reads: refs.chain(deps).collect(),
            seen: self.seen(&node.id),
            labels: match handed_on {
                Some(result) => result.labels.iter().map(String::as_str).collect(),
                None => labels_of(node, self.terms).into_iter().chain(self.author_labels()).collect(),
            },
        }
    }

    /// True if a call has the network, and its tool then returns texts of strangers.
    fn reads_strangers_outside(&self, (tool, effect): (&str, Effect)) -> bool {
        effect == Effect::External
            && model_of_tool(tool).is_none()
            && !self.terms.trusts(tool, Effect::External)
    }

    /// True if the programs of a node's tests, or the message of one that fails, hand on texts of strangers. The tests have no results as
    /// inputs.
    fn are_tests_untrusted(&self, node: &Node) -> bool {
        test_call(node, self.terms).is_some_and(|call| {
            !self.is_trusted(call.0) || self.reads_strangers_outside(call) || self.is_steered(&node.id)
        })
    }

    /// Nodes whose results models had seen when they wrote a node or its own answer.
    fn seen(&self, node: &NodeId) -> Vec<&'a str> {
        let seen = View::of(self.run, 0).map(|view| view.seen_by_author(node));
        seen.unwrap_or_default().into_iter().map(NodeId::as_str).collect()
    }

    /// Labels of what every author of the run has seen: data of the caller, and the answers of earlier runs.
    fn author_labels(&self) -> impl Iterator<Item = &'a str> {
        let on = self.run.goal().map_or(&[][..], |goal| &goal.terms().on);
        let answers = on.iter().map(|earlier| &earlier.labels);
        answers.chain([&self.run.exposure().labels]).flatten().map(String::as_str)
    }

    /// True if texts of strangers may have steered the author of a node.
    fn is_steered(&self, node: &NodeId) -> bool {
        View::of(self.run, 0).is_some_and(|view| view.is_written_tainted(node))
    }
}

impl Results for RunResults<'_> {
    fn source(&self, id: &str) -> Option<Source<'_>> {
        let nodes = &self.run.plan().nodes;
        let node = &nodes[nodes.binary_search_by(|node| node.id.as_str().cmp(id)).ok()?];
        Some(self.source_of(node))
    }

    fn is_trusted(&self, tool: &str) -> bool {
        let may_be_tainted = |tool: &str| self.terms.workspace_use(tool).reads && self.is_workspace_tainted();
        tool.is_empty()
            || model_of_tool(tool).is_some()
            || self.terms.trusts(tool, Effect::None) && !may_be_tainted(tool)
    }
}

fn source<'a>(run: &'a Run, node: &Node, reference: &'a ParamRef) -> &'a NodeId {
    match reference.from.as_str() {
        ParamRef::WINNER => run.winner(&node.id).unwrap_or(&reference.from),
        _ => &reference.from,
    }
}
