//! Every metric: name, type, unit, labels and help text. No name is written elsewhere.
//!
//! Names and units follow Prometheus: base units, and `_total` for counters. Label values are closed sets, the busiest
//! clients, configured models, or pipelines (at most 256) and their stages; never a run, an agent or a node.

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, SharedString, Unit};
use ostler_scheduler::Tier;

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    /// Only grows.
    Counter,
    /// A present value.
    Gauge,
    /// Counts values up to each of these bounds.
    Histogram(&'static [f64]),
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Name in Prometheus.
    pub name: &'static str,
    /// Type.
    pub kind: Type,
    /// Unit.
    pub unit: Unit,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

/// From 0.1 ms to 90 s.
const SECONDS: &[f64] = &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 90.0];

/// From 1 µs to 0.1 s.
const SHORT_SECONDS: &[f64] = &[0.000_001, 0.000_005, 0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.01, 0.1];

/// From 10 ms to ten minutes.
const MODEL_SECONDS_BOUNDS: &[f64] =
    &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Type::Counter, unit: Unit::Count, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Type::Gauge, unit: Unit::Count, labels, help }
}

const fn seconds(
    name: &'static str,
    bounds: &'static [f64],
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Type::Histogram(bounds), unit: Unit::Seconds, labels, help }
}

/// Jobs that wait for a slot.
pub const QUEUED_JOBS: Metric =
    gauge("ostler_scheduler_queued_jobs", &["tier"], "Jobs (ready nodes) that wait for a slot.");
/// Dispatched jobs.
pub const DISPATCHED_JOBS: Metric = counter(
    "ostler_scheduler_dispatched_jobs_total",
    &["tier"],
    "Jobs (attempts of nodes) that were given a slot.",
);
/// Waiting time for a slot.
pub const WAIT_SECONDS: Metric = seconds(
    "ostler_scheduler_wait_seconds",
    SECONDS,
    &["tier"],
    "Time from when a job was queued until it was given a slot.",
);
/// Service of clients.
pub const SERVICE: Metric = counter(
    "ostler_scheduler_service_total",
    &["client"],
    "Credits of the jobs of a client that have ended. The 50 busiest clients have their names; client=\"(other)\" is the rest.",
);
/// Lag of clients.
pub const LAG: Metric = gauge(
    "ostler_scheduler_lag",
    &["client"],
    "Credits that a client with work is behind its share (positive) or ahead of it (negative); 0 for one that wants nothing. \
     client=\"(other)\" is whoever of the rest is farthest from 0.",
);
/// Telemetry of agents.
pub const AGENT_EVENTS: Metric = counter(
    "ostler_agent_events_total",
    &["event"],
    "What agents told of themselves, such as job_assigned, step_failed or approval_requested.",
);
/// Fairness of shares.
pub const FAIRNESS_JAIN: Metric = gauge(
    "ostler_scheduler_fairness_jain",
    &[],
    "Jain's index of what clients that had work at the last scrape, and still have, were charged for their weight since: 1 is \
     even, 1/n is all for one of n. Of the less even tier; 1 if nobody competes.",
);
/// Spread of virtual times.
pub const VRUNTIME_SPREAD: Metric = gauge(
    "ostler_scheduler_vruntime_spread",
    &["tier"],
    "Greatest less least virtual time of the clients with work, in credits for a weight of 1.",
);
/// Service owed to the marketplace.
pub const MARKETPLACE_OWED: Metric = gauge(
    "ostler_scheduler_marketplace_owed",
    &[],
    "Credits that the marketplace tier is owed of its guaranteed share; negative if it is ahead.",
);
/// Clients without credits.
pub const PARKED_CLIENTS: Metric =
    gauge("ostler_scheduler_parked_clients", &[], "Clients whose jobs wait because their credit is used up.");
/// Slots.
pub const SLOTS: Metric = gauge(
    "ostler_scheduler_slots",
    &["state"],
    "Slots of the system, by whether a job holds them: taken or free.",
);
/// Closed runs.
pub const RUNS: Metric = counter("ostler_runs_total", &["outcome"], "Runs that came to their end, by how.");
/// Transitions of nodes.
pub const NODE_TRANSITIONS: Metric =
    counter("ostler_node_transitions_total", &["to", "reason"], "Changes of the state of nodes.");
/// Decisions on reuse.
pub const NODE_REUSE: Metric = counter(
    "ostler_node_reuse_total",
    &["result"],
    "Nodes of runs that reuse results: reused, cut_off, revalidated or edited, without an execution; recomputed after a change; \
     executed, as the work is new or never reused.",
);
/// Executions that reuse made unnecessary.
pub const EFFECTS_AVOIDED: Metric = counter(
    "ostler_effects_avoided_total",
    &[],
    "Calls of tools and models that were not made, because a recorded result stood in.",
);
/// Tokens that reuse made unnecessary.
pub const TOKENS_AVOIDED: Metric = counter(
    "ostler_tokens_avoided_total",
    &[],
    "Tokens of prompts and answers of the calls that gave the recorded results which stood in for calls of models.",
);
/// Duration of attempts.
pub const ATTEMPT_SECONDS: Metric = seconds(
    "ostler_attempt_seconds",
    SECONDS,
    &["kind"],
    "How long attempts took that held a slot, by the kind of their node.",
);
/// Recovery from failures.
pub const RECOVERY: Metric = counter(
    "ostler_recovery_total",
    &["level", "result"],
    "Failures that a level of recovery was tried for (retry, patch, replan), and those that it could not help (exhausted).",
);
/// Calls of models.
pub const MODEL_CALLS: Metric = counter(
    "ostler_model_calls_total",
    &["model", "finish"],
    "Calls of configured models that ended, by the reason of the model to stop or the class of the error.",
);
/// Tokens of models.
pub const MODEL_TOKENS: Metric = counter(
    "ostler_model_tokens_total",
    &["model", "direction"],
    "Tokens of prompts (input), of them read from the provider's cache (cached), and of answers (output).",
);
/// Duration of model calls.
pub const MODEL_SECONDS: Metric = seconds(
    "ostler_model_seconds",
    MODEL_SECONDS_BOUNDS,
    &["model"],
    "Time from the request to a model until the call ended.",
);
/// Time to the first piece of an answer.
pub const MODEL_FIRST_PIECE_SECONDS: Metric = seconds(
    "ostler_model_first_piece_seconds",
    MODEL_SECONDS_BOUNDS,
    &["model"],
    "Time from the request to a model until the first piece of its answer.",
);
/// Price of model calls.
pub const MODEL_NANO_USD: Metric = counter(
    "ostler_model_nano_usd_total",
    &["model"],
    "Price of the calls of a model with a known price, in billionths of a US dollar: divide by 1e9.",
);
/// Verdicts of models on results.
pub const MODEL_VERDICTS: Metric = counter(
    "ostler_model_verdicts_total",
    &["model", "verdict"],
    "Verdicts of configured models on results, by rules of contracts: holds or broken.",
);
/// Verdicts of the gate.
pub const GATE_VERDICTS: Metric = counter(
    "ostler_gate_verdicts_total",
    &["verdict", "code"],
    "Calls of tools that the gate decided about; code says why one was denied.",
);
/// Decision time of the gate.
pub const GATE_SECONDS: Metric =
    seconds("ostler_gate_seconds", SHORT_SECONDS, &[], "How long the gate took to decide about a call.");
/// Cost of attempts.
pub const CREDITS: Metric = counter(
    "ostler_credits_total",
    &["client", "kind"],
    "Credits that attempts cost, by client and kind of node. The 50 busiest clients have their names; client=\"(other)\" is \
     the rest.",
);
/// Time from append to durability.
pub const APPEND_SECONDS: Metric = seconds(
    "ostler_journal_append_seconds",
    SECONDS,
    &[],
    "Time from when records were appended until they were durable.",
);
/// Records.
pub const RECORDS: Metric = counter("ostler_journal_records_total", &[], "Records that were appended.");
/// Syncs.
pub const FSYNCS: Metric =
    counter("ostler_journal_fsyncs_total", &[], "Times that the journal waited for the disk.");
/// Appends in one sync.
pub const GROUP_SIZE: Metric = Metric {
    name: "ostler_journal_group_size",
    kind: Type::Histogram(SIZES),
    unit: Unit::Count,
    labels: &[],
    help: "Appends that were made durable together.",
};
/// Restarts.
pub const RESTARTS: Metric = counter(
    "ostler_supervisor_restarts_total",
    &["child"],
    "Actors that were started again after a crash: registry, evaluator, scheduler, pipelines, pool, agent, stage.",
);
/// Actors that a kill did not end.
pub const UNKILLABLE: Metric = counter(
    "ostler_supervisor_unkillable_total",
    &["child"],
    "Actors that still ran five seconds after they were killed, and were left behind: some code of them never yields.",
);
/// Events of pipelines.
pub const PIPELINE_EVENTS: Metric =
    counter("ostler_pipeline_events_total", &["pipeline"], "Events that were published in a pipeline.");
/// Lag of stages.
pub const PIPELINE_LAG: Metric = gauge(
    "ostler_pipeline_lag_events",
    &["pipeline", "stage"],
    "Events that a stage is still to hear. A stage that nobody deals with falls behind until its events are gone.",
);
/// Dead-lettered events.
pub const PIPELINE_PARKED: Metric = gauge(
    "ostler_pipeline_parked_events",
    &["pipeline", "stage"],
    "Events that a stage failed at three times, and that were parked.",
);
/// Agents.
pub const AGENTS: Metric = gauge(
    "ostler_agents",
    &["state"],
    "Agents: row (without an actor), starting, live, stopping, quarantined.",
);

/// Evaluations.
pub const EVALUATIONS: Metric = counter(
    "ostler_evaluations_total",
    &[],
    "Times that a run was evaluated: by its records as it was closed, or by a person since.",
);
/// Diagnoses of failures.
pub const DIAGNOSES: Metric = counter(
    "ostler_diagnoses_total",
    &["category", "result"],
    "Diagnoses of failures in runs that came to their end: the level that they propose mended the failure, did not, or was not tried.",
);
/// Regressions of agents.
pub const DEGRADATIONS: Metric = counter(
    "ostler_degradations_total",
    &[],
    "Times that a run of an agent with a name was far worse than those before it.",
);
/// Reputations.
pub const REPUTATION: Metric = gauge(
    "ostler_reputation",
    &["domain"],
    "Mean reputation of the agents of a domain that were evaluated, each by the number of its runs: 0 to 1.",
);
/// Market jobs.
pub const MARKET_JOBS: Metric = gauge(
    "ostler_market_jobs",
    &["stage"],
    "Jobs of the market, by the stage they are at: job, proposal, contract, decomposition, execution, evaluation, failed.",
);

/// Spans.
pub const SPANS: Metric = counter(
    "ostler_telemetry_spans_total",
    &["result"],
    "Spans for OpenTelemetry: exported; dropped, because a queue was full; failed, because the collector did not take them.",
);

/// Every metric.
pub const ALL: [Metric; 43] = [
    QUEUED_JOBS,
    DISPATCHED_JOBS,
    WAIT_SECONDS,
    SERVICE,
    LAG,
    AGENT_EVENTS,
    FAIRNESS_JAIN,
    VRUNTIME_SPREAD,
    MARKETPLACE_OWED,
    PARKED_CLIENTS,
    SLOTS,
    RUNS,
    NODE_TRANSITIONS,
    NODE_REUSE,
    EFFECTS_AVOIDED,
    TOKENS_AVOIDED,
    ATTEMPT_SECONDS,
    RECOVERY,
    MODEL_CALLS,
    MODEL_TOKENS,
    MODEL_SECONDS,
    MODEL_FIRST_PIECE_SECONDS,
    MODEL_NANO_USD,
    MODEL_VERDICTS,
    GATE_VERDICTS,
    GATE_SECONDS,
    CREDITS,
    APPEND_SECONDS,
    RECORDS,
    FSYNCS,
    GROUP_SIZE,
    RESTARTS,
    UNKILLABLE,
    PIPELINE_EVENTS,
    PIPELINE_LAG,
    PIPELINE_PARKED,
    AGENTS,
    EVALUATIONS,
    DIAGNOSES,
    DEGRADATIONS,
    REPUTATION,
    MARKET_JOBS,
    SPANS,
];

const METADATA: Metadata<'static> = Metadata::new("ostler", Level::INFO, None);

impl Metric {
    /// Registers the metric at a recorder.
    pub fn describe(&self, recorder: &dyn Recorder) {
        let (name, unit, help) = (self.name.into(), Some(self.unit), self.help.into());
        match self.kind {
            Type::Counter => recorder.describe_counter(name, unit, help),
            Type::Gauge => recorder.describe_gauge(name, unit, help),
            Type::Histogram(_) => recorder.describe_histogram(name, unit, help),
        }
    }

    /// The counter with the label values, in order.
    pub fn counter<const N: usize>(&self, recorder: &dyn Recorder, values: [SharedString; N]) -> Counter {
        recorder.register_counter(&self.key(values), &METADATA)
    }

    /// The gauge with the label values, in order.
    pub fn gauge<const N: usize>(&self, recorder: &dyn Recorder, values: [SharedString; N]) -> Gauge {
        recorder.register_gauge(&self.key(values), &METADATA)
    }

    /// The histogram with the label values, in order.
    pub fn histogram<const N: usize>(&self, recorder: &dyn Recorder, values: [SharedString; N]) -> Histogram {
        recorder.register_histogram(&self.key(values), &METADATA)
    }

    fn key<const N: usize>(&self, values: [SharedString; N]) -> Key {
        debug_assert_eq!(N, self.labels.len(), "{}", self.name);
        let labels = self.labels.iter().zip(values).map(|(label, value)| Label::new(*label, value));
        Key::from_parts(self.name, labels.collect::<Vec<_>>())
    }
}

pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Contracted => "contracted",
        Tier::Marketplace => "marketplace",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_as_prometheus_wants_them() {
        let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        for Metric { name, kind, unit, labels, help } in ALL {
            assert!(name.starts_with("ostler_"), "{name}");
            assert_eq!(name.ends_with("_total"), kind == Type::Counter, "{name}");
            assert_eq!(name.ends_with("_seconds"), unit == Unit::Seconds, "{name}");
            assert!(help.ends_with('.') && !help.contains("  "), "{name}: {help}");
            let is_bounded = |label: &&str| !["run", "agent", "node"].contains(label);
            assert!(labels.iter().all(is_bounded), "{name}");
            if let Type::Histogram(bounds) = kind {
                assert!(bounds.is_sorted() && bounds.len() <= 16, "{name}");
            }
        }
    }
}
