//! What a run amounts to, as it is told.

use ostler_actors::{Ahead, ApprovalId, RunView, Settled, System};
use ostler_kernel::contract::{precision, reliability};
use ostler_kernel::event::HumanRequestKind;
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::{RunRow, RunRowStatus};
use ostler_kernel::run::{Run, NodeStatus};

use crate::problem::Problem;
use crate::wire::{RootCause, ParentView, ReliabilityBounds, RunLine, Standing, Summary, Waiting, word};

/// How a run stands at the last record of the view.
pub(crate) struct RunStatusView {
    standing: Standing,
    /// Why it was set aside.
    reason: Option<String>,
    /// The run before it that keeps it waiting.
    blocked_by: Option<RunId>,
    /// What taking it up would find, if nobody drives it.
    ahead: Option<Ahead>,
    /// Records follow.
    is_past: bool,
}

impl RunStatusView {
    /// How it stands right now, if the view holds its last record; a look, no wait.
    pub(crate) fn now(system: &System, view: &RunView) -> Result<RunStatusView, Problem> {
        let (standing, reason) = match system.settled_by(view)? {
            None => (Standing::Running, None),
            Some(Settled::Closed(_)) if view.closed.is_some() => (Standing::Closed, None),
            // It was closed this moment.
            Some(Settled::Closed(_)) => (Standing::Running, None),
            Some(Settled::WaitsForPerson) => (Standing::Waiting, None),
            Some(Settled::Parked(reason)) => (Standing::Checkpointed, Some(reason)),
            Some(Settled::Quarantined(reason)) => (Standing::Quarantined, Some(reason)),
            // What nobody drives waits for a person all the same, if nothing else could go on.
            Some(Settled::Resting) if system.waits_for_person(&view.run) => (Standing::Waiting, None),
            Some(Settled::Resting) => (Standing::Open, None),
        };
        let blocked_by = system.held_up_by(view.opened.run).filter(|_| standing == Standing::Waiting);
        Ok(RunStatusView { standing, reason, blocked_by, ahead: system.ahead(view), is_past: false })
    }

    /// How it stood at a record that others follow.
    pub(crate) fn in_the_past(view: &RunView) -> RunStatusView {
        let standing = match &view.parked {
            Some(_) => Standing::Checkpointed,
            None if view.run.waits_for_person() => Standing::Waiting,
            None => Standing::Open,
        };
        RunStatusView { standing, reason: view.parked.clone(), blocked_by: None, ahead: None, is_past: true }
    }
}

/// The summary of a run as it stood at the view's last record.
pub(crate) fn summarize(run: RunId, view: &RunView, stands: RunStatusView) -> Summary {
    let RunStatusView { standing, reason, blocked_by, ahead, is_past } = stands;
    let now = ahead.as_ref().map_or(&view.run, |ahead| &ahead.run);
    let report = &view.report;
    let plan = view.run.plan();
    let outputs = view.run.outputs().map(|(id, output)| (id.to_string(), output.artifact.to_string()));
    let root_causes = report.root_causes.iter().map(|culprit| RootCause {
        node: culprit.node.to_string(),
        state: culprit.state.to_string(),
        reason: culprit.reason.clone(),
        message: culprit.message.clone(),
        lost: culprit.lost.iter().map(ToString::to_string).collect(),
    });
    Summary {
        kind: "summary".to_owned(),
        run: run.to_string(),
        plan: plan.id.clone(),
        version: report.version,
        standing,
        state: view.agent_state(matches!(standing, Standing::Running)),
        outcome: view.closed.map(|outcome| outcome.to_string()),
        reason,
        nodes: now.instances().map(|(node, it)| (node.id.to_string(), it.state().to_string())).collect(),
        interrupted: ahead.iter().flat_map(|ahead| &ahead.again).map(ToString::to_string).collect(),
        dispatches: report.dispatches,
        rounds: report.rounds.clone(),
        peak_ready: report.peak_ready,
        mean_ready: report.mean_ready,
        makespan_ms: report.makespan_ms,
        critical_path_ms: report.critical_path_ms,
        parallelism: report.parallelism,
        overhead_us_per_node: report.overhead_us_per_node,
        attempts: view.run.instances().map(|(_, instance)| instance.attempts).sum(),
        reused: 0, // nothing is reused across runs yet
        cost: report.cost,
        root_causes: root_causes.collect(),
        reliability: reliability_of(&view.run),
        outputs: outputs.collect(),
        waiting: waiting(run, now, view.over_by),
        blocked_by: blocked_by.map(|first| first.to_string()),
        out_of_credit: view.out_of_credit && view.closed.is_none(),
        budget: view.run.terms().budget,
        parent: view.run.terms().parent.as_ref().map(|parent| ParentView {
            run: parent.run.to_string(),
            node: parent.of.node.to_string(),
            step: parent.step.clone(),
        }),
        client: view.opened.client.to_string(),
        agent: view.opened.agent.to_string(),
        workspace: view.opened.workspace.clone(),
        opened_ms: view.opened_ms,
        seq: view.last.0,
        past: is_past,
    }
}

/// Over the nodes that were executed; nothing is said of a run that accepted nothing.
fn reliability_of(run: &Run) -> Option<ReliabilityBounds> {
    let executed = run.instances().filter(|(_, instance)| instance.status == NodeStatus::Executed);
    let precisions: Vec<Option<f64>> = executed.map(|(node, _)| precision(&node.contract)).collect();
    let bounds = if precisions.is_empty() { None } else { reliability(precisions) }?;
    Some(ReliabilityBounds { independent: bounds.independent, always: bounds.always })
}

fn waiting(id: RunId, run: &Run, over_by: Option<Ticks>) -> Vec<Waiting> {
    let asked = run.instances().filter_map(|(node, instance)| {
        let NodeStatus::WaitingHuman { ask, deadline } = instance.status else { return None };
        let id = ApprovalId { run: id, node: node.id.clone(), request: instance.requests };
        let answerable = ask != HumanRequestKind::InDoubt;
        Some(Waiting {
            node: node.id.to_string(),
            ask: word(&ask),
            id: answerable.then(|| id.to_string()),
            digest: instance.shown.as_ref().filter(|_| answerable).map(|shown| shown.to_string()),
            deadline_ms: deadline.into_iter().chain(over_by.filter(|_| answerable)).min(),
            blocks: run.downstream(&node.id).iter().map(ToString::to_string).collect(),
            attempt: (!answerable).then_some(instance.attempts),
            why: instance.failure_message().filter(|_| !answerable).map(str::to_owned),
        })
    });
    asked.collect()
}

/// A line of the table of runs.
pub(crate) async fn run_line(system: &System, row: &RunRow) -> Result<RunLine, Problem> {
    let mut line = RunLine {
        run: row.run.to_string(),
        plan: row.plan.clone(),
        client: row.client.to_string(),
        agent: row.agent.to_string(),
        standing: Standing::Closed,
        outcome: None,
        reason: None,
        opened_ms: row.opened_ms,
        // Of one that was set aside, the row tells when that was.
        closed_ms: match &row.status {
            RunRowStatus::Closed(_) | RunRowStatus::Quarantined(_) => row.closed_ms,
            RunRowStatus::Open | RunRowStatus::Parked(_) => None,
        },
        nodes_over: None,
        nodes: None,
        waiting: Vec::new(),
        blocked_by: None,
        out_of_credit: false,
        unreadable: false,
    };
    match &row.status {
        RunRowStatus::Closed(outcome) => {
            line.outcome = Some(outcome.to_string());
            // Nothing of a closed run is left to do.
            (line.nodes, line.nodes_over) = (Some(row.nodes as usize), Some(row.nodes as usize));
        }
        RunRowStatus::Quarantined(why) => {
            (line.standing, line.reason) = (Standing::Quarantined, Some(why.clone()));
            line.nodes = Some(row.nodes as usize);
        }
        RunRowStatus::Open | RunRowStatus::Parked(_) => {
            let read = system.view(row.run, None).await.map_err(Problem::from);
            let read = read.and_then(|view| Ok((RunStatusView::now(system, &view)?, view)));
            let (stands, view) = match read {
                Ok(read) => read,
                // One run that cannot be read hides no other.
                Err(problem) => {
                    (line.standing, line.unreadable) = (Standing::Checkpointed, true);
                    line.reason = Some(format!("it cannot be read: {}", problem.detail()));
                    return Ok(line);
                }
            };
            let summary = summarize(row.run, &view, stands);
            (line.standing, line.reason, line.outcome) = (summary.standing, summary.reason, summary.outcome);
            (line.waiting, line.out_of_credit) = (summary.waiting, summary.out_of_credit);
            line.blocked_by = summary.blocked_by;
            line.nodes = Some(summary.nodes.len());
            let over = view.run.instances().filter(|(_, instance)| !instance.is_live()).count();
            line.nodes_over = Some(over);
        }
    }
    Ok(line)
}
