//! The records that a fork takes over from another run.

use std::collections::BTreeMap;

use super::{OpeningTerms, RecomputationCause, Run};
use crate::event::{
    ApprovalKept, AttemptIntent, AttemptResult, Event, Forked, HumanRequest, RecordPlace, ReuseDecision,
    RunOpened, Timer,
};
use crate::id::{NodeId, RunId, Ticks};
use crate::plan::Node;
use crate::port::{Position, Recorded, Seq};
use crate::run::{NodeState, NodeStatus};

/// Most records that a fork takes over.
pub const FORK_RECORDS_MAX: usize = 20_000;

/// Collects the opening of a run and its records up to one of them; of the append of that record, all.
#[derive(Debug, Clone)]
pub struct ForkPrefix {
    at: Seq,
    /// Position of the append of record `at`.
    position: Option<Position>,
    /// Time of the last record taken over.
    then: Ticks,
    /// The opening record.
    pub opened: Option<RunOpened>,
    /// The terms of the run.
    pub terms: OpeningTerms,
    /// The run pursues a goal.
    pub has_goal: bool,
    /// The last record of the run.
    pub last: Seq,
    records: Vec<Event>,
    bound: BTreeMap<NodeId, RecordPlace>,
}

impl ForkPrefix {
    /// Starts with no record; ends with record `at`.
    pub fn until(at: Seq) -> ForkPrefix {
        ForkPrefix {
            at,
            position: None,
            then: 0,
            opened: None,
            terms: OpeningTerms::default(),
            has_goal: false,
            last: Seq(0),
            records: Vec::new(),
            bound: BTreeMap::new(),
        }
    }

    /// Reads the next record of `run`.
    pub fn see(&mut self, run: RunId, record: &Recorded) {
        self.last = record.seq;
        if record.seq == self.at {
            self.position = Some(record.position);
        }
        self.terms.see(&record.event);
        match &record.event {
            Event::RunOpened(opened) => self.opened = Some((**opened).clone()),
            Event::GoalOpened { .. } => self.has_goal = true,
            Event::Forked(forked) => {
                let placed = forked.done.iter().filter_map(|(node, place)| Some((node.clone(), (*place)?)));
                self.bound.extend(placed);
            }
            _ => {}
        }
        if record.seq > self.at && self.position != Some(record.position) {
            return;
        }
        self.then = record.at_ms;
        match &record.event {
            Event::ResultRecorded(result) => {
                self.bound.insert(result.node.clone(), RecordPlace { run, seq: record.seq.0 });
            }
            Event::ReuseDecided(decided) => {
                if let ReuseDecision::Reused(result) = &decided.decision {
                    self.bound.insert(decided.node.clone(), result.from);
                }
            }
            _ => {}
        }
        // One more than allowed tells that there are too many.
        if self.records.len() <= FORK_RECORDS_MAX {
            self.records.extend(taken_over(&record.event));
        }
    }

    /// True if more than [`FORK_RECORDS_MAX`] records would be taken over.
    pub fn is_too_long(&self) -> bool {
        self.records.len() > FORK_RECORDS_MAX
    }

    /// The records for a fork that begins at `now`: what waits for a time waits as long as it had to wait then.
    pub fn records(&self, now: Ticks) -> Vec<Event> {
        let later = now.saturating_sub(self.then);
        self.records.iter().map(|event| postponed(event, later)).collect()
    }

    /// The record of the fork; `run` has the records applied.
    pub fn forked(&self, from: RunId, run: &Run, by: String) -> Event {
        let executed = run.instances().filter(|(_, instance)| instance.state() == NodeState::Executed);
        let done = executed.map(|(node, _)| (node.id.clone(), self.bound.get(&node.id).copied())).collect();
        Event::Forked(Box::new(Forked { from, at: self.at.0, done, by }))
    }
}

/// The record as the fork has it: without cost, as the other run paid. `None`: the record tells nothing about the state of the
/// plan, or only of the other run.
fn taken_over(event: &Event) -> Option<Event> {
    match event {
        Event::AttemptIntent(intent) => {
            Some(Event::AttemptIntent(Box::new(AttemptIntent { accounts: None, ..(**intent).clone() })))
        }
        Event::AttemptResult(result) => {
            let result = AttemptResult { cost: 0, accounts: None, ..(**result).clone() };
            Some(Event::AttemptResult(Box::new(result)))
        }
        Event::NodeTransition(_)
        | Event::PlanVersion(_)
        | Event::PlanRefused { .. }
        | Event::HumanRequest(_)
        | Event::HumanAnswer(_)
        | Event::ApprovalMaterial { .. }
        | Event::ApprovalCarried(_)
        | Event::TimerSet(_)
        | Event::TimerFired { .. }
        | Event::Draining { .. }
        | Event::ReplanAsked { .. }
        | Event::RecoveryExhausted { .. }
        | Event::Diagnosis { .. }
        | Event::ReuseDecided(_)
        | Event::BudgetShort { .. }
        | Event::BudgetRaised { .. }
        | Event::GateDecision(_)
        | Event::GateVerdict(_)
        | Event::ContractBroken { .. }
        | Event::ContractChecked { .. }
        | Event::NodeFault { .. }
        | Event::WaitAnswered(_)
        | Event::Operator(_) => Some(event.clone()),
        _ => None,
    }
}

fn postponed(event: &Event, later: Ticks) -> Event {
    match event {
        Event::HumanRequest(request) => {
            let deadline = request.deadline.map(|deadline| deadline.saturating_add(later));
            Event::HumanRequest(HumanRequest { deadline, ..request.clone() })
        }
        Event::TimerSet(timer) => {
            Event::TimerSet(Timer { at: timer.at.saturating_add(later), ..timer.clone() })
        }
        _ => event.clone(),
    }
}

impl Run {
    /// Approvals of this run, `from`, for a fork of it in the state `then`: those of nodes that have still to ask. `withdrawn`: nodes with
    /// a withdrawn result.
    pub fn approvals_since<'a>(
        &self,
        from: RunId,
        then: &Run,
        withdrawn: impl IntoIterator<Item = &'a NodeId>,
    ) -> Vec<ApprovalKept> {
        let cause = |node: &NodeId| (node.clone(), RecomputationCause::Withdrawn);
        let first = withdrawn.into_iter().map(cause).collect();
        let mut approvals = self.approvals_to_keep(from, then.plan(), &first);
        approvals.retain(|kept| {
            let instance = then.instance(&kept.node).filter(|instance| instance.is_live());
            instance.is_some_and(|instance| instance.approvals.iter().all(|own| own.kind != kept.kind))
        });
        approvals
    }

    /// Running nodes with an attempt that may have changed the world, and may not be repeated unasked: by its class, or because the yes
    /// for it was given in the other run.
    pub fn acting(&self) -> Vec<NodeId> {
        let needs_yes = |node: &Node| {
            node.may_change_world() && self.position(&node.id).is_some_and(|at| self.asks_before(at))
        };
        let acts = self.instances().filter(|(node, instance)| {
            matches!(instance.status, NodeStatus::Running { .. })
                && (self.doubt(node).is_some() || needs_yes(node))
        });
        acts.map(|(node, _)| node.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Outcome, Output};
    use crate::id::Digest;

    fn result(node: &str) -> Event {
        let output = Output { artifact: Digest([1; 32]), bytes: 1, inline: None, directive: None };
        let result = AttemptResult::without_cost(node.into(), 1, Outcome::Ok(output));
        Event::AttemptResult(Box::new(AttemptResult { cost: 9, ..result }))
    }

    fn see(prefix: &mut ForkPrefix, seq: u64, position: u64, event: Event) {
        let (seq, position) = (Seq(seq), Position(position));
        prefix.see(RunId::default(), &Recorded { seq, position, at_ms: 100, event });
    }

    #[test]
    fn a_fork_takes_whole_appends_without_their_cost_and_waits_as_long_as_was_left() {
        let mut prefix = ForkPrefix::until(Seq(2));
        let timer =
            |at| Event::TimerSet(Timer { node: "n".into(), kind: crate::event::TimerKind::Backoff, at });
        see(&mut prefix, 1, 1, timer(130));
        see(&mut prefix, 2, 2, result("a"));
        see(&mut prefix, 3, 2, result("b"));
        see(&mut prefix, 4, 3, result("c"));
        let records = prefix.records(1_000);
        assert_eq!((records.len(), prefix.last), (3, Seq(4)));
        assert_eq!(records[0], timer(1_030));
        assert!(
            matches!(&records[2], Event::AttemptResult(result) if result.node == "b".into() && result.cost == 0)
        );
    }

    #[test]
    fn a_fork_takes_as_many_records_as_the_limit_says() {
        let mut prefix = ForkPrefix::until(Seq(u64::MAX));
        for seq in 1..=FORK_RECORDS_MAX as u64 {
            see(&mut prefix, seq, seq, result("a"));
        }
        assert!(!prefix.is_too_long());
        see(&mut prefix, 1 + FORK_RECORDS_MAX as u64, 1, result("a"));
        assert!(prefix.is_too_long());
    }
}
