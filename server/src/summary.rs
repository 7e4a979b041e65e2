//! What a run amounts to, as it is told.

use futures::FutureExt;
use ostler_actors::{ApprovalId, RunView, Settled, System, held_up};
use ostler_kernel::contract::{precision, reliability};
use ostler_kernel::event::HumanRequestKind;
use ostler_kernel::id::RunId;
use ostler_kernel::port::{RunRow, RunStanding};
use ostler_kernel::run::{Run, Standing as NodeStanding};

use crate::problem::Problem;
use crate::wire::{Culprit, ReliabilityBounds, RunLine, Standing, Summary, Waiting};

/// How a run stands right now; a look, no wait.
pub(crate) fn standing(system: &System, run: RunId) -> Result<(Standing, Option<String>), Problem> {
    Ok(match system.outcome(run).now_or_never() {
        None => (Standing::Running, None),
        Some(Ok(Settled::Closed(_))) => (Standing::Closed, None),
        Some(Ok(Settled::WaitsForPerson)) => (Standing::Waiting, None),
        Some(Ok(Settled::Parked(reason))) => (Standing::Parked, Some(reason)),
        Some(Ok(Settled::Idle)) => (Standing::Open, None),
        Some(Err(error)) => return Err(error.into()),
    })
}

/// The summary of a run as it stood at the view's last record.
pub(crate) fn of(run: RunId, view: &RunView, standing: Standing, reason: Option<String>) -> Summary {
    let report = &view.report;
    let plan = view.run.plan();
    let outputs = plan.outputs.iter().filter_map(|id| {
        let instance = view.run.instance(id)?;
        let output = instance.output.as_ref().filter(|_| instance.standing == NodeStanding::Executed)?;
        Some((id.to_string(), output.artifact.to_string()))
    });
    let culprits = report.culprits.iter().map(|culprit| Culprit {
        node: culprit.node.to_string(),
        state: culprit.state.to_string(),
        reason: culprit.reason.clone(),
        message: culprit.message.clone(),
        lost: culprit.lost.iter().map(ToString::to_string).collect(),
    });
    let waiting = waiting(run, &view.run);
    let standing = match (view.closed, standing, waiting.is_empty()) {
        (Some(_), ..) => Standing::Closed,
        // What nobody drives waits for a person all the same.
        (None, Standing::Open, false) => Standing::Waiting,
        // It was closed later than the record this is told up to.
        (None, Standing::Closed, _) => Standing::Open,
        (None, standing, _) => standing,
    };
    Summary {
        kind: "summary".to_owned(),
        run: run.to_string(),
        plan: plan.id.clone(),
        version: report.version,
        standing,
        outcome: view.closed.map(|outcome| outcome.to_string()),
        reason: reason.or_else(|| view.parked.clone()),
        nodes: report.nodes.iter().map(|(node, state)| (node.to_string(), state.to_string())).collect(),
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
        culprits: culprits.collect(),
        reliability: reliability_of(&view.run),
        outputs: outputs.collect(),
        waiting,
        client: view.opened.client.to_string(),
        agent: view.opened.agent.to_string(),
        workspace: view.opened.workspace.clone(),
        opened_ms: view.opened_ms,
        seq: view.last.0,
    }
}

/// Over the nodes that were executed; nothing is said of a run that accepted nothing.
fn reliability_of(run: &Run) -> Option<ReliabilityBounds> {
    let executed = run.instances().filter(|(_, instance)| instance.standing == NodeStanding::Executed);
    let precisions: Vec<Option<f64>> = executed.map(|(node, _)| precision(&node.contract)).collect();
    let bounds = if precisions.is_empty() { None } else { reliability(precisions) }?;
    Some(ReliabilityBounds { independent: bounds.independent, always: bounds.always })
}

fn waiting(id: RunId, run: &Run) -> Vec<Waiting> {
    let asked = run.instances().filter_map(|(node, instance)| {
        let NodeStanding::WaitingHuman { ask, deadline } = instance.standing else { return None };
        let id = ApprovalId { run: id, node: node.id.clone(), request: instance.requests };
        let answerable = ask != HumanRequestKind::InDoubt;
        Some(Waiting {
            node: node.id.to_string(),
            ask: ask_word(ask).to_owned(),
            id: answerable.then(|| id.to_string()),
            digest: instance.shown.filter(|_| answerable).map(|shown| shown.to_string()),
            deadline_ms: deadline,
            holds_up: held_up(run, &node.id).iter().map(ToString::to_string).collect(),
        })
    });
    asked.collect()
}

/// The word for what is asked.
pub(crate) fn ask_word(ask: HumanRequestKind) -> &'static str {
    match ask {
        HumanRequestKind::Before => "before",
        HumanRequestKind::After => "after",
        HumanRequestKind::Node => "node",
        HumanRequestKind::InDoubt => "in_doubt",
    }
}

/// A line of the table of runs.
pub(crate) async fn row(system: &System, row: &RunRow) -> Result<RunLine, Problem> {
    let mut line = RunLine {
        run: row.run.to_string(),
        plan: row.plan.clone(),
        client: row.client.to_string(),
        agent: row.agent.to_string(),
        standing: Standing::Closed,
        outcome: None,
        reason: None,
        opened_ms: row.opened_ms,
        closed_ms: row.closed_ms,
        nodes_over: None,
        nodes: None,
        waiting: Vec::new(),
    };
    match &row.standing {
        RunStanding::Closed(outcome) => {
            line.outcome = Some(outcome.to_string());
            // Nothing of a closed run is left to do.
            (line.nodes, line.nodes_over) = (Some(row.nodes as usize), Some(row.nodes as usize));
        }
        RunStanding::Open | RunStanding::Parked(_) => {
            let read = system.view(row.run, None).await.map_err(Problem::from);
            let read = read.and_then(|view| Ok((view, standing(system, row.run)?)));
            let (view, (standing, reason)) = match read {
                Ok(read) => read,
                // One run that cannot be read hides no other.
                Err(problem) => {
                    line.standing = Standing::Parked;
                    line.reason = Some(format!("it cannot be read: {}", problem.detail()));
                    return Ok(line);
                }
            };
            let summary = of(row.run, &view, standing, reason);
            (line.standing, line.reason, line.outcome) = (summary.standing, summary.reason, summary.outcome);
            line.waiting = summary.waiting;
            line.nodes = Some(summary.nodes.len());
            let over = view.run.instances().filter(|(_, instance)| !instance.is_live()).count();
            line.nodes_over = Some(over);
        }
    }
    Ok(line)
}
