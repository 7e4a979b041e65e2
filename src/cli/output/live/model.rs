//! The state of a run as known from its records, independent of terminal and clock.

use std::collections::{BTreeMap, HashMap};

use ostler_kernel::run::attempt_started_at;
use ostler_server::wire::EventLine;
use serde_json::Value;

use crate::cli::output::changes::Changes;
use crate::cli::output::labels;
use crate::cli::output::lists::{self, CHILDREN_SHOWN_MAX, ListCounts};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum DisplayState {
    #[default]
    Pending,
    Ready,
    /// A dependency failed, and a new plan version may help.
    Blocked,
    /// An operator holds the node.
    Held,
    Running,
    /// Cancelled while it changes the world; the attempt runs to its end.
    Draining,
    /// Waits for a person.
    Waiting,
    /// Failed, and will be retried or patched.
    Retrying,
    Executed,
    Failed,
    /// Cancelled, or a dependency failed.
    Cancelled,
    Skipped,
}

impl DisplayState {
    /// All states, in the order of summaries.
    pub(crate) const ALL: [DisplayState; 12] = [
        DisplayState::Executed,
        DisplayState::Failed,
        DisplayState::Waiting,
        DisplayState::Running,
        DisplayState::Retrying,
        DisplayState::Draining,
        DisplayState::Held,
        DisplayState::Cancelled,
        DisplayState::Skipped,
        DisplayState::Blocked,
        DisplayState::Ready,
        DisplayState::Pending,
    ];

    /// State after a transition; unknown states count as pending.
    fn after(to: &str, reason: &str) -> DisplayState {
        match to {
            "ready" => DisplayState::Ready,
            "blocked" if reason == "hold" => DisplayState::Held,
            "blocked" => DisplayState::Blocked,
            "running" => DisplayState::Running,
            "waiting_human" => DisplayState::Waiting,
            "failed_retryable" => DisplayState::Retrying,
            "executed" => DisplayState::Executed,
            "failed" => DisplayState::Failed,
            "cancelled" => DisplayState::Cancelled,
            "skipped" => DisplayState::Skipped,
            _ => DisplayState::Pending,
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(
            self,
            DisplayState::Executed | DisplayState::Failed | DisplayState::Cancelled | DisplayState::Skipped
        )
    }

    /// Returns whether the node is active, failed, or needs a person.
    pub(crate) fn is_notable(self) -> bool {
        match self {
            DisplayState::Running
            | DisplayState::Draining
            | DisplayState::Waiting
            | DisplayState::Retrying => true,
            DisplayState::Failed | DisplayState::Held => true,
            DisplayState::Pending | DisplayState::Ready | DisplayState::Blocked => false,
            DisplayState::Executed | DisplayState::Cancelled | DisplayState::Skipped => false,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            DisplayState::Pending => "pending",
            DisplayState::Ready => "ready",
            DisplayState::Blocked => "blocked",
            DisplayState::Held => "held",
            DisplayState::Running => "running",
            DisplayState::Draining => "draining",
            DisplayState::Waiting => "waiting",
            DisplayState::Retrying => "retrying",
            DisplayState::Executed => "executed",
            DisplayState::Failed => "failed",
            DisplayState::Cancelled => "cancelled",
            DisplayState::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NodeModel {
    pub(crate) name: String,
    pub(crate) level: usize,
    pub(crate) state: DisplayState,
    pub(crate) since_ms: i64,
    pub(crate) started_ms: Option<i64>,
    pub(crate) took_ms: Option<i64>,
    /// End of a sleep, a back-off or an approval deadline.
    pub(crate) until_ms: Option<i64>,
    pub(crate) attempt: u64,
    pub(crate) failure: Option<String>,
    pub(crate) reason: String,
    /// Origin of a reused result, or the reason of an execution; empty for a node without a record to compare with.
    pub(crate) reuse: String,
    /// The run that this one continues had executed the node.
    pub(crate) is_taken_over: bool,
    /// Kind of the request to a person: `before`, `after`, `node`, `in_doubt`.
    pub(crate) ask: String,
    sources: Vec<usize>,
    /// The node was expanded: it collects its children.
    is_list: bool,
    /// Place of the expanded node, for a child.
    list: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct RunModel {
    pub(crate) run: String,
    pub(crate) plan: String,
    pub(crate) version: u64,
    pub(crate) opened_ms: Option<i64>,
    pub(crate) cost: u64,
    pub(crate) replanning: bool,
    pub(crate) parked: bool,
    pub(crate) client: String,
    pub(crate) out_of_credit: bool,
    /// Suggested deposit, once the balance is known.
    pub(crate) deposit: Option<i64>,
    pub(crate) changes: Changes,
    nodes: Vec<NodeModel>,
    index: HashMap<String, usize>,
    levels_outdated: bool,
}

pub(crate) fn text<'a>(body: &'a Value, key: &str) -> &'a str {
    body[key].as_str().unwrap_or_default()
}

impl RunModel {
    /// Nodes in order of first appearance. Levels are valid after [`RunModel::update_levels`].
    pub(crate) fn nodes(&self) -> &[NodeModel] {
        &self.nodes
    }

    #[cfg(test)]
    pub(crate) fn node(&self, name: &str) -> Option<&NodeModel> {
        self.index.get(name).map(|&place| &self.nodes[place])
    }

    /// The nodes without the children of lists, but for some that failed or go on; each list with the counts of its children.
    pub(crate) fn folded(&self) -> Vec<(&NodeModel, Option<ListCounts>)> {
        let mut counts: BTreeMap<usize, (ListCounts, usize)> = BTreeMap::new();
        let mut shown = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            if let Some(list) = node.list.filter(|&list| self.nodes[list].is_list) {
                let (counts, children) = counts.entry(list).or_default();
                counts.add(node.state == DisplayState::Executed, node.state == DisplayState::Failed);
                if !node.state.is_notable() || *children == CHILDREN_SHOWN_MAX {
                    continue;
                }
                *children += 1;
            }
            shown.push(place);
        }
        let list = |place: usize| {
            self.nodes[place].is_list.then(|| counts.get(&place).copied().unwrap_or_default().0)
        };
        shown.into_iter().map(|place| (&self.nodes[place], list(place))).collect()
    }

    pub(crate) fn counts(&self) -> BTreeMap<DisplayState, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.nodes {
            *counts.entry(node.state).or_default() += 1;
        }
        counts
    }

    /// Applies a record, and returns the node with a changed state.
    pub(crate) fn record(&mut self, line: &EventLine) -> Option<&NodeModel> {
        let body = &line.body;
        self.changes.record(line);
        match line.kind.as_str() {
            "run_opened" => {
                line.run.clone_into(&mut self.run);
                text(&body["plan"], "id").clone_into(&mut self.plan);
                text(body, "client").clone_into(&mut self.client);
                (self.opened_ms, self.version) = (Some(line.at_ms), 1);
                self.add_nodes(&body["plan"]["nodes"], line.at_ms);
            }
            "plan_version" => {
                self.version = body["version"].as_u64().unwrap_or(self.version);
                self.replanning = false;
                self.add_nodes(&body["revision"]["nodes"], line.at_ms);
            }
            "plan_refused" => self.replanning = false,
            "replan_asked" => self.replanning = true,
            "out_of_credit" => (self.out_of_credit, self.deposit) = (body["out"] == true, None),
            "parked" => self.parked = true,
            "run_recovered" => self.parked = false,
            "attempt_result" | "late_result" => {
                let cost = body["cost"].as_u64().unwrap_or(0);
                self.cost = self.cost.saturating_add(cost);
                if line.kind == "attempt_result" {
                    let node = self.node_entry(text(body, "node"), line.at_ms);
                    node.failure = body["outcome"]["failed"]["message"].as_str().map(str::to_owned);
                    if let (Some(started), Some(took)) = (&mut node.started_ms, body["duration_ms"].as_u64())
                    {
                        *started = attempt_started_at(*started, line.at_ms, took, cost);
                    }
                }
            }
            "reuse_decided" => {
                let told = labels::reuse(body);
                let node = self.node_entry(text(body, "node"), line.at_ms);
                // Records that a fork took over follow the one that names the other run.
                if !node.is_taken_over {
                    node.reuse = told;
                }
            }
            "approval_carried" => {
                let node = self.node_entry(text(body, "node"), line.at_ms);
                node.until_ms = None;
                let told = labels::carried(body);
                node.reuse = if node.reuse.is_empty() { told } else { format!("{}; {told}", node.reuse) };
            }
            "forked" => {
                let told = format!("from run {}", labels::short_id(text(body, "from")));
                for done in body["done"].as_array().into_iter().flatten() {
                    let node = self.node_entry(done[0].as_str().unwrap_or_default(), line.at_ms);
                    (node.is_taken_over, node.reuse) = (true, told.clone());
                }
            }
            "draining" => self.node_entry(text(body, "node"), line.at_ms).state = DisplayState::Draining,
            "human_request" => {
                let node = self.node_entry(text(body, "node"), line.at_ms);
                text(body, "kind").clone_into(&mut node.ask);
                node.until_ms = body["deadline_ms"].as_i64();
            }
            "timer_set" => self.node_entry(text(body, "node"), line.at_ms).until_ms = body["at_ms"].as_i64(),
            "timer_fired" | "human_answer" => self.node_entry(text(body, "node"), line.at_ms).until_ms = None,
            "node_transition" => return Some(self.transition(body, line.at_ms)),
            _ => {}
        }
        None
    }

    fn transition(&mut self, body: &Value, at_ms: i64) -> &NodeModel {
        let node = self.node_entry(text(body, "node"), at_ms);
        text(body, "reason").clone_into(&mut node.reason);
        if (text(body, "from"), text(body, "to"), node.reason.as_str())
            == ("waiting_human", "failed", "in_doubt")
        {
            node.failure = Some("a person settled it as failed".to_owned());
        }
        node.state = DisplayState::after(text(body, "to"), &node.reason);
        node.since_ms = at_ms;
        node.attempt = body["attempt"].as_u64().unwrap_or(0);
        if node.state == DisplayState::Running {
            (node.started_ms, node.took_ms) = (Some(at_ms), None);
        } else if let Some(started) = node.started_ms.take() {
            node.took_ms = Some(at_ms.saturating_sub(started));
        }
        // A timer or deadline set before the transition may belong to the new state.
        if !matches!(node.state, DisplayState::Running | DisplayState::Waiting | DisplayState::Retrying) {
            node.until_ms = None;
        }
        node
    }

    /// Returns the node of this name, and adds an unknown one.
    fn node_entry(&mut self, name: &str, at_ms: i64) -> &mut NodeModel {
        let place = match self.index.get(name) {
            Some(&place) => place,
            None => {
                self.nodes.push(NodeModel { name: name.to_owned(), since_ms: at_ms, ..NodeModel::default() });
                self.index.insert(name.to_owned(), self.nodes.len() - 1);
                self.levels_outdated = true;
                self.nodes.len() - 1
            }
        };
        &mut self.nodes[place]
    }

    /// Adds the nodes of a plan, or those that a new version adds or changes.
    fn add_nodes(&mut self, nodes: &Value, at_ms: i64) {
        let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
        for node in nodes {
            self.node_entry(text(node, "id"), at_ms);
        }
        for node in nodes {
            let deps = node["deps"].as_array().map(Vec::as_slice).unwrap_or_default();
            let sources = deps.iter().filter_map(|dep| self.index.get(text(dep, "n")).copied()).collect();
            let id = text(node, "id");
            let place = self.index[id];
            self.nodes[place].sources = sources;
            self.nodes[place].is_list |= text(node, "kind") == "collector";
            self.nodes[place].list = lists::parent(id).and_then(|list| self.index.get(list)).copied();
        }
        self.levels_outdated = true;
    }

    /// Recomputes levels after a change of the plan, by a topological traversal. Time: nodes and edges.
    pub(crate) fn update_levels(&mut self) {
        if !std::mem::take(&mut self.levels_outdated) {
            return;
        }
        let mut consumers = vec![Vec::new(); self.nodes.len()];
        let mut open: Vec<usize> = vec![0; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            open[at] = node.sources.len();
            node.sources.iter().for_each(|&source| consumers[source].push(at));
        }
        self.nodes.iter_mut().for_each(|node| node.level = 0);
        let mut next: Vec<usize> = (0..open.len()).filter(|&at| open[at] == 0).collect();
        while let Some(at) = next.pop() {
            let below = self.nodes[at].level + 1;
            for &consumer in &consumers[at] {
                self.nodes[consumer].level = self.nodes[consumer].level.max(below);
                open[consumer] -= 1;
                if open[consumer] == 0 {
                    next.push(consumer);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A record of the run `0198f3c2-…-1a2b3c4d5e6f`.
    pub(crate) fn line(at_ms: i64, kind: &str, body: Value) -> EventLine {
        let run = "0198f3c2-0000-7000-8000-1a2b3c4d5e6f".to_owned();
        EventLine { line_type: "event".to_owned(), seq: 1, at_ms, run, kind: kind.to_owned(), body }
    }

    /// A model of a plan, given as nodes with their dependencies.
    pub(crate) fn model(plan: &[(&str, &[&str])]) -> RunModel {
        let mut model = RunModel::default();
        let body = json!({"plan": {"id": "p", "nodes": nodes(plan)}});
        model.record(&line(0, "run_opened", body));
        model
    }

    fn nodes(plan: &[(&str, &[&str])]) -> Vec<Value> {
        let deps = |deps: &[&str]| deps.iter().map(|dep| json!({"n": dep})).collect::<Vec<_>>();
        plan.iter().map(|(id, sources)| json!({"id": id, "deps": deps(sources)})).collect()
    }

    pub(crate) fn move_to(model: &mut RunModel, at_ms: i64, node: &str, to: &str, reason: &str) {
        let attempt = u64::from(to != "ready");
        let body = json!({"node": node, "to": to, "reason": reason, "attempt": attempt});
        model.record(&line(at_ms, "node_transition", body));
    }

    fn check_levels(model: &mut RunModel, expected: &[(&str, usize)]) {
        model.update_levels();
        let levels: Vec<(&str, usize)> =
            model.nodes().iter().map(|node| (node.name.as_str(), node.level)).collect();
        assert_eq!(levels, expected);
    }

    #[test]
    fn levels_are_the_longest_paths() {
        let mut model = model(&[("c", &["b", "a"]), ("b", &["a"]), ("a", &[]), ("d", &[])]);
        check_levels(&mut model, &[("c", 2), ("b", 1), ("a", 0), ("d", 0)]);
    }

    #[test]
    fn a_new_version_puts_its_nodes_and_those_after_them_right() {
        let mut model = model(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
        check_levels(&mut model, &[("a", 0), ("b", 1), ("c", 2)]);
        let revision = json!({"nodes": nodes(&[("b", &["x"]), ("x", &["y"]), ("y", &["a"])])});
        model.record(&line(5, "plan_version", json!({"version": 2, "revision": revision})));
        check_levels(&mut model, &[("a", 0), ("b", 3), ("c", 4), ("x", 2), ("y", 1)]);
        assert_eq!(model.version, 2);
    }

    #[test]
    fn a_chain_of_ten_thousand_nodes_settles_at_once() {
        let names: Vec<String> = (0..10_000).map(|at| format!("n{at}")).collect();
        let deps: Vec<Vec<&str>> =
            (0..10_000).map(|at| (at > 0).then(|| names[at - 1].as_str()).into_iter().collect()).collect();
        let plan: Vec<(&str, &[&str])> =
            names.iter().zip(&deps).map(|(name, deps)| (name.as_str(), deps.as_slice())).collect();
        let mut model = model(&plan);
        model.update_levels();
        assert_eq!(model.nodes()[9_999].level, 9_999);
    }

    #[test]
    fn a_node_knows_its_attempt_its_time_and_its_failure() {
        let mut model = model(&[("a", &[])]);
        move_to(&mut model, 20, "a", "running", "attempt:1");
        let outcome = json!({"failed": {"message": "no such file"}});
        let body = json!({"node": "a", "outcome": outcome, "cost": 3});
        model.record(&line(50, "attempt_result", body));
        move_to(&mut model, 50, "a", "failed_retryable", "transient");
        model.record(&line(50, "timer_set", json!({"node": "a", "kind": "backoff", "at_ms": 250})));
        let node = model.node("a").unwrap();
        assert_eq!((node.state, node.took_ms, node.until_ms), (DisplayState::Retrying, Some(30), Some(250)));
        assert_eq!((node.failure.as_deref(), model.cost), (Some("no such file"), 3));
        move_to(&mut model, 250, "a", "pending", "retry");
        assert_eq!(model.node("a").unwrap().until_ms, None);
    }

    #[test]
    fn an_attempt_took_what_its_result_says() {
        for (duration_ms, cost, took) in [(0, 1, 0), (20, 20, 20), (90, 90, 30), (0, 0, 30)] {
            let mut model = model(&[("a", &[])]);
            move_to(&mut model, 20, "a", "running", "attempt:1");
            let body = json!({"node": "a", "outcome": {}, "duration_ms": duration_ms, "cost": cost});
            model.record(&line(50, "attempt_result", body));
            move_to(&mut model, 50, "a", "executed", "ok");
            assert_eq!(model.node("a").unwrap().took_ms, Some(took), "{duration_ms} {cost}");
        }
    }

    #[test]
    fn what_is_stopped_while_it_acts_drains() {
        let mut model = model(&[("a", &[])]);
        move_to(&mut model, 20, "a", "running", "attempt:1");
        model.record(&line(30, "draining", json!({"node": "a"})));
        assert_eq!(model.node("a").unwrap().state, DisplayState::Draining);
        move_to(&mut model, 40, "a", "executed", "ok");
        assert_eq!(model.node("a").unwrap().state, DisplayState::Executed);
    }

    #[test]
    fn a_record_that_nobody_knows_changes_nothing() {
        let mut model = model(&[("a", &[])]);
        for kind in ["gate_decision", "something_new", "plan_version", "timer_set"] {
            model.record(&line(1, kind, json!({"node": "a"})));
        }
        assert_eq!((model.nodes().len(), model.node("a").unwrap().state), (1, DisplayState::Pending));
    }
}
