//! Runs that attempts open: found again by who opens them once more, never allowed more than who wants them, and cancelled with
//! the node that wanted them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ostler_kernel::event::{Event, Parent};
use ostler_kernel::gate::intersect_scopes;
use ostler_kernel::id::{ClientId, NodeId, RunId};
use ostler_kernel::lineage;
use ostler_kernel::plan::Plan;
use ostler_kernel::port::{
    AttemptLogError, ChildRunResult, ChildRunSpec, JournalError, RunRow, RunRowStatus, StreamId,
};
use ostler_kernel::run::{AbandonedWork, Canceller, RunOutcome};
use ostler_supervisor::SupervisorRef;
use serde_json::Map;

use crate::api::outcome::Settled;
use crate::api::submission::Submission;
use crate::api::system::System;
use crate::attempts::attempt_journal::LiveLog;
use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::run::suspended_runs::CHECKPOINTED;
use crate::services::Services;
use crate::storage::results;
use crate::storage::run_reader;

/// The system that an attempt is part of, for what it asks of that.
pub(crate) struct Home {
    pub(crate) root: SupervisorRef,
    pub(crate) drain: Duration,
}

/// Attempts that wait for runs that they opened. Each keeps an agent live, so half of the places are left for those runs.
#[derive(Default)]
pub(crate) struct Waiters(AtomicU32);

struct Waits<'a>(&'a AtomicU32);

impl Waiters {
    /// One more waits, as long as what this gives is there; or as many wait as may.
    fn enter(&self, live_agents: u32) -> Result<Waits<'_>, u32> {
        let most = live_agents / 2;
        let one_more = |waiting: u32| (waiting < most).then_some(waiting + 1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)?;
        Ok(Waits(&self.0))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Credits that are given to a run: unless that comes to be noted, whoever drops this has them back.
struct Given<'a> {
    log: &'a LiveLog,
    step: &'a str,
    credits: u64,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if !self.log.ask(|notes| notes.child(self.step).is_some()).unwrap_or(true) {
            self.log.services.purses.with(self.log.site.run, |purse| purse.refund_child(self.credits));
        }
    }
}

/// A run that is asked for; as a [`ChildRunSpec`], but its plan is valid.
struct Asked {
    plan: Plan,
    budget: Option<u64>,
    scope: Option<String>,
    intent: Option<u8>,
}

impl LiveLog {
    /// See [`ostler_kernel::port::AttemptLog::spawn`].
    pub(crate) async fn open_child(
        &self,
        step: &str,
        child: ChildRunSpec,
    ) -> Result<ChildRunResult, AttemptLogError> {
        let services = &self.services;
        let failed = |why: String| AttemptLogError::ChildRun { step: step.to_owned(), why };
        let system =
            System::within(services).ok_or_else(|| failed("the system is being shut down".to_owned()))?;
        let waits = services.waiters.enter(services.limits.live_agents);
        let _waits =
            waits.map_err(|waiting| AttemptLogError::TooManyWaiting { step: step.to_owned(), waiting })?;
        let ChildRunSpec { plan, budget, scope, intent } = child;
        let plan = system.judge_plan(plan).await.map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            failed(format!("its plan is none: {}", faults.join("; ")))
        })?;
        let asked = Asked { plan, budget, scope, intent };
        let (run, submission, budget) = self.order(step, asked, &failed)?;
        if self.ask(|notes| notes.child(step).is_none())? {
            let (of, name) = (self.site.of.clone(), step.to_owned());
            let _given = Given { log: self, step, credits: budget.unwrap_or(0) };
            self.append_durably(Event::ChildRun { of, step: name, run, budget }).await?;
        }
        let parent = Parent { run: self.site.run, of: self.site.of.clone(), step: step.to_owned() };
        // Whoever drops this meanwhile leaves a run behind that is driven, and so learns that it is not wanted.
        let opens = system.clone();
        let opened = tokio::spawn(async move { opens.open(submission, Some(parent)).await });
        match opened.await {
            Ok(opened) => drop(opened.map_err(|error| failed(error.to_string()))?),
            Err(error) => return Err(failed(error.to_string())),
        }
        let only_waits = self.waits_for_run(step);
        let ended = self.wait_for(&system, run).await;
        drop(only_waits);
        self.reclaim().await;
        let outcome = ended.map_err(|why| failed(format!("run {run}: {why}")))?;
        let outputs = outputs(&system, run).await.map_err(|error| failed(format!("run {run}: {error}")))?;
        Ok(ChildRunResult { run, outcome, outputs })
    }

    /// What is to be opened: within what the run of this attempt has itself.
    fn order(
        &self,
        step: &str,
        asked: Asked,
        failed: &dyn Fn(String) -> AttemptLogError,
    ) -> Result<(RunId, Submission, Option<u64>), AttemptLogError> {
        let services = &self.services;
        let row = services.journal.run(self.site.run)?;
        let row = row.ok_or_else(|| failed("its own run is not known".to_owned()))?;
        let folded =
            run_reader::fold(services, &row, None, |_| {}).map_err(|error| failed(error.to_string()))?;
        let opened = folded.opened;
        let Asked { mut plan, budget, scope, intent } = asked;
        plan.policy.inherit(&folded.run.plan().policy);
        let budget = match self.ask(|notes| notes.child(step).cloned())? {
            Some(spawned) => spawned.budget,
            // Whatever else may fail has not by now: what is given is given from here on.
            None => match services.purses.with(self.site.run, |purse| purse.fund_child(budget)) {
                Some(Ok(given)) => Some(given),
                Some(Err(left)) => {
                    let (step, asked) = (step.to_owned(), budget.unwrap_or(1));
                    return Err(AttemptLogError::Budget { step, asked, left });
                }
                None => budget,
            },
        };
        let run = self.child_id(step);
        let submission = Submission {
            client: opened.client.clone(),
            // What the attempt may not do itself it cannot have done.
            intent: intent.unwrap_or(2).min(opened.intent).min(self.site.impact),
            scope: intersect_scopes(&opened.scope, scope.as_deref()),
            workspace: opened.workspace.clone().into(),
            run: Some(run),
            budget,
            ..Submission::plan(plan)
        };
        Ok((run, submission, budget))
    }

    /// The id of the run that a step opens: the same whichever attempt asks.
    fn child_id(&self, step: &str) -> RunId {
        let of = &self.site.of;
        let (generation, patch_count) = (of.generation.to_le_bytes(), of.patch_count.to_le_bytes());
        let parts = [
            self.site.run.0.as_bytes(),
            of.node.as_str().as_bytes(),
            &generation,
            &patch_count,
            step.as_bytes(),
        ];
        RunId::hashed(lineage::hash("aos/child/1", &parts))
    }

    /// Waits for the end of a run. When this process is to end, that does not come: the attempt ends as if with its process.
    async fn wait_for(&self, system: &System, run: RunId) -> Result<RunOutcome, String> {
        tokio::select! {
            ended = self.wait_for_end(system, run) => ended,
            never = self.ends_with_process() => match never {},
        }
    }

    /// The same, which a person may let rest meanwhile; the waiting is a sign of life.
    async fn wait_for_end(&self, system: &System, run: RunId) -> Result<RunOutcome, String> {
        let patience = self.site.heartbeat_ms.map(|ms| Duration::from_millis(ms / 2 + 1));
        let mut awaited = system.awaited(run).map_err(|error| error.to_string())?;
        loop {
            let (mut stirs, mut full) = (system.services.stirs.subscribe(), system.full());
            // What it waits for has no room: that is no time of its own either.
            let _waits = system.services.room.is_full().then(|| self.waited.begin());
            let settled = async {
                match awaited.settled(system).await {
                    Ok(Settled::Closed(outcome)) => return Some(Ok(outcome)),
                    Ok(Settled::Parked(why)) if why != CHECKPOINTED => {
                        return Some(Err(format!("it was set aside: {why}")));
                    }
                    Ok(Settled::Quarantined(why)) => return Some(Err(format!("it is quarantined: {why}"))),
                    Ok(Settled::Parked(_) | Settled::WaitsForPerson | Settled::Resting) => {}
                    Err(error) => return Some(Err(error.to_string())),
                }
                let _ = stirs.changed().await;
                None
            };
            let settled = async {
                tokio::select! {
                    settled = settled => settled,
                    _ = full.changed() => None,
                }
            };
            let settled = match patience {
                Some(patience) => tokio::time::timeout(patience, settled).await.unwrap_or(None),
                None => settled.await,
            };
            self.sign();
            if let Some(settled) = settled {
                return settled;
            }
        }
    }
}

/// The results of the outputs of a run that is over, as far as there are any.
async fn outputs(system: &System, run: RunId) -> Result<Map<String, serde_json::Value>, RunError> {
    let view = system.view(run, None).await?;
    let mut outputs = Map::new();
    for (id, output) in view.run.outputs() {
        outputs.insert(id.to_string(), results::load(&system.services, output).await?);
    }
    Ok(outputs)
}

/// Whether what opened a run wants it no more: its node is over, is being stopped, or has become other work.
pub(crate) fn is_unwanted(services: &Services, parent: &Parent) -> Result<bool, JournalError> {
    let Some(row) = services.journal.run(parent.run)? else { return Ok(true) };
    match row.status {
        RunRowStatus::Closed(_) => return Ok(true),
        RunRowStatus::Quarantined(_) => return Ok(false),
        RunRowStatus::Open | RunRowStatus::Parked(_) => {}
    }
    // One that cannot be read tells nothing.
    let Ok(folded) = run_reader::fold(services, &row, None, |_| {}) else { return Ok(false) };
    let instance = folded.run.instance(&parent.of.node);
    Ok(instance.is_none_or(|instance| {
        instance.state().is_terminal()
            || instance.is_draining()
            || instance.patch_count != parent.of.patch_count
    }))
}

impl Services {
    /// Cancels the runs that attempts at this work of a run opened, and that are not known to be over. In the background:
    /// whoever opens one once more learns that it is not wanted, from what is appended by now.
    pub(crate) fn cancel_children(
        self: &Arc<Services>,
        client: &ClientId,
        run: RunId,
        work: Vec<AbandonedWork>,
    ) {
        if !work.is_empty() {
            self.cancel_opened(client, run, move |node, patch_count| {
                work.iter().any(|it| it.covers(node, patch_count))
            });
        }
    }

    fn cancel_opened(
        self: &Arc<Services>,
        client: &ClientId,
        run: RunId,
        is_unwanted: impl Fn(&NodeId, u32) -> bool + Send + 'static,
    ) {
        let services = Arc::clone(self);
        let stream = StreamId::attempts(client, run);
        // Nobody may have asked for the notes yet, as after a restart; who drives the run may be here again soon.
        let notes = if self.driven.has(run) { self.notes.of(stream) } else { self.notes.peek(stream) };
        tokio::spawn(async move {
            let Some(system) = System::within(&services) else { return };
            let children = notes.children(&services, is_unwanted).unwrap_or_else(|error| {
                tracing::warn!(%error, %run, "what a run opened cannot be read, and is not cancelled");
                Vec::new()
            });
            for child in children {
                match system.cancel_by(child, Canceller::Parent).await {
                    Ok(()) | Err(RunError::Over | RunError::InvalidState(_) | RunError::Unknown(_)) => {}
                    Err(error) => {
                        tracing::warn!(%error, run = %child, "a run that is not wanted is not cancelled")
                    }
                }
            }
        });
    }
}

impl System {
    /// The system that these services are of, for as long as it runs.
    pub(crate) fn within(services: &Arc<Services>) -> Option<System> {
        let home = lock(&services.home);
        let Home { root, drain } = home.as_ref()?;
        Some(System { services: Arc::clone(services), root: root.clone(), drain: *drain })
    }

    /// Cancels what the attempts of a run opened that was cancelled.
    pub(crate) fn cancel_children_of(&self, row: &RunRow) {
        self.services.cancel_opened(&row.client, row.run, |_, _| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_places_are_left_for_what_is_waited_for() {
        let waiters = Waiters::default();
        assert_eq!(waiters.enter(1).err(), Some(0));
        let first = waiters.enter(5).unwrap();
        let _second = waiters.enter(5).unwrap();
        assert_eq!(waiters.enter(5).err(), Some(2));
        drop(first);
        assert!(waiters.enter(5).is_ok());
    }
}
