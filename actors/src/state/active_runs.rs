//! Runs that the process drives. The table owns this fact and outlives the restart of any actor: a restarted registry
//! fills its list of runs per agent from it. That list only orders the runs of one agent.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;

use ostler_kernel::event::Parent;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{Position, Seq};
use tokio::sync::watch;

use crate::base::lock::lock;

/// Why a run whose parent gave it up does nothing more.
pub(crate) const GIVEN_UP: &str = "the run is being cancelled, because a run above it no longer wants it";

#[derive(Default)]
pub(crate) struct ActiveRuns {
    driven: Mutex<BTreeMap<RunId, ActiveRun>>,
    /// Suspended runs that an attempt waits for, while no process drives them. Locked after `driven`.
    suspended: Mutex<BTreeMap<RunId, Parent>>,
}

#[derive(Debug, Default)]
struct ActiveRun {
    by_name: bool,
    /// The record up to which `quiet` holds.
    seq: Seq,
    /// Position of that record if the run has no open question by then; `None` if it may have one.
    quiet: Option<Position>,
    /// Actor ends since the record `crashed_at`.
    crashes: u32,
    crashed_at: Seq,
    /// The process has read the records before.
    loaded: bool,
    /// The recovery record is durable: the end of the process counts against the run.
    counted: bool,
    resting: bool,
    /// Nothing goes on until a person answers, in the run or in a run below it.
    waits: bool,
    /// The run waits for a question of a run below it.
    waits_below: bool,
    behind: Option<RunId>,
    /// Number of its child runs that wait for a person. At 0 the nodes need not be searched for such a wait.
    opened_waiting: usize,
    /// Nodes with child runs that are driven, and how many.
    opened: BTreeMap<NodeId, usize>,
    /// The attempt that opened the run.
    parent: Option<Parent>,
    /// A run above no longer wants this one, which is about to be cancelled.
    given_up: bool,
    /// Calls of models of a goal run; `None` for a run without a limit of its own.
    calls: Option<CallCount>,
    /// Wakes the callers that wait for the run; `None` without callers.
    waiters: Option<watch::Sender<()>>,
}

/// Calls of models of a run and all runs below it. A call that is repeated because its provider asked to wait is another one.
#[derive(Debug, Clone, Copy)]
struct CallCount {
    made: u64,
    most: u64,
}

impl ActiveRun {
    fn notify_changed(&self) {
        if let Some(waiters) = &self.waiters {
            waiters.send_replace(());
        }
    }
}

/// The attempt of `run` below which a run was opened by `parent` or by runs between them; `None` if there is none.
fn opened_through<'a>(
    driven: &'a BTreeMap<RunId, ActiveRun>,
    parent: Option<&'a Parent>,
    run: RunId,
) -> Option<&'a Parent> {
    let mut above = parent;
    while let Some(parent) = above.filter(|parent| parent.run != run) {
        above = driven.get(&parent.run).and_then(|above| above.parent.as_ref());
    }
    above
}

/// The runs below the work of `run` that `is_of` selects, by node and patches.
fn opened_below(
    driven: &BTreeMap<RunId, ActiveRun>,
    run: RunId,
    is_of: impl Fn(&NodeId, u32) -> bool,
) -> Vec<RunId> {
    let is_below = |child: &ActiveRun| {
        opened_through(driven, child.parent.as_ref(), run)
            .is_some_and(|parent| is_of(&parent.of.node, parent.of.patch_count))
    };
    driven.iter().filter(|(_, child)| is_below(child)).map(|(run, _)| *run).collect()
}

impl ActiveRuns {
    /// Adds a run, if it is not driven yet.
    pub(crate) fn add(&self, run: RunId, by_name: bool) {
        let mut driven = lock(&self.driven);
        if !driven.contains_key(&run) {
            let mut added = ActiveRun::default();
            for child in driven.values() {
                if let Some(parent) = child.parent.as_ref().filter(|parent| parent.run == run) {
                    added.opened_waiting += usize::from(child.waits);
                    *added.opened.entry(parent.of.node.clone()).or_default() += 1;
                }
            }
            driven.insert(run, added);
        }
        driven.entry(run).or_default().by_name |= by_name;
    }

    /// Adds a run that an attempt opened, or notes who opened it. Returns whether it is given up with its parent.
    pub(crate) fn add_child(&self, run: RunId, parent: &Parent) -> bool {
        let mut driven = lock(&self.driven);
        let given_up = driven.get(&parent.run).is_some_and(|above| above.given_up);
        let child = driven.entry(run).or_default();
        let is_new = child.parent.replace(parent.clone()).is_none();
        child.given_up |= given_up;
        let given_up = child.given_up;
        if is_new && let Some(above) = driven.get_mut(&parent.run) {
            *above.opened.entry(parent.of.node.clone()).or_default() += 1;
        }
        given_up
    }

    /// True if a node of a run has child runs that are driven.
    pub(crate) fn has_opened(&self, run: RunId, node: &NodeId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.opened.contains_key(node))
    }

    /// Gives up all runs below the work of a run that `is_unwanted` selects, by node and patches, and returns those that were not
    /// given up before. A run that is opened below one of them afterwards is given up too.
    pub(crate) fn give_up(&self, run: RunId, is_unwanted: impl Fn(&NodeId, u32) -> bool) -> Vec<RunId> {
        let mut driven = lock(&self.driven);
        let mut below = opened_below(&driven, run, is_unwanted);
        below
            .retain(|run| driven.get_mut(run).is_some_and(|run| !std::mem::replace(&mut run.given_up, true)));
        below
    }

    /// The driven runs below the work of a run that `is_of` selects, by node and patches.
    pub(crate) fn below(&self, run: RunId, is_of: impl Fn(&NodeId, u32) -> bool) -> Vec<RunId> {
        opened_below(&lock(&self.driven), run, is_of)
    }

    /// Sets the most calls of models of a run and all runs below it. `made`: the calls that the records tell of.
    pub(crate) fn limit_calls(&self, run: RunId, most: u64, made: impl FnOnce() -> u64) {
        if lock(&self.driven).get(&run).is_some_and(|driven| driven.calls.is_none()) {
            let made = made();
            if let Some(driven) = lock(&self.driven).get_mut(&run) {
                driven.calls.get_or_insert(CallCount { made, most });
            }
        }
    }

    /// Counts a call of a run, for it and for all runs above it. The error is the limit that does not allow the call.
    pub(crate) fn take_call(&self, run: RunId) -> Result<(), u64> {
        let mut driven = lock(&self.driven);
        let (mut line, mut at) = (Vec::new(), Some(run));
        while let Some(run) = at {
            let Some(known) = driven.get(&run) else { break };
            if let Some(CallCount { most, .. }) = known.calls.filter(|calls| calls.made >= calls.most) {
                return Err(most);
            }
            line.push(run);
            at = known.parent.as_ref().map(|parent| parent.run);
        }
        for run in line {
            if let Some(calls) = driven.get_mut(&run).and_then(|driven| driven.calls.as_mut()) {
                calls.made += 1;
            }
        }
        Ok(())
    }

    /// True if a run above no longer wants this one: it opens nothing, starts nothing, and calls no model.
    pub(crate) fn is_given_up(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.given_up)
    }

    /// True if an operator asked for the run by name, which overrides the limit of crashes.
    pub(crate) fn asked_for(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.by_name)
    }

    /// Sets whether the run may have an open question as of its record `seq`: `None` before a question is appended,
    /// else the position of the record.
    pub(crate) fn note_quiet(&self, run: RunId, seq: Seq, quiet: Option<Position>) {
        if let Some(driven) = lock(&self.driven).get_mut(&run).filter(|driven| driven.seq <= seq) {
            (driven.seq, driven.quiet) = (seq, quiet);
        }
    }

    /// Forgets what is known of the records: some may have been rolled back.
    pub(crate) fn forget_records(&self) {
        for driven in lock(&self.driven).values_mut() {
            (driven.seq, driven.quiet, driven.crashed_at) = (Seq(0), None, Seq(0));
            (driven.waits, driven.waits_below, driven.opened_waiting) = (false, false, 0);
        }
    }

    /// Counts an end of the run's actor, and returns the count since the run's last progress.
    pub(crate) fn crashed(&self, run: RunId) -> u32 {
        let mut driven = lock(&self.driven);
        let Some(driven) = driven.get_mut(&run) else { return 0 };
        if driven.seq > driven.crashed_at {
            (driven.crashed_at, driven.crashes) = (driven.seq, 0);
        }
        driven.crashes += 1;
        driven.crashes
    }

    /// Position of the record as of which the run has no open question.
    pub(crate) fn quiet(&self, run: RunId) -> Option<Position> {
        lock(&self.driven).get(&run)?.quiet
    }

    pub(crate) fn note_resting(&self, run: RunId, resting: bool) {
        if let Some(driven) = lock(&self.driven).get_mut(&run) {
            driven.resting = resting;
        }
    }

    /// True if a suspension is requested and not complete.
    pub(crate) fn is_resting(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.resting)
    }

    /// Marks the records as read by the process; returns whether they were read before.
    pub(crate) fn was_loaded(&self, run: RunId) -> bool {
        lock(&self.driven).get_mut(&run).is_some_and(|driven| std::mem::replace(&mut driven.loaded, true))
    }

    /// Notes that the recovery record is durable.
    pub(crate) fn note_counted(&self, run: RunId) {
        if let Some(driven) = lock(&self.driven).get_mut(&run) {
            driven.counted = true;
        }
    }

    /// True if the end of the process counts against the run.
    pub(crate) fn is_counted(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.counted)
    }

    /// True if the process has read the records of the run.
    pub(crate) fn is_loaded(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.loaded)
    }

    /// Sets whether the run waits for a person, itself or `below`, and wakes callers of the runs behind it. Returns whether there
    /// are any.
    pub(crate) fn note_waits(&self, run: RunId, waits: bool, below: bool) -> bool {
        let mut driven = lock(&self.driven);
        let Some(noted) = driven.get_mut(&run) else { return false };
        noted.waits_below = waits && below;
        if std::mem::replace(&mut noted.waits, waits) == waits {
            return false;
        }
        if let Some(above) = noted.parent.as_ref().map(|parent| parent.run)
            && let Some(above) = driven.get_mut(&above)
        {
            above.opened_waiting = match waits {
                true => above.opened_waiting + 1,
                false => above.opened_waiting.saturating_sub(1),
            };
        }
        let mut any = false;
        for behind in driven.values().filter(|other| other.behind == Some(run)) {
            behind.notify_changed();
            any = true;
        }
        any
    }

    /// True if the run's agent found that nothing goes on until a person answers.
    pub(crate) fn waits(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.waits)
    }

    /// True if the run waits for a person whose question is in a run below it.
    pub(crate) fn waits_below(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.waits_below)
    }

    /// Notes that an attempt waits for a suspended run, which only a person resumes.
    pub(crate) fn note_suspended(&self, run: RunId, parent: &Parent) {
        lock(&self.suspended).insert(run, parent.clone());
    }

    /// Notes that the run is not suspended, or that no attempt waits for it any more. Returns whether one did.
    pub(crate) fn forget_suspended(&self, run: RunId) -> bool {
        lock(&self.suspended).remove(&run).is_some()
    }

    /// True if a run that the run opened may wait for a person, or is suspended.
    pub(crate) fn may_wait_below(&self, run: RunId) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.opened_waiting > 0)
            || lock(&self.suspended).values().any(|parent| parent.run == run)
    }

    /// True if a node of a run waits for runs that it opened, and all of them wait for a person or are suspended.
    pub(crate) fn all_opened_wait(&self, run: RunId, node: &NodeId) -> bool {
        let (driven, suspended) = (lock(&self.driven), lock(&self.suspended));
        let is_by_node = |parent: &Parent| parent.run == run && parent.of.node == *node;
        let is_suspended = suspended.iter().any(|(child, by)| is_by_node(by) && !driven.contains_key(child));
        let opened = driven.values().filter(|child| child.parent.as_ref().is_some_and(is_by_node));
        let mut opened = opened.peekable();
        (is_suspended || opened.peek().is_some()) && opened.all(|child| child.waits)
    }

    /// The runs below a run with the questions that it waits for, and the suspended ones.
    pub(crate) fn asking_below(&self, run: RunId) -> Vec<RunId> {
        let (driven, suspended) = (lock(&self.driven), lock(&self.suspended));
        let is_below = |parent: Option<&Parent>| opened_through(&driven, parent, run).is_some();
        let asks = |child: &ActiveRun| child.waits && !child.waits_below && is_below(child.parent.as_ref());
        let asking = driven.iter().filter(|(_, child)| asks(child)).map(|(run, _)| *run);
        let waited = suspended.iter().filter(|(run, by)| !driven.contains_key(run) && is_below(Some(by)));
        asking.chain(waited.map(|(run, _)| *run)).collect()
    }

    /// Sets the order of an agent's runs: only the first goes on.
    pub(crate) fn line_up<'a>(&self, runs: impl Iterator<Item = &'a RunId>) {
        let (mut driven, mut first) = (lock(&self.driven), None);
        for run in runs {
            if let Some(driven) = driven.get_mut(run) {
                driven.behind = first;
                driven.notify_changed();
            }
            first = first.or(Some(*run));
        }
    }

    /// The earlier run of the same agent, if it waits for a person.
    pub(crate) fn held_up_by(&self, run: RunId) -> Option<RunId> {
        let driven = lock(&self.driven);
        let first = driven.get(&run)?.behind?;
        driven.get(&first).filter(|first| first.waits).map(|_| first)
    }

    /// Signals that the state of the run may have changed; closes when the run is no longer driven. `None`: it is not
    /// driven.
    pub(crate) fn watch(&self, run: RunId) -> Option<watch::Receiver<()>> {
        let mut driven = lock(&self.driven);
        let waiters = &mut driven.get_mut(&run)?.waiters;
        Some(waiters.get_or_insert_with(|| watch::Sender::new(())).subscribe())
    }

    pub(crate) fn has(&self, run: RunId) -> bool {
        lock(&self.driven).contains_key(&run)
    }

    pub(crate) fn all(&self) -> Vec<RunId> {
        lock(&self.driven).keys().copied().collect()
    }

    /// Removes a run; its callers wake because their channel closes.
    pub(crate) fn remove(&self, run: RunId) {
        let mut driven = lock(&self.driven);
        let Some(ActiveRun { waits, parent: Some(parent), .. }) = driven.remove(&run) else { return };
        let Some(above) = driven.get_mut(&parent.run) else { return };
        above.opened_waiting = above.opened_waiting.saturating_sub(usize::from(waits));
        if let Entry::Occupied(mut opened) = above.opened.entry(parent.of.node) {
            *opened.get_mut() -= 1;
            if *opened.get() == 0 {
                opened.remove();
            }
        }
    }

    pub(crate) fn notify_changed(&self, run: RunId) {
        if let Some(driven) = lock(&self.driven).get(&run) {
            driven.notify_changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::event::AttemptRef;
    use ostler_kernel::id::RunId;

    use super::*;

    fn run(number: u8) -> RunId {
        RunId(uuid::Uuid::from_bytes([number; 16]))
    }

    fn opened_by(above: u8, node: &str, patch_count: u32) -> Parent {
        let of = AttemptRef { node: node.into(), generation: 1, patch_count, attempt: 1 };
        Parent { run: run(above), of, step: "step".to_owned() }
    }

    /// Run 1 opened run 2 at node `a` and run 3 at node `b`; run 2 opened run 4.
    fn tree() -> ActiveRuns {
        let runs = ActiveRuns::default();
        runs.add(run(1), false);
        runs.add_child(run(2), &opened_by(1, "a", 0));
        runs.add_child(run(3), &opened_by(1, "b", 0));
        runs.add_child(run(4), &opened_by(2, "n", 0));
        runs
    }

    #[test]
    fn a_run_is_given_up_with_all_below_it_and_nothing_else() {
        let runs = tree();
        assert_eq!(runs.give_up(run(1), |node, _| node.as_str() == "a"), [run(2), run(4)]);
        assert!(runs.add_child(run(5), &opened_by(4, "n", 0)), "opened too late");
        assert!(!runs.is_given_up(run(3)) && !runs.is_given_up(run(1)));
        assert_eq!(runs.give_up(run(1), |_, _| true), [run(3)], "the others are given up already");
    }

    #[test]
    fn a_node_has_opened_runs_until_the_last_has_ended() {
        let runs = tree();
        runs.add_child(run(5), &opened_by(1, "a", 0));
        runs.add_child(run(5), &opened_by(1, "a", 0));
        let has = |node: &str| runs.has_opened(run(1), &node.into());
        assert_eq!((has("a"), has("b"), has("c")), (true, true, false));
        runs.remove(run(2));
        assert!(has("a"));
        runs.remove(run(5));
        assert_eq!((has("a"), has("b")), (false, true));
        // A run that is driven again finds those below it.
        runs.remove(run(1));
        runs.add(run(1), false);
        assert!(has("b"));
    }

    #[test]
    fn work_behind_a_patch_keeps_its_runs() {
        let runs = tree();
        runs.add_child(run(6), &opened_by(1, "a", 1));
        assert_eq!(
            runs.give_up(run(1), |node, patches| node.as_str() == "a" && patches < 1),
            [run(2), run(4)]
        );
    }

    #[test]
    fn a_call_counts_for_all_runs_above_and_none_may_exceed_its_limit() {
        let runs = tree();
        runs.limit_calls(run(1), 4, || 1);
        runs.limit_calls(run(1), 9, || 0);
        runs.limit_calls(run(2), 1, || 0);
        assert_eq!(runs.take_call(run(4)), Ok(()));
        assert_eq!(runs.take_call(run(4)), Err(1), "the limit of run 2");
        assert_eq!(runs.take_call(run(3)), Ok(()));
        assert_eq!(runs.take_call(run(1)), Ok(()));
        assert_eq!(runs.take_call(run(3)), Err(4), "the limit at the top");
    }
}
