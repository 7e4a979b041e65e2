//! The two tasks of the paper, in its three conditions.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::memo::{Memo, Path, Ran, Tokens};
use super::metrics::{Artifact, agreement, churn, precision, preserved};
use crate::cli::exit::Failure;

/// A task, by its name in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// A source of the recruiting branch changes.
    UnrelatedBranchNoopUpdate,
    /// A person adds conditions to the criteria.
    IntermediateArtifactEdit,
}

/// A condition, by its name in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Condition {
    #[serde(rename = "loop_real_world_final_update")]
    LoopFinalUpdate,
    #[serde(rename = "loop_real_world_with_edit_event")]
    LoopEditEvent,
    #[serde(rename = "simple_dag_replay_selective_recompute")]
    DagReplay,
}

impl Condition {
    pub(super) const ALL: [Condition; 3] =
        [Condition::LoopFinalUpdate, Condition::LoopEditEvent, Condition::DagReplay];

    pub(super) fn name(self) -> &'static str {
        match self {
            Condition::LoopFinalUpdate => "loop final update",
            Condition::LoopEditEvent => "loop + edit event",
            Condition::DagReplay => "lineage replay",
        }
    }
}

/// One update of the memo. A metric that does not apply is `None`: a loop keeps no artifacts beside the memo.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Trial {
    pub(super) task: Task,
    pub(super) condition: Condition,
    pub(super) repeat: usize,
    pub(super) final_output_exact_match: f64,
    pub(super) stable_artifact_hash_preservation: Option<f64>,
    pub(super) unnecessary_churn_rate: Option<f64>,
    pub(super) unrelated_branch_contamination_rate: f64,
    pub(super) final_memo_constraint_reflection: Option<f64>,
    pub(super) cross_artifact_consistency_score: Option<f64>,
    pub(super) downstream_propagation_recall: Option<f64>,
    pub(super) upstream_churn_rate: Option<f64>,
    pub(super) unaffected_artifact_preservation: Option<f64>,
    /// Share of the memo's statements that stand in its current sources and criteria.
    pub(super) statement_precision: f64,
    #[serde(flatten)]
    pub(super) tokens: Tokens,
    /// Calls for the memo and what is above it.
    pub(super) memo_calls: u64,
    pub(super) took_ms: f64,
    /// The longest path of what was executed.
    pub(super) path: Path,
    pub(super) executed: BTreeSet<String>,
    /// The memo of the run.
    pub(super) memo: String,
}

/// Conditions that the edit of the criteria adds.
const NEW_CONDITIONS: [&str; 2] = [
    "- [C4] Year one of the expansion is budget-neutral.",
    "- [C5] Utilization controls are in place before chronic-care follow-up scales.",
];

/// Marks of the new conditions, and of statements of the recruiting branch.
const NEW_MARKS: [&str; 2] = ["[C4]", "[C5]"];
const RECRUITING_MARK: &str = "[S";

/// Artifacts with the conditions of the criteria: what the memo has to agree with.
const ALIGNED: [&str; 2] = ["criteria", "plan"];

/// Runs both tasks in all conditions, `repeats` times.
pub(super) async fn trials(memo: &Memo, repeats: usize) -> Result<Vec<Trial>, Failure> {
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        trials.extend(unrelated(memo, repeat).await?);
        trials.extend(intermediate(memo, repeat).await?);
    }
    Ok(trials)
}

async fn unrelated(memo: &Memo, repeat: usize) -> Result<Vec<Trial>, Failure> {
    let base = memo.write(&format!("unrelated-{repeat}")).await?;
    let source = memo.source("recruiting")?;
    memo.set_source("recruiting", &source.replacen("14 roles", "19 roles", 1))?;
    let event = "the source recruiting changed: 19 roles for nurses are open, not 14.";
    let mut trials = Vec::new();
    for condition in Condition::ALL {
        let after = match told(condition, event) {
            None => memo.again(&base).await?,
            Some(event) => memo.ask_loop(&memo.loop_prompt(base.memo(), event, &[])?).await?,
        };
        trials.push(judged_unrelated(memo, condition, repeat, &base, &after));
    }
    memo.restore_sources()?;
    Ok(trials)
}

/// `None` for the replay, which is no call; else the event that a loop is told, if it is told one.
fn told(condition: Condition, event: &str) -> Option<Option<&str>> {
    match condition {
        Condition::LoopFinalUpdate => Some(None),
        Condition::LoopEditEvent => Some(Some(event)),
        Condition::DagReplay => None,
    }
}

fn judged_unrelated(memo: &Memo, condition: Condition, repeat: usize, base: &Ran, after: &Ran) -> Trial {
    let stable: BTreeSet<String> = &memo.writers() - &memo.below("recruiting_source");
    let is_replay = condition == Condition::DagReplay;
    // A loop maintains the memo, which is stable in this task.
    let stable = if is_replay { stable } else { BTreeSet::from(["memo".to_owned()]) };
    let task = Task::UnrelatedBranchNoopUpdate;
    Trial {
        stable_artifact_hash_preservation: Some(preserved(&base.artifacts, &after.artifacts, &stable)),
        unnecessary_churn_rate: Some(churn(base.memo(), after.memo())),
        ..trial(memo, task, (condition, repeat), base, after, None)
    }
}

async fn intermediate(memo: &Memo, repeat: usize) -> Result<Vec<Trial>, Failure> {
    let base = memo.write(&format!("intermediate-{repeat}")).await?;
    let mut value = base.artifacts["criteria"].value.clone();
    if let Some(Value::Array(conditions)) = value.get_mut("conditions") {
        conditions.extend(NEW_CONDITIONS.map(Value::from));
    }
    let criteria = Artifact::of(value.clone());
    let event = format!("the artifact criteria was edited; added:\n{}", NEW_CONDITIONS.join("\n"));
    let mut trials = Vec::new();
    for condition in Condition::ALL {
        let after = match told(condition, &event) {
            None => memo.edit(&base, "criteria", value.clone()).await?,
            Some(event) => {
                let edited = [("criteria", &criteria)];
                memo.ask_loop(&memo.loop_prompt(base.memo(), event, &edited)?).await?
            }
        };
        trials.push(judged_intermediate(memo, (condition, repeat), &base, &after, &criteria));
    }
    Ok(trials)
}

fn judged_intermediate(
    memo: &Memo,
    (condition, repeat): (Condition, usize),
    base: &Ran,
    after: &Ran,
    criteria: &Artifact,
) -> Trial {
    // What is maintained after the update: a loop leaves all but the memo as they were, and the person's edit stands.
    let mut state = base.artifacts.clone();
    state.insert("criteria".to_owned(), criteria.clone());
    state.extend(after.artifacts.clone());
    let (above, below) = (memo.above("criteria"), memo.below("criteria"));
    let mut stable = &memo.writers() - &below;
    stable.remove("criteria");
    let unaffected = &stable - &above;
    let reflects = |artifact: &Artifact| NEW_MARKS.iter().all(|mark| artifact.text().contains(mark));
    let reflecting = below.iter().filter(|node| reflects(&state[*node])).count() as f64;
    let kept = |names: &BTreeSet<String>| {
        (condition == Condition::DagReplay).then(|| preserved(&base.artifacts, &state, names))
    };
    Trial {
        stable_artifact_hash_preservation: kept(&stable),
        upstream_churn_rate: kept(&above).map(|kept| 1.0 - kept),
        unaffected_artifact_preservation: kept(&unaffected),
        downstream_propagation_recall: (condition == Condition::DagReplay)
            .then(|| reflecting / below.len() as f64),
        final_memo_constraint_reflection: Some(f64::from(u8::from(reflects(after.memo())))),
        cross_artifact_consistency_score: Some(agreement(&state, &ALIGNED, after.memo())),
        ..trial(memo, Task::IntermediateArtifactEdit, (condition, repeat), base, after, Some(criteria))
    }
}

/// What both tasks measure. `criteria`: the edited artifact.
fn trial(
    memo: &Memo,
    task: Task,
    (condition, repeat): (Condition, usize),
    base: &Ran,
    after: &Ran,
    criteria: Option<&Artifact>,
) -> Trial {
    let new = after.memo();
    let related = ["utilization", "reimbursement", "operations", "access_cost", "criteria"];
    let current = related.iter().map(|name| &base.artifacts[*name]).chain(criteria);
    let mut line = memo.above("memo");
    line.insert("memo".to_owned());
    let memo_calls =
        after.tokens.iter().filter(|(node, _)| line.contains(*node)).map(|(_, of)| of.calls).sum();
    Trial {
        task,
        condition,
        repeat,
        final_output_exact_match: f64::from(u8::from(new.bytes == base.memo().bytes)),
        stable_artifact_hash_preservation: None,
        unnecessary_churn_rate: None,
        unrelated_branch_contamination_rate: f64::from(u8::from(new.text().contains(RECRUITING_MARK))),
        final_memo_constraint_reflection: None,
        cross_artifact_consistency_score: None,
        downstream_propagation_recall: None,
        upstream_churn_rate: None,
        unaffected_artifact_preservation: None,
        statement_precision: precision(new, current),
        tokens: after.all_tokens(),
        memo_calls,
        took_ms: after.took_ms,
        path: memo.longest_path(after),
        executed: after.executed.clone(),
        memo: new.text(),
    }
}
