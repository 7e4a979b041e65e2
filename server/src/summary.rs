//! A run as a [`Summary`] and as a [`RunLine`] of the table of runs.

use std::collections::{BTreeMap, BTreeSet};

use ostler_actors::{ApprovalId, RateWait, RecoveryPreview, RunStatusView, RunView, System};
use ostler_kernel::contract::{precision, reliability};
use ostler_kernel::event::{HumanRequestKind, Output, Parent};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::plan::{MODEL_DEFAULT, Node, TEST_TOOL};
use ostler_kernel::policy::{FinalAnswer, View};
use ostler_kernel::port::{RunRow, RunRowStatus};
use ostler_kernel::run::{
    DiagnosisScore, FailureCategory, NodeInstance, NodeStatus, Run, RunStatus, UndoReport,
};
use serde::Deserialize;

use crate::problem::Problem;
use crate::wire::{
    AnswerView, CallBudgetView, CarriedApprovalView, DiagnosisView, JudgedResultView, ListView, LostCallView,
    ParentView, RateWaitView, ReliabilityBounds, RootCause, RunLine, ShortfallView, Summary, UndoView,
    WaitView, Waiting, WaitingBelow, word,
};

/// Runs below a run whose questions its page shows.
const ASKING_BELOW_MAX: usize = 16;

/// The summary of a run; the view holds its last record.
pub(crate) async fn current(system: &System, view: &RunView) -> Result<Summary, Problem> {
    let call_budget = system.call_account(view)?.map(CallBudgetView::from);
    let lost_calls = match &call_budget {
        Some(_) => system.lost_calls(view)?.into_iter().map(LostCallView::from).collect(),
        None => lost_attempts(view, system.ahead(view).as_ref()),
    };
    let waiting_below = asking_below(system, view.opened.run).await;
    Ok(Summary { call_budget, lost_calls, waiting_below, ..without_account(system, view)? })
}

/// Calls that were lost with a process, of a run whose calls have no budget: attempts of nodes that call a model, made again or
/// to be made again, without a record of a call.
fn lost_attempts(view: &RunView, ahead: Option<&RecoveryPreview>) -> Vec<LostCallView> {
    let lost = &view.figures.lost;
    let is_cut = |node: &&NodeId| ahead.is_some_and(|ahead| ahead.again.contains(*node));
    let nodes = lost.repeated.iter().chain(lost.open.iter().filter(is_cut));
    let call = |node: &NodeId| {
        let model = view.run.node(node)?.model.clone().unwrap_or_else(|| MODEL_DEFAULT.to_owned());
        Some(LostCallView { node: node.to_string(), model, tokens: None, usd: None })
    };
    nodes.filter_map(call).collect()
}

/// The questions in runs below a run that it waits for. A run that cannot be read hides no other.
async fn asking_below(system: &System, run: RunId) -> Vec<WaitingBelow> {
    let mut asking = Vec::new();
    for run in system.asking_below(run).into_iter().take(ASKING_BELOW_MAX) {
        let Ok(view) = system.view(run, None).await else { continue };
        let opened_by = view.run.terms().parent.as_ref().map(parent_view);
        let suspended = view.parked.is_some();
        // A suspended run takes no answers.
        let (waiting, waits) = match suspended {
            true => (Vec::new(), Vec::new()),
            false => (waiting(run, &view.run, view.over_by), waits(&view.run)),
        };
        let (run, plan) = (run.to_string(), view.run.plan().id.clone());
        asking.push(WaitingBelow { run, plan, opened_by, suspended, waiting, waits });
    }
    asking
}

/// Most results of one summary that are read for what they leave out.
pub const CUT_OUTPUTS_MAX: usize = 8;

/// Smallest result that leaves something out: `shell.run` keeps a MiB of each stream.
const CUT_OUTPUT_BYTES_MIN: u64 = 1 << 20;

/// What the results of programs leave out of their output, by node. A result that cannot be read is told of where it is needed.
pub(crate) async fn left_out(system: &System, view: &RunView) -> BTreeMap<String, u64> {
    let large = view.run.instances().filter(|(node, instance)| {
        let large = |output: &Output| output.bytes >= CUT_OUTPUT_BYTES_MIN;
        node.tool.as_deref() == Some(TEST_TOOL) && instance.result().is_some_and(large)
    });
    let mut found = BTreeMap::new();
    for (node, _) in large.take(CUT_OUTPUTS_MAX) {
        let Ok(artifact) = system.artifact(view.opened.run, &node.id).await else { continue };
        let Ok(printed) = serde_json::from_slice::<Printed>(&artifact.content) else { continue };
        let bytes = printed.stdout_bytes_left_out.saturating_add(printed.stderr_bytes_left_out);
        if bytes > 0 {
            found.insert(node.id.to_string(), bytes);
        }
    }
    found
}

/// The counts in a result of `shell.run`.
#[derive(Deserialize)]
struct Printed {
    #[serde(default)]
    stdout_bytes_left_out: u64,
    #[serde(default)]
    stderr_bytes_left_out: u64,
}

/// Reads no account: one of a tree of runs is read from the records of all of them.
fn without_account(system: &System, view: &RunView) -> Result<Summary, Problem> {
    let mut summary = summarize(view, system.status(view)?, system.ahead(view).as_ref());
    for wait in &mut summary.waits {
        wait.address = system.shown_callback(view.opened.run, &wait.node.as_str().into());
    }
    Ok(summary)
}

/// The summary of a run as of a record that others follow.
pub(crate) fn in_the_past(view: &RunView) -> Summary {
    Summary { past: true, ..summarize(view, RunStatusView::in_the_past(view), None) }
}

/// `ahead` replaces the states of nodes by those that recovery would find.
fn summarize(view: &RunView, status: RunStatusView, ahead: Option<&RecoveryPreview>) -> Summary {
    let RunStatusView { status, waits_for, reason, blocked_by, active, rate_waits } = status;
    let id = view.opened.run;
    let run = ahead.map_or(&view.run, |ahead| &ahead.run);
    let report = &view.report;
    let plan = view.run.plan();
    let outputs = view.run.outputs().map(|(id, output)| (id.to_string(), output.artifact.to_string()));
    let root_causes = report.root_causes.iter().map(|cause| RootCause {
        node: cause.node.to_string(),
        state: cause.state.to_string(),
        reason: cause.reason.clone(),
        message: cause.message.clone(),
        lost: cause.lost.iter().map(ToString::to_string).collect(),
    });
    let parent = view.run.terms().parent.as_ref().map(parent_view);
    let on = view.run.goal().map(|goal| &goal.terms().on).into_iter().flatten();
    Summary {
        kind: "summary".to_owned(),
        run: id.to_string(),
        plan: plan.id.clone(),
        version: report.version,
        status,
        waits_for,
        outcome: view.closed,
        reason,
        active,
        nodes: run.instances().map(|(node, it)| (node.id.to_string(), it.state().to_string())).collect(),
        held: held(&view.run),
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
        reused: view.figures.reuse.values().filter(|word| is_reuse(word)).count() as u32,
        cost: report.cost,
        models: report.models,
        goal: view.run.goal().map(|goal| goal.terms().goal.clone()),
        model_file: view.run.goal().and_then(|goal| goal.terms().model_file.clone()),
        on: on.map(|earlier| earlier.run.to_string()).collect(),
        answer: answer_of(&view.run),
        diagnoses: diagnoses_of(&view.run),
        root_causes: root_causes.collect(),
        reliability: reliability_of(&view.run),
        outputs: outputs.collect(),
        waiting: waiting(id, run, view.over_by),
        carried: carried(run),
        waits: waits(run),
        lists: lists(run),
        left_out: BTreeMap::new(),
        absent: view.run.absent_outputs().map(ToString::to_string).collect(),
        undo: undo(id, &view.run, view.closed.is_some()),
        waiting_below: Vec::new(),
        blocked_by: blocked_by.map(|first| first.to_string()),
        out_of_credit: view.out_of_credit && view.closed.is_none(),
        rate_waits: rate_waits.into_iter().map(rate_wait).collect(),
        budget: view.run.terms().budget,
        call_budget: None,
        lost_calls: Vec::new(),
        verdicts: view.figures.judged.values().flatten().map(JudgedResultView::from).collect(),
        parent,
        client: view.opened.client.to_string(),
        agent: view.opened.agent.to_string(),
        workspace: view.opened.workspace.clone(),
        opened_ms: view.opened_ms,
        seq: view.last.0,
        past: false,
    }
}

pub(crate) fn parent_view(parent: &Parent) -> ParentView {
    ParentView { run: parent.run.to_string(), node: parent.of.node.to_string(), step: parent.step.clone() }
}

/// Results of the diagnoses of a run, by category of the failure.
pub(crate) fn diagnoses_of(run: &Run) -> BTreeMap<FailureCategory, DiagnosisView> {
    let view = |score: DiagnosisScore| {
        let DiagnosisScore { made, tried, mended, .. } = score;
        DiagnosisView { made, tried, mended, brier: score.brier() }
    };
    run.diagnosis_scores().into_iter().map(|(category, score)| (category, view(score))).collect()
}

/// True for a decision by which a recorded result stands in.
fn is_reuse(word: &str) -> bool {
    matches!(word, "reused" | "cut_off" | "revalidated" | "kept")
}

fn rate_wait(RateWait { node, model, ms }: RateWait) -> RateWaitView {
    RateWaitView { node: node.to_string(), model, ms }
}

fn answer_of(run: &Run) -> Option<AnswerView> {
    // The time only decides about what is still to come.
    let view = View::of(run, 0)?;
    let FinalAnswer { source, answer, citations, .. } = view.final_answer()?;
    let citations = citations.iter().map(ToString::to_string).collect();
    Some(AnswerView { text: answer, source, citations, labels: view.labels(), reasons: view.reasons() })
}

/// Bounds over the executed nodes; `None` if no node is executed or a contract states no precision.
fn held(run: &Run) -> BTreeSet<String> {
    let held = run.instances().filter(|(_, instance)| instance.status == NodeStatus::Held);
    held.map(|(node, _)| node.id.to_string()).collect()
}

fn reliability_of(run: &Run) -> Option<ReliabilityBounds> {
    let executed = run.instances().filter(|(_, instance)| instance.status == NodeStatus::Executed);
    let precisions: Vec<Option<f64>> = executed.map(|(node, _)| precision(&node.contract)).collect();
    let bounds = if precisions.is_empty() { None } else { reliability(precisions) }?;
    Some(ReliabilityBounds { independent: bounds.independent, always: bounds.always })
}

fn waiting(id: RunId, run: &Run, over_by: Option<Ticks>) -> Vec<Waiting> {
    let waiting = run.instances().filter_map(|(node, instance)| {
        let NodeStatus::WaitingHuman { ask, deadline } = instance.status else { return None };
        if ask == HumanRequestKind::Wait {
            return None;
        }
        let id = ApprovalId { run: id, node: node.id.clone(), request: instance.requests };
        let answerable = ask != HumanRequestKind::InDoubt;
        Some(Waiting {
            node: node.id.to_string(),
            ask: word(&ask),
            id: answerable.then(|| id.to_string()),
            digest: instance.asked_digest().filter(|_| answerable).map(|shown| shown.to_string()),
            deadline_ms: deadline.into_iter().chain(over_by.filter(|_| answerable)).min(),
            blocks: run.downstream(&node.id).iter().map(ToString::to_string).collect(),
            attempt: (!answerable).then_some(instance.attempts),
            over_budget: instance
                .shortfall
                .as_deref()
                .filter(|_| ask == HumanRequestKind::Budget)
                .map(|shortfall| ShortfallView::from(shortfall.clone())),
            why: instance.failure_message().filter(|_| !answerable).map(str::to_owned),
        })
    });
    waiting.collect()
}

/// The children of expanded nodes, counted.
fn lists(run: &Run) -> BTreeMap<String, ListView> {
    let lists = run.instances().filter_map(|(node, _)| {
        let items = node.items()?;
        let mut list = ListView { items: items.len(), ..ListView::default() };
        for instance in items.iter().filter_map(|item| run.instance(item)) {
            let is_executed = instance.status == NodeStatus::Executed;
            list.executed += usize::from(is_executed);
            list.lost += usize::from(!is_executed && !instance.is_live());
        }
        Some((node.id.to_string(), list))
    });
    lists.collect()
}

/// Progress of the undo, with the commands for what is in doubt.
fn undo(id: RunId, run: &Run, is_over: bool) -> Option<UndoView> {
    let UndoReport { state, nodes, without, mut unsure } = run.undo_report()?;
    let in_doubt = |node: &&NodeId| {
        let status = run.instance(node).map(|instance| &instance.status);
        matches!(status, Some(NodeStatus::WaitingHuman { ask: HumanRequestKind::InDoubt, .. }))
    };
    let commands = |node: &NodeId| {
        let how: &[&str] = if in_doubt(&node) { &["--done FILE", "--redo", "--fail"] } else { &["--gone"] };
        (node.to_string(), how.iter().map(|how| format!("ostler resolve {id} {node} {how}")).collect())
    };
    let is_settled_here = |node: &&NodeId| is_over || in_doubt(node);
    // The report of the kernel counts them once a person has not settled them.
    unsure.extend(nodes.iter().filter(in_doubt).cloned());
    unsure.sort();
    unsure.dedup();
    let settle = unsure.iter().filter(is_settled_here).map(commands).collect();
    Some(UndoView { state, nodes, without, unsure, settle })
}

/// Approvals of the repeated run that answered questions.
fn carried(run: &Run) -> Vec<CarriedApprovalView> {
    let of_node = |(node, instance): (&Node, &NodeInstance)| {
        let carried = instance.approvals.iter().filter_map(|approval| {
            let (by, run) = (approval.by.clone(), approval.from?.to_string());
            Some(CarriedApprovalView { node: node.id.to_string(), by, run })
        });
        carried.collect::<Vec<_>>()
    };
    run.instances().flat_map(of_node).collect()
}

/// The nodes that wait for an answer from outside.
fn waits(run: &Run) -> Vec<WaitView> {
    let waits = run.instances().filter_map(|(node, instance)| match instance.status {
        NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, deadline } => {
            Some(WaitView { node: node.id.to_string(), deadline_ms: deadline, address: None })
        }
        _ => None,
    });
    waits.collect()
}

/// Id of the plan of every goal run. Models add nodes to the plan; the row of a run counts only the nodes of the first version.
const GOAL_PLAN: &str = "goal";

/// A line of the table of runs. Costs one fold of the run's records, unless the run is quarantined, or closed and of a plan file,
/// and needs no `details`.
pub(crate) async fn run_line(system: &System, row: &RunRow, details: bool) -> Result<RunLine, Problem> {
    let nodes = Some(row.nodes as usize);
    match &row.status {
        RunRowStatus::Closed(outcome) => {
            let is_read = details || row.plan == GOAL_PLAN;
            let view = if is_read { system.view(row.run, None).await.ok() } else { None };
            let mut line = RunLine { closed_ms: row.closed_ms, ..empty_line(row, (*outcome).into()) };
            line.nodes = nodes;
            if let Some(view) = view {
                line.nodes = Some(view.run.plan().nodes.len());
                line.undo = undo(row.run, &view.run, true);
                line.absent = view.run.absent_outputs().map(ToString::to_string).collect();
            }
            Ok(RunLine { outcome: Some(*outcome), nodes_over: line.nodes, ..line })
        }
        RunRowStatus::Quarantined(why) => {
            let quarantined = empty_line(row, RunStatus::Quarantined);
            Ok(RunLine { closed_ms: row.closed_ms, reason: Some(why.clone()), nodes, ..quarantined })
        }
        // The row's time of an open run is when it was suspended, not when it was closed.
        RunRowStatus::Open | RunRowStatus::Parked(_) => Ok(open_line(system, row).await),
    }
}

/// The line of an open run. A run with unreadable records hides no other run: its line gives the error.
async fn open_line(system: &System, row: &RunRow) -> RunLine {
    let read = system.view(row.run, None).await.map_err(Problem::from);
    let read = read.and_then(|view| Ok((without_account(system, &view)?, view)));
    let (summary, view) = match read {
        Ok(read) => read,
        Err(problem) => {
            let reason = format!("it cannot be read: {}", problem.detail());
            let line = empty_line(row, RunStatus::Suspended);
            return RunLine { unreadable: true, reason: Some(reason), ..line };
        }
    };
    let nodes_over = view.run.instances().filter(|(_, instance)| !instance.is_live()).count();
    RunLine {
        waits_for: summary.waits_for,
        outcome: summary.outcome,
        reason: summary.reason,
        active: summary.active,
        nodes_over: Some(nodes_over),
        nodes: Some(summary.nodes.len()),
        model_file: summary.model_file,
        parent: summary.parent,
        waiting: summary.waiting,
        blocked_by: summary.blocked_by,
        out_of_credit: summary.out_of_credit,
        rate_waits: summary.rate_waits,
        undo: summary.undo,
        absent: summary.absent,
        waiting_below: asking_below(system, row.run).await,
        seq: Some(summary.seq),
        ..empty_line(row, summary.status)
    }
}

fn empty_line(row: &RunRow, status: RunStatus) -> RunLine {
    RunLine {
        run: row.run.to_string(),
        plan: row.plan.clone(),
        client: row.client.to_string(),
        agent: row.agent.to_string(),
        status,
        waits_for: None,
        outcome: None,
        reason: None,
        active: false,
        opened_ms: row.opened_ms,
        closed_ms: None,
        nodes_over: None,
        nodes: None,
        failed: row.failed,
        model_file: None,
        parent: None,
        waiting: Vec::new(),
        blocked_by: None,
        out_of_credit: false,
        rate_waits: Vec::new(),
        undo: None,
        absent: Vec::new(),
        unreadable: false,
        waiting_below: Vec::new(),
        seq: None,
    }
}
