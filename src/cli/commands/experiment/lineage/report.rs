//! The figures of the experiment, and what has to hold of them.

use std::collections::BTreeSet;

use serde::Serialize;

use super::drift::Step;
use super::spots::{Spot, Spots};
use super::tasks::{Condition, Task, Trial};
use crate::cli::commands::experiment::document::Check;

/// Terms of the experiment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Terms {
    pub(super) latency_ms: i64,
    pub(super) repeats: usize,
    pub(super) edits: usize,
    pub(super) seed: u64,
    /// The model that wrote; `None`: scripts.
    pub(super) model: Option<String>,
}

/// All figures.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(rename = "type")]
    kind: &'static str,
    pub(super) terms: Terms,
    pub(super) checks: Vec<Check>,
    pub(super) means: Vec<Mean>,
    pub(super) trials: Vec<Trial>,
    pub(super) spots: Option<Spots>,
    pub(super) drift: Vec<Step>,
}

/// Means over the repeats of a task in a condition. A metric that does not apply is `None`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Mean {
    pub(super) task: Task,
    pub(super) condition: Condition,
    pub(super) exact: f64,
    pub(super) stable: Option<f64>,
    pub(super) churn: Option<f64>,
    pub(super) contamination: f64,
    pub(super) reflection: Option<f64>,
    pub(super) consistency: Option<f64>,
    pub(super) recall: Option<f64>,
    pub(super) upstream_churn: Option<f64>,
    pub(super) unaffected: Option<f64>,
    pub(super) precision: f64,
    pub(super) calls: f64,
    pub(super) input_tokens: f64,
    pub(super) output_tokens: f64,
    pub(super) took_ms: f64,
}

impl Mean {
    fn of(task: Task, condition: Condition, trials: &[Trial]) -> Mean {
        let of: Vec<&Trial> =
            trials.iter().filter(|trial| trial.task == task && trial.condition == condition).collect();
        let mean = |value: &dyn Fn(&Trial) -> f64| {
            of.iter().map(|trial| value(trial)).sum::<f64>() / of.len() as f64
        };
        let optional = |value: &dyn Fn(&Trial) -> Option<f64>| {
            let known = of.iter().all(|trial| value(trial).is_some());
            known.then(|| mean(&|trial| value(trial).unwrap_or_default()))
        };
        Mean {
            task,
            condition,
            exact: mean(&|trial| trial.final_output_exact_match),
            stable: optional(&|trial| trial.stable_artifact_hash_preservation),
            churn: optional(&|trial| trial.unnecessary_churn_rate),
            contamination: mean(&|trial| trial.unrelated_branch_contamination_rate),
            reflection: optional(&|trial| trial.final_memo_constraint_reflection),
            consistency: optional(&|trial| trial.cross_artifact_consistency_score),
            recall: optional(&|trial| trial.downstream_propagation_recall),
            upstream_churn: optional(&|trial| trial.upstream_churn_rate),
            unaffected: optional(&|trial| trial.unaffected_artifact_preservation),
            precision: mean(&|trial| trial.statement_precision),
            calls: mean(&|trial| trial.tokens.calls as f64),
            input_tokens: mean(&|trial| trial.tokens.input_tokens as f64),
            output_tokens: mean(&|trial| trial.tokens.output_tokens as f64),
            took_ms: mean(&|trial| trial.took_ms),
        }
    }

    pub(super) fn task_name(&self) -> &'static str {
        match self.task {
            Task::UnrelatedBranchNoopUpdate => "unrelated update",
            Task::IntermediateArtifactEdit => "intermediate edit",
        }
    }
}

/// A metric as text; a dash if it does not apply.
pub(super) fn figure(metric: Option<f64>) -> String {
    metric.map_or("-".to_owned(), |metric| format!("{metric:.2}"))
}

impl Report {
    pub(super) fn of(
        terms: Terms,
        trials: Vec<Trial>,
        spots: Option<Spots>,
        drift: Vec<Step>,
        descendants: &BTreeSet<String>,
    ) -> Report {
        let tasks = [Task::UnrelatedBranchNoopUpdate, Task::IntermediateArtifactEdit];
        let means = tasks
            .into_iter()
            .flat_map(|task| Condition::ALL.map(|condition| (task, condition)))
            .map(|(task, condition)| Mean::of(task, condition, &trials))
            .collect();
        let replays = |task| {
            let is_it = move |trial: &&Trial| trial.task == task && trial.condition == Condition::DagReplay;
            trials.iter().filter(is_it).collect::<Vec<_>>()
        };
        let mut checks = unrelated(&replays(Task::UnrelatedBranchNoopUpdate));
        let edits = replays(Task::IntermediateArtifactEdit);
        checks.extend(intermediate(&edits, descendants));
        // A real model takes a time of its own.
        if let Some(spots) = &spots {
            checks.push(makespan(&edits));
            checks.extend(ends(spots));
        }
        checks.extend((!drift.is_empty()).then(|| no_drift(&drift)));
        Report { kind: "experiment", terms, checks, means, trials, spots, drift }
    }
}

/// A check that every trial passes. `told` describes a trial.
fn every(what: &str, trials: &[&Trial], holds: fn(&Trial) -> bool, told: fn(&Trial) -> String) -> Check {
    let wrong = trials.iter().find(|trial| !holds(trial));
    let detail = match wrong {
        None => format!("{} of {}", trials.len(), trials.len()),
        Some(trial) => format!("repeat {}: {}", trial.repeat, told(trial)),
    };
    Check { what: what.to_owned(), holds: wrong.is_none() && !trials.is_empty(), detail }
}

fn is(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

fn unrelated(replays: &[&Trial]) -> Vec<Check> {
    let told = |trial: &Trial| {
        format!(
            "exact {}, stable {}, churn {}, contamination {}",
            trial.final_output_exact_match,
            figure(trial.stable_artifact_hash_preservation),
            figure(trial.unnecessary_churn_rate),
            trial.unrelated_branch_contamination_rate
        )
    };
    let holds = |trial: &Trial| {
        is(trial.final_output_exact_match, 1.0)
            && trial.stable_artifact_hash_preservation.is_some_and(|stable| is(stable, 1.0))
            && trial.unnecessary_churn_rate.is_some_and(|churn| is(churn, 0.0))
            && is(trial.unrelated_branch_contamination_rate, 0.0)
    };
    let calls = |trial: &Trial| format!("{} calls, of {:?}", trial.memo_calls, trial.executed);
    vec![
        every(
            "an unrelated update leaves the memo and all stable artifacts as they were",
            replays,
            holds,
            told,
        ),
        every(
            "an unrelated update makes no call for the memo or above it",
            replays,
            |trial| trial.memo_calls == 0,
            calls,
        ),
    ]
}

fn intermediate(replays: &[&Trial], descendants: &BTreeSet<String>) -> Vec<Check> {
    let told = |trial: &Trial| {
        format!(
            "reflection {}, consistency {}, recall {}, stable {}, unaffected {}, upstream churn {}",
            figure(trial.final_memo_constraint_reflection),
            figure(trial.cross_artifact_consistency_score),
            figure(trial.downstream_propagation_recall),
            figure(trial.stable_artifact_hash_preservation),
            figure(trial.unaffected_artifact_preservation),
            figure(trial.upstream_churn_rate)
        )
    };
    let holds = |trial: &Trial| {
        let whole = [
            trial.final_memo_constraint_reflection,
            trial.cross_artifact_consistency_score,
            trial.downstream_propagation_recall,
            trial.stable_artifact_hash_preservation,
            trial.unaffected_artifact_preservation,
        ];
        whole.iter().all(|metric| metric.is_some_and(|metric| is(metric, 1.0)))
            && trial.upstream_churn_rate.is_some_and(|churn| is(churn, 0.0))
    };
    let wrong = replays.iter().find(|trial| trial.executed != *descendants);
    let detail = match wrong {
        None => format!("{descendants:?}, {0} of {0}", replays.len()),
        Some(trial) => format!("repeat {}: {:?}, not {descendants:?}", trial.repeat, trial.executed),
    };
    vec![
        every("an edited artifact reaches all below it and nothing else", replays, holds, told),
        Check {
            what: "an edited artifact executes exactly its descendants".to_owned(),
            holds: wrong.is_none(),
            detail,
        },
    ]
}

/// The repeat with the least overhead counts: other programs of the machine make a run longer, never shorter.
fn makespan(replays: &[&Trial]) -> Check {
    let beyond = |trial: &Trial| trial.took_ms - trial.path.ms as f64;
    let best = replays.iter().min_by(|one, other| beyond(one).total_cmp(&beyond(other)));
    let holds = best.is_some_and(|trial| {
        let call_ms = trial.path.ms as f64 / trial.path.calls.max(1) as f64;
        beyond(trial) < call_ms
    });
    let detail = best.map_or_else(String::new, |trial| {
        format!(
            "{:.0} ms, {} calls in a row took {} ms of it",
            trial.took_ms, trial.path.calls, trial.path.ms
        )
    });
    let what = "an edit takes the critical path of what it changed, and less than one more call";
    Check { what: what.to_owned(), holds, detail }
}

fn ends(spots: &Spots) -> Vec<Check> {
    let check = |what: &str, holds: bool, spot: &Spot| {
        let detail = format!("{}: executed {:?}, cut off {:?}", spot.what, spot.executed, spot.cut_off);
        Check { what: what.to_owned(), holds, detail }
    };
    let only = |spot: &Spot, name: &str| spot.executed.iter().eq([name]);
    let (cut, field) = (&spots.cut_off, &spots.field);
    let rest = cut.below.iter().filter(|node| *node != "operations");
    let outside = spots.places.iter().find(|spot| !spot.executed.is_subset(&spot.below));
    vec![
        check(
            "a change that comes out equal ends there",
            only(cut, "operations") && cut.cut_off.iter().eq(rest),
            cut,
        ),
        check("a changed field executes what reads the field", only(field, "memo"), field),
        Check {
            what: "no edit executes anything that is not below it".to_owned(),
            holds: outside.is_none(),
            detail: match outside {
                None => format!("{0} of {0} places", spots.places.len()),
                Some(spot) => format!("{}: executed {:?}", spot.what, spot.executed),
            },
        },
    ]
}

fn no_drift(drift: &[Step]) -> Check {
    let replays: Vec<&Step> = drift.iter().filter(|step| step.condition == Condition::DagReplay).collect();
    let wrong = replays.iter().find(|step| !(is(step.consistency, 1.0) && step.same_bytes));
    let last = |condition| {
        let mut steps = drift.iter().filter(|step| step.condition == condition);
        steps.next_back().map_or(0.0, |step| step.consistency)
    };
    Check {
        what: "after every edit the replay has the bytes of a run from scratch".to_owned(),
        holds: wrong.is_none(),
        detail: match wrong {
            None => format!(
                "consistency 1 over {} edits; the loops end at {:.2}",
                replays.len() - 1,
                last(Condition::LoopFinalUpdate)
            ),
            Some(step) => format!("edit {}, {}: {:.2}", step.edit, step.what, step.consistency),
        },
    }
}
