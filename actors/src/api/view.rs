//! Read-only views of runs at any record.

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::agent::RunLifecycle;
use ostler_kernel::event::{Output, RunOpened};
use ostler_kernel::id::{Digest, NodeId, RunId, Ticks};
use ostler_kernel::lineage;
use ostler_kernel::port::{Artifact, JSON, Position, RunRow, RunsPage, Seq, StreamId};
use ostler_kernel::run::{
    Candidate, Candidates, CrashRecovery, FoldedRun, NodeFigures, NodeStatus, RecoveryContext, Run,
    RunOutcome, RunReport, RunTimeline, StatusFacts,
};
use tokio::sync::watch;

use crate::api::system::System;
use crate::base::error::RunError;
use crate::base::keys::AttemptKey;
use crate::run::services::RunServices;
use crate::state::live_text::{TextFilter, TextPosition, TextReader};
use crate::storage::event_cursor::EventCursor;
use crate::storage::program_output::OutputPage;

/// A run, folded from its records.
#[derive(Debug, Clone)]
pub struct RunView {
    /// The opening record.
    pub opened: RunOpened,
    /// Time of the opening in milliseconds since the Unix epoch.
    pub opened_ms: Ticks,
    /// The state.
    pub run: Run,
    /// The summary.
    pub report: RunReport,
    /// Figures of the nodes, up to now for running attempts. Times are in milliseconds.
    pub figures: NodeFigures,
    /// Outcome of a closed run.
    pub closed: Option<RunOutcome>,
    /// Reason of a suspension that still holds.
    pub parked: Option<String>,
    /// The last such record says that the client lacks credits.
    pub out_of_credit: bool,
    /// Deadline of the run's market job, or of its parent's; no answer counts after it.
    pub over_by: Option<Ticks>,
    /// The last folded record.
    pub last: Seq,
    position: Position,
}

/// Preview of the state after an inactive run is resumed.
#[derive(Debug, Clone)]
pub struct RecoveryPreview {
    /// The state then: attempts that may not be repeated are in doubt.
    pub run: Run,
    /// Nodes with a repeated attempt.
    pub again: BTreeSet<NodeId>,
}

/// Folds the records of a run up to `at`, or all. Each must follow from those before it.
fn fold(services: &RunServices, row: &RunRow, at: Option<Seq>) -> Result<RunView, RunError> {
    let mut timeline = RunTimeline::default();
    let folded =
        services.runs.fold(row, at, |record| timeline.record(&record.event, record.seq.0, record.at_ms))?;
    let FoldedRun { opened, opened_at, run, closed, parked, out_of_credit, last, position } = folded;
    let goes_on = at.is_none() && closed.is_none() && services.active_runs.has(row.run);
    if goes_on && !run.needs_answer() {
        timeline.until(services.journal.now());
    }
    let report = timeline.report(&run);
    let figures = timeline.into_nodes(&run);
    let opened_ms = opened_at;
    let over_by = services.deadline_for(opened.run, run.terms().parent.as_ref())?;
    Ok(RunView {
        opened,
        opened_ms,
        run,
        report,
        figures,
        closed,
        parked,
        out_of_credit,
        over_by,
        last,
        position,
    })
}

/// A result, read to verify its digest.
#[derive(Debug)]
pub struct ReadResult {
    /// The node.
    pub node: NodeId,
    /// The recorded digest.
    pub artifact: Digest,
    /// The digest and length of the bytes, or why they cannot be read.
    pub found: Result<(Digest, u64), RunError>,
}

impl RunView {
    /// The facts that decide the status of the run; `active`: the process drives it.
    pub fn status_facts(&self, active: bool) -> StatusFacts<'_> {
        StatusFacts {
            run: &self.run,
            closed: self.closed,
            quarantined: false,
            suspended: self.parked.is_some(),
            active,
            needs_answer: self.run.needs_answer(),
            out_of_credit: self.out_of_credit,
            waits_for_rate: false,
        }
    }

    /// The requests accepted by the run; `active`: the process drives the run.
    pub fn lifecycle(&self, active: bool) -> RunLifecycle {
        RunLifecycle::of(self.status_facts(active))
    }
}

impl System {
    /// All runs, newest first.
    pub fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, RunError> {
        Ok(self.services.journal.runs(open_only)?)
    }

    /// A page of all runs, newest first. Reads no other rows from the index.
    pub fn runs_page(&self, page: RunsPage) -> Result<Vec<RunRow>, RunError> {
        Ok(self.services.journal.runs_page(page)?)
    }

    pub(crate) fn row(&self, run: RunId) -> Result<RunRow, RunError> {
        self.services.journal.run(run)?.ok_or(RunError::Unknown(run))
    }

    /// A run, folded up to `at`; durable on return.
    pub async fn view(&self, run: RunId, at: Option<Seq>) -> Result<RunView, RunError> {
        let view = fold(&self.services, &self.row(run)?, at)?;
        self.services.journal.durable(view.position).await?;
        Ok(view)
    }

    /// Previews the recovery of an inactive run from a view at its last record: attempts of an ended process. `None`
    /// without such attempts, or if the run is driven. Records and starts nothing.
    pub fn ahead(&self, view: &RunView) -> Option<RecoveryPreview> {
        let id = view.opened.run;
        if view.closed.is_some() || self.services.active_runs.has(id) {
            return None;
        }
        let is_lost = |node: &NodeId, attempt| {
            !self.services.attempts.knows(&AttemptKey { run: id, node: node.clone(), attempt })
        };
        let lost = view.run.instances().filter(|(node, instance)| {
            matches!(instance.status, NodeStatus::Running { sleep_until: None, .. })
                && is_lost(&node.id, instance.attempts)
        });
        let lost: Vec<NodeId> = lost.map(|(node, _)| node.id.clone()).collect();
        if lost.is_empty() {
            return None;
        }
        let mut run = view.run.clone();
        let since = RecoveryContext { was_parked: view.parked.is_some(), forced: true, made_progress: true };
        match self.services.kernel.within(id, &mut run, |run, cx| run.recover_from_crash(cx, &lost, since)) {
            CrashRecovery::Resumed { rerun, .. } => {
                Some(RecoveryPreview { run, again: rerun.into_iter().collect() })
            }
            CrashRecovery::Parked(_) => None,
        }
    }

    /// Follows the records of a run after `after`.
    pub fn events(&self, run: RunId, after: Seq) -> Result<EventCursor, RunError> {
        let row = self.row(run)?;
        let journal = Arc::clone(&self.services.journal);
        Ok(EventCursor::new(journal, StreamId::run(&row.client, run), after))
    }

    /// Output of the programs of a run in chunks, each with the offset behind it, from the offset `after`; none at the end.
    pub fn program_output(&self, run: RunId, after: u64) -> Result<OutputPage, RunError> {
        let run = self.row(run)?.run;
        self.services.executor.output.read(run, after).map_err(|error| RunError::Output(error.to_string()))
    }

    /// Signals output of any run; subscribed before the output is read, it misses none.
    pub fn watch_output(&self) -> watch::Receiver<u64> {
        self.services.executor.output.watch_changes()
    }

    /// Reads what models write in the running attempts of a run, each text from its beginning or from one of `after`.
    pub fn live_text(
        &self,
        run: RunId,
        filter: TextFilter,
        after: &[TextPosition],
    ) -> Result<TextReader, RunError> {
        let run = self.row(run)?.run;
        Ok(self.services.executor.live_texts.follow(run, filter, after))
    }

    /// The result of a node.
    pub async fn artifact(&self, run: RunId, node: &NodeId) -> Result<Artifact, RunError> {
        let view = self.view(run, None).await?;
        let instance = view.run.instance(node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
        let no_result = || RunError::NoResult { node: node.clone(), state: instance.state() };
        self.content(instance.result().ok_or_else(no_result)?).await
    }

    /// The outputs of a node that did not become its result, in the order of the records.
    pub async fn candidates(&self, run: RunId, node: &NodeId) -> Result<Vec<Candidate>, RunError> {
        let mut candidates = Candidates::of(node.clone());
        let folded =
            self.services.runs.fold(&self.row(run)?, None, |record| candidates.see(&record.event))?;
        if folded.run.node(node).is_none() {
            return Err(RunError::UnknownNode(node.clone()));
        }
        self.services.journal.durable(folded.position).await?;
        Ok(candidates.end())
    }

    /// Reads the content of an output.
    pub async fn output_content(&self, output: &Output) -> Result<Artifact, RunError> {
        self.content(output).await
    }

    /// Reads the results of all nodes of a run, from one fold of its records.
    pub async fn read_results(&self, run: RunId) -> Result<Vec<ReadResult>, RunError> {
        let view = self.view(run, None).await?;
        let mut results = Vec::new();
        for (node, instance) in view.run.instances() {
            let Some(output) = instance.result() else { continue };
            let found = self
                .content(output)
                .await
                .map(|read| (lineage::artifact(&read.media, &read.content), read.content.len() as u64));
            results.push(ReadResult { node: node.id.clone(), artifact: output.artifact, found });
        }
        Ok(results)
    }

    async fn content(&self, output: &Output) -> Result<Artifact, RunError> {
        match &output.inline {
            Some(inline) => {
                Ok(Artifact { media: JSON.to_owned(), content: inline.as_str().as_bytes().to_vec() })
            }
            None => Ok(self.services.results.artifacts.get(output.artifact).await?),
        }
    }
}
