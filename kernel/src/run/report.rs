//! The figures of a run, computed from its records.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judged_results::{JudgedResult, JudgedResults};
use super::lost_attempts::{LostAttempts, OpenAttempts};
use super::spending::Spending;
use super::{ModelUsage, NodeState, NodeStatus, Run, RunOutcome};
use crate::event::Event;
use crate::id::{NodeId, Ticks};
use crate::run::{FailureCategory, TransitionReason};

/// Collects the figures of a run from its records, in order.
#[derive(Debug, Clone, Default)]
pub struct RunTimeline {
    opened: Option<Ticks>,
    last: Ticks,
    started: BTreeMap<NodeId, Ticks>,
    busy: BTreeMap<NodeId, Ticks>,
    /// Time spent in the last attempt of each node.
    took: BTreeMap<NodeId, Ticks>,
    rounds: Vec<u32>,
    in_round: bool,
    ready: u32,
    ready_since: Ticks,
    ready_area: i64,
    peak_ready: u32,
    attempts: u32,
    late: u32,
    cost: u64,
    models: ModelUsage,
    spending: Spending,
    /// Violation of the plan's contract at its last check.
    broken: Option<String>,
    denials: BTreeMap<NodeId, String>,
    reuse: BTreeMap<NodeId, &'static str>,
    judged: JudgedResults,
    attempts_open: OpenAttempts,
}

/// Figures of the nodes of a run.
#[derive(Debug, Clone, Default)]
pub struct NodeFigures {
    /// Time spent in the last attempt.
    pub took: BTreeMap<NodeId, Ticks>,
    /// Credits and model calls of all attempts.
    pub spending: Spending,
    /// The last decision about reuse: `reused`, `cut_off`, `revalidated`, `kept`, `edited`, or `recomputed` because of a change.
    pub reuse: BTreeMap<NodeId, &'static str>,
    /// Nodes of the longest chain of attempts, from its end.
    pub critical_path: Vec<NodeId>,
    /// Verdicts of models on the last judged attempt of each node.
    pub judged: BTreeMap<NodeId, Vec<JudgedResult>>,
    /// Attempts that may have been lost amid a call of a model.
    pub lost: LostAttempts,
}

/// The figures of a run. Times are in the unit of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// Version of the plan at the end.
    pub version: u32,
    /// Outcome of the run, as of the last record.
    pub outcome: RunOutcome,
    /// State of each node.
    pub nodes: BTreeMap<NodeId, NodeState>,
    /// Attempts started.
    pub dispatches: u32,
    /// Attempts started between the end of one attempt and the next.
    pub rounds: Vec<u32>,
    /// Most nodes ready or running at once.
    pub peak_ready: u32,
    /// Nodes ready or running, averaged over time.
    pub mean_ready: f64,
    /// Time from the first record to the last, or to now while the run goes on.
    pub makespan_ms: Ticks,
    /// Duration of the longest chain of attempts.
    pub critical_path_ms: Ticks,
    /// Time in attempts over makespan.
    pub parallelism: f64,
    /// (makespan - critical path) over executed nodes, in microseconds.
    pub overhead_us_per_node: f64,
    /// Results that arrived after their attempt was abandoned.
    pub late: u32,
    /// Credits spent.
    pub cost: u64,
    /// Tokens and price of model calls; `None` without a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<ModelUsage>,
    /// Origin of every failed or cancelled node, and of every skipped node (by an operator) with consumers in need of it.
    #[serde(rename = "culprits")]
    pub root_causes: Vec<RootCause>,
}

/// The node where a loss began, and the nodes lost with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RootCause {
    /// The first lost node.
    pub node: NodeId,
    /// The terminal state.
    pub state: NodeState,
    /// Reason of its last transition.
    pub reason: String,
    /// Description of the failure; `None` if the reason says everything.
    pub message: Option<String>,
    /// Dependent nodes lost with it.
    pub lost: Vec<NodeId>,
}

/// Start of an attempt from the times of its start and result. A result with costs reports its own duration: a later process
/// may have repeated a lost attempt, and the time without a process does not count.
pub fn attempt_started_at(started: Ticks, ended: Ticks, duration_ms: u64, cost: u64) -> Ticks {
    if cost == 0 { started } else { started.max(ended.saturating_sub_unsigned(duration_ms)) }
}

impl RunTimeline {
    /// Adds the record with the sequence number `seq`, of time `at`.
    pub fn record(&mut self, event: &Event, seq: u64, at: Ticks) {
        self.last = if self.opened.is_some() { self.last.max(at) } else { at };
        self.opened.get_or_insert(at);
        self.spending.record(event);
        self.judged.record(event, seq);
        self.attempts_open.record(event);
        match event {
            Event::NodeTransition(moved) => {
                if moved.to == NodeState::Running {
                    self.attempts += 1;
                    self.started.insert(moved.node.clone(), at);
                    match self.rounds.last_mut() {
                        Some(round) if self.in_round => *round += 1,
                        _ => self.rounds.push(1),
                    }
                    self.in_round = true;
                } else if moved.from == NodeState::Running {
                    self.in_round = false;
                    if let Some(started) = self.started.remove(&moved.node) {
                        *self.busy.entry(moved.node.clone()).or_default() += at - started;
                        self.took.insert(moved.node.clone(), at - started);
                    }
                }
                let active = |state| matches!(state, NodeState::Ready | NodeState::Running);
                match (active(moved.from), active(moved.to)) {
                    (false, true) => self.ready_changes(at, 1),
                    (true, false) => self.ready_changes(at, -1),
                    _ => {}
                }
            }
            Event::AttemptResult(result) => {
                self.cost += result.cost;
                if let Some(started) = self.started.get_mut(&result.node) {
                    *started = attempt_started_at(*started, at, result.duration_ms, result.cost);
                }
            }
            Event::ModelCalled { call, .. } => self.models.add(call),
            Event::ReuseDecided(decided) => {
                self.reuse.extend(decided.decision.word().map(|word| (decided.node.clone(), word)));
            }
            Event::Forked(forked) => {
                self.reuse.extend(forked.done.iter().map(|(node, _)| (node.clone(), "kept")));
            }
            Event::ContractBroken { why, .. } => self.broken = Some(why.clone()),
            Event::GateDecision(denied) => {
                self.denials.insert(denied.node.clone(), format!("{}: {}", denied.code, denied.detail));
            }
            Event::LateResult(result) => {
                self.late += 1;
                self.cost += result.cost;
            }
            _ => {}
        }
    }

    /// Ends the timeline at `now` for a run that goes on: running attempts count up to now. No record may follow.
    pub fn until(&mut self, now: Ticks) {
        self.last = self.last.max(now);
        for (node, started) in std::mem::take(&mut self.started) {
            let so_far = now.saturating_sub(started).max(0);
            *self.busy.entry(node.clone()).or_default() += so_far;
            self.took.insert(node, so_far);
        }
        self.ready_changes(self.last, 0);
    }

    fn ready_changes(&mut self, at: Ticks, by: i32) {
        self.ready_area += i64::from(self.ready) * (at - self.ready_since);
        self.ready_since = at;
        self.ready = self.ready.saturating_add_signed(by);
        self.peak_ready = self.peak_ready.max(self.ready);
    }

    /// The figures of the nodes of `run`.
    pub fn into_nodes(self, run: &Run) -> NodeFigures {
        let critical_path = self.critical_path(run).1;
        let (took, spending, reuse, judged) = (self.took, self.spending, self.reuse, self.judged.end());
        let lost = self.attempts_open.end(run);
        NodeFigures { took, spending, reuse, critical_path, judged, lost }
    }

    fn makespan(&self) -> Ticks {
        self.last - self.opened.unwrap_or(self.last)
    }

    /// Combines the figures with the state of the run.
    pub fn report(&self, run: &Run) -> RunReport {
        let makespan = self.makespan();
        let busy: Ticks = self.busy.values().sum();
        let critical = self.critical_path(run).0;
        let executed =
            run.instances().filter(|(_, instance)| instance.status == NodeStatus::Executed).count();
        let span = (makespan as f64).max(1.0);
        RunReport {
            version: run.plan().version,
            outcome: run.outcome(),
            nodes: run.instances().map(|(node, instance)| (node.id.clone(), instance.state())).collect(),
            dispatches: self.attempts,
            rounds: self.rounds.clone(),
            peak_ready: self.peak_ready,
            mean_ready: self.ready_area as f64 / span,
            makespan_ms: makespan,
            critical_path_ms: critical,
            parallelism: busy as f64 / span,
            overhead_us_per_node: (makespan - critical).max(0) as f64 * 1_000.0 / (executed.max(1) as f64),
            late: self.late,
            cost: self.cost,
            models: (self.models.calls > 0).then_some(self.models),
            root_causes: self.root_causes(run),
        }
    }

    /// Groups every lost node under the node where the loss began.
    fn root_causes(&self, run: &Run) -> Vec<RootCause> {
        let mut found: BTreeMap<NodeId, RootCause> = BTreeMap::new();
        let mut lost: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for (node, instance) in run.instances() {
            let state = instance.state();
            let Some(reason) = &instance.reason else { continue };
            match (state, reason) {
                (NodeState::Cancelled | NodeState::Blocked, TransitionReason::Upstream(root_cause)) => {
                    lost.insert(node.id.clone(), root_cause.clone());
                }
                (NodeState::Failed | NodeState::Cancelled, _)
                | (NodeState::Skipped, TransitionReason::Operator) => {
                    let denied = instance.failure.as_ref().zip(self.denials.get(&node.id));
                    let message = match denied {
                        Some((failure, denial)) if denial.ends_with(&failure.message) => Some(denial.clone()),
                        Some((failure, denial)) if failure.category == FailureCategory::GateDenied => {
                            Some(format!("{}: {denial}", failure.message))
                        }
                        _ => instance.failure_message().map(str::to_owned),
                    };
                    let (node, reason) = (node.id.clone(), reason.to_string());
                    found.insert(node.clone(), RootCause { node, state, reason, message, lost: Vec::new() });
                }
                _ => {}
            }
        }
        let mut roots = BTreeMap::new();
        for node in lost.keys() {
            if let Some(root_cause) = found.get_mut(root_of(node, &lost, &mut roots)) {
                root_cause.lost.push(node.clone());
            }
        }
        // A skipped node is a loss only for nodes that need it.
        let outputs = &run.plan().outputs;
        found.retain(|node, root_cause| {
            root_cause.state != NodeState::Skipped || !root_cause.lost.is_empty() || outputs.contains(node)
        });
        let broken = self.broken.as_ref().filter(|_| run.violates_contract()).map(|why| RootCause {
            node: super::completion::PLAN.into(),
            state: NodeState::Failed,
            reason: "contract".to_owned(),
            message: Some(why.clone()),
            lost: Vec::new(),
        });
        broken.into_iter().chain(found.into_values()).collect()
    }

    /// Duration of the longest chain of attempts, and its nodes from the last to the first.
    fn critical_path(&self, run: &Run) -> (Ticks, Vec<NodeId>) {
        let (graph, nodes) = (run.graph(), &run.plan().nodes);
        let mut order: Vec<usize> = (0..graph.level.len()).collect();
        order.sort_by_key(|&at| graph.level[at]);
        let mut path = vec![0; order.len()];
        let longest = |path: &[Ticks], at: usize| {
            graph.sources[at].iter().map(|&(source, _)| source).max_by_key(|&source| path[source])
        };
        for at in order {
            let before = longest(&path, at).map_or(0, |source| path[source]);
            path[at] = before + self.busy.get(&nodes[at].id).copied().unwrap_or(0);
        }
        let mut next = (0..path.len()).max_by_key(|&at| path[at]).filter(|&at| path[at] > 0);
        let (duration, mut chain) = (next.map_or(0, |at| path[at]), Vec::new());
        while let Some(at) = next.filter(|&at| path[at] > 0) {
            chain.push(nodes[at].id.clone());
            next = longest(&path, at);
        }
        (duration, chain)
    }
}

/// Follows the losses back to the first one. `roots` caches the origins found so far: each step of a long chain is taken
/// once.
fn root_of<'a>(
    node: &'a NodeId,
    lost: &'a BTreeMap<NodeId, NodeId>,
    roots: &mut BTreeMap<&'a NodeId, &'a NodeId>,
) -> &'a NodeId {
    let mut trail = Vec::new();
    let mut root = node;
    while let Some(root_cause) = lost.get(root)
        && trail.len() < lost.len()
    {
        trail.push(root);
        root = roots.get(root_cause).copied().unwrap_or(root_cause);
    }
    roots.extend(trail.into_iter().map(|node| (node, root)));
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AttemptResult, Failure, NodeTransition, Outcome};

    #[test]
    fn while_no_process_runs_nobody_is_at_an_attempt() {
        let moved = |from, to| {
            Event::NodeTransition(NodeTransition {
                node: "a".into(),
                version: 1,
                from,
                to,
                attempt: 1,
                reason: TransitionReason::AllOf,
            })
        };
        let outcome =
            Outcome::Failed(Failure { category: FailureCategory::Transient, message: String::new() });
        let result = AttemptResult {
            duration_ms: 500,
            cost: 500,
            ..AttemptResult::without_cost("a".into(), 1, outcome)
        };
        let mut timeline = RunTimeline::default();
        timeline.record(&moved(NodeState::Ready, NodeState::Running), 1, 1_000);
        timeline.record(&Event::RunRecovered { count: 1 }, 1, 70_000);
        timeline.record(&Event::AttemptResult(Box::new(result)), 1, 71_000);
        timeline.record(&moved(NodeState::Running, NodeState::Failed), 1, 71_000);
        assert_eq!(timeline.took, BTreeMap::from([("a".into(), 500)]));
    }

    #[test]
    fn what_goes_on_has_taken_the_time_so_far() {
        let starts = Event::NodeTransition(NodeTransition {
            node: "a".into(),
            version: 1,
            from: NodeState::Ready,
            to: NodeState::Running,
            attempt: 1,
            reason: TransitionReason::AllOf,
        });
        for (now, took, lasted) in [(1_700, 500, 700), (1_100, 0, 200)] {
            let mut timeline = RunTimeline::default();
            timeline.record(&Event::RunRecovered { count: 1 }, 1, 1_000);
            timeline.record(&starts, 1, 1_200);
            timeline.until(now);
            assert_eq!(timeline.makespan(), lasted, "{now}");
            assert_eq!(timeline.took, BTreeMap::from([("a".into(), took)]), "{now}");
        }
    }

    #[test]
    fn a_run_lasts_from_its_first_record_to_its_last_whatever_the_clock_says() {
        for (times, lasted) in [
            (&[1_000, 1_500][..], 500),
            (&[-1_500, -1_000], 500),
            (&[-500, 500], 1_000),
            (&[-1_000, -1_200, -900], 100),
            (&[-1_000], 0),
        ] {
            let mut timeline = RunTimeline::default();
            times.iter().for_each(|at| timeline.record(&Event::RunRecovered { count: 1 }, 1, *at));
            assert_eq!(timeline.makespan(), lasted, "{times:?}");
        }
    }

    #[test]
    fn every_node_of_a_long_chain_is_lost_because_of_the_first() {
        let name = |at: usize| NodeId::from(format!("n{at:06}").as_str());
        let lost: BTreeMap<NodeId, NodeId> = (1..100_000).map(|at| (name(at), name(at - 1))).collect();
        for order in [lost.keys().collect::<Vec<_>>(), lost.keys().rev().collect()] {
            let mut roots = BTreeMap::new();
            assert!(order.iter().all(|node| *root_of(node, &lost, &mut roots) == name(0)));
        }
    }
}
