//! The measuring points.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram, Recorder};
use ostler_kernel::agent::Telemetry;
use ostler_kernel::gate::Denial;
use ostler_kernel::id::{AgentId, ClientId, PipelineId, RunId};
use ostler_kernel::plan::Kind;
use ostler_kernel::port::Journal;
use ostler_kernel::run::{DiagnosisScore, Run};
use ostler_scheduler::Tier;
use ostler_supervisor::{ChildEvent, Event};

use crate::base::attempt_end::Ended;
use crate::base::keys::BETWEEN;
use crate::base::lock::lock;
use crate::metrics::counted;
use crate::metrics::metric::{self, tier_name};
use crate::metrics::queue_look::QueueLook;
use crate::metrics::shared_recorder::SharedRecorder;
use crate::metrics::tally::Tally;

/// Recorder of a system's metrics; by default there is none.
#[derive(Clone, Default)]
pub struct Measures(Option<Arc<Recording>>);

impl fmt::Debug for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Measures(on)" } else { "Measures(off)" })
    }
}

struct Recording {
    recorder: SharedRecorder,
    dispatched: [Counter; 2],
    waits: [Histogram; 2],
    gate_seconds: Histogram,
    tally: Mutex<Tally>,
}

const NO_CODE: &str = "none";

/// Children of the root; the ones of the pool share one name.
const CHILDREN: [&str; 7] = ["registry", "evaluator", "scheduler", "pipelines", "pool", AGENT, STAGE];
const AGENT: &str = "agent";
const STAGE: &str = "stage";

impl Measures {
    /// Records with `recorder`, which belongs to one system.
    pub fn recording(recorder: SharedRecorder) -> Measures {
        let tiers = [Tier::Contracted, Tier::Marketplace].map(tier_name);
        let dispatched = tiers.map(|tier| metric::DISPATCHED_JOBS.counter(&recorder, [tier.into()]));
        let waits = tiers.map(|tier| metric::WAIT_SECONDS.histogram(&recorder, [tier.into()]));
        let gate_seconds = metric::GATE_SECONDS.histogram(&recorder, []);
        // Counters that may stay unused start at 0.
        for child in CHILDREN {
            metric::RESTARTS.counter(&recorder, [child.into()]).increment(0);
            metric::UNKILLABLE.counter(&recorder, [child.into()]).increment(0);
        }
        for event in Telemetry::ALL {
            metric::AGENT_EVENTS.counter(&recorder, [event.as_str().into()]).increment(0);
        }
        counted::begin(&recorder);
        for result in ["exported", "dropped", "failed"] {
            metric::SPANS.counter(&recorder, [result.into()]).increment(0);
        }
        metric::GATE_VERDICTS.counter(&recorder, ["allowed".into(), NO_CODE.into()]).increment(0);
        metric::EVALUATIONS.counter(&recorder, []).increment(0);
        metric::DEGRADATIONS.counter(&recorder, []).increment(0);
        let tally = Mutex::default();
        Measures(Some(Arc::new(Recording { recorder, dispatched, waits, gate_seconds, tally })))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn now(&self) -> Option<Instant> {
        self.is_on().then(Instant::now)
    }

    pub(crate) fn count(&self, journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
        match &self.0 {
            Some(recording) => counted::journal(journal, Arc::clone(&recording.recorder)),
            None => journal,
        }
    }

    /// Counts a dispatch; `since`: start of the wait.
    pub(crate) fn dispatched(&self, tier: Tier, since: Option<Instant>) {
        let Some(recording) = &self.0 else { return };
        recording.dispatched[tier as usize].increment(1);
        if let Some(since) = since {
            recording.waits[tier as usize].record(since.elapsed());
        }
    }

    pub(crate) fn tell(&self, event: Telemetry, agent: Option<&AgentId>, run: Option<RunId>) {
        let (agent, run) = (agent.map(tracing::field::display), run.map(tracing::field::display));
        tracing::debug!(target: "ostler::agent", event = event.as_str(), agent, run);
        if let Some(recording) = &self.0 {
            metric::AGENT_EVENTS.counter(&recording.recorder, [event.as_str().into()]).increment(1);
        }
    }

    pub(crate) fn attempted(&self, client: &ClientId, kind: Kind, ended: &Ended) {
        let Some(recording) = &self.0 else { return };
        let seconds = metric::ATTEMPT_SECONDS.histogram(&recording.recorder, [kind.as_str().into()]);
        seconds.record(Duration::from_millis(ended.duration_ms));
        lock(&recording.tally).spend(client, kind, ended.cost);
    }

    /// Counts the tokens of calls that a recorded result made unnecessary.
    pub(crate) fn spared(&self, tokens: u64) {
        if let Some(recording) = &self.0 {
            metric::TOKENS_AVOIDED.counter(&recording.recorder, []).increment(tokens);
        }
    }

    pub(crate) fn evaluated(&self) {
        if let Some(recording) = &self.0 {
            metric::EVALUATIONS.counter(&recording.recorder, []).increment(1);
        }
    }

    /// Counts the diagnoses of a run that is closed.
    pub(crate) fn diagnosed(&self, run: &Run) {
        let Some(recording) = &self.0 else { return };
        for (category, DiagnosisScore { made, tried, mended, .. }) in run.diagnosis_scores() {
            let results =
                [("mended", mended), ("failed", tried - mended), ("untried", made.saturating_sub(tried))];
            for (result, count) in results {
                let labels = [category.as_str().into(), result.into()];
                metric::DIAGNOSES.counter(&recording.recorder, labels).increment(count.into());
            }
        }
    }

    pub(crate) fn degraded(&self) {
        if let Some(recording) = &self.0 {
            metric::DEGRADATIONS.counter(&recording.recorder, []).increment(1);
        }
    }

    pub(crate) fn look_at_market(
        &self,
        into: &dyn Recorder,
        reputations: &[(String, u16)],
        jobs: &[(&'static str, usize)],
    ) {
        if !self.is_on() {
            return;
        }
        for (domain, pm) in reputations {
            metric::REPUTATION.gauge(into, [domain.clone().into()]).set(f64::from(*pm) / 1_000.0);
        }
        for (stage, count) in jobs {
            metric::MARKET_JOBS.gauge(into, [(*stage).into()]).set(*count as f64);
        }
    }

    pub(crate) fn served(&self, served: &[(ClientId, u64)]) {
        if let Some(recording) = &self.0 {
            lock(&recording.tally).serve(served);
        }
    }

    pub(crate) fn published(&self, pipeline: &PipelineId) -> Counter {
        let Some(recording) = &self.0 else { return Counter::noop() };
        let counter =
            metric::PIPELINE_EVENTS.counter(&recording.recorder, [pipeline.as_str().to_owned().into()]);
        counter.increment(0);
        counter
    }

    /// Counts a decision of the gate that began at `since`.
    pub(crate) fn gated<T>(&self, since: Option<Instant>, verdict: Result<&T, &Denial>) {
        let (Some(recording), Some(since)) = (&self.0, since) else { return };
        recording.gate_seconds.record(since.elapsed());
        let (verdict, code) = match verdict {
            Ok(_) => ("allowed", NO_CODE),
            Err(denial) => ("denied", denial.code.as_str()),
        };
        metric::GATE_VERDICTS.counter(&recording.recorder, [verdict.into(), code.into()]).increment(1);
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        let counted = match event.kind {
            ChildEvent::Restarted { .. } => metric::RESTARTS,
            ChildEvent::Unkillable => metric::UNKILLABLE,
            _ => return,
        };
        let Some(recording) = &self.0 else { return };
        let known = CHILDREN.into_iter().find(|child| event.tree == "/" && event.id.as_str() == *child);
        let child = known.unwrap_or(if event.id.as_str().contains(BETWEEN) { STAGE } else { AGENT });
        counted.counter(&recording.recorder, [child.into()]).increment(1);
    }

    pub(crate) fn look(
        &self,
        into: &dyn Recorder,
        queue: Option<QueueLook>,
        agents: &[(&'static str, usize)],
        stages: &[StageLook],
    ) {
        let Some(recording) = &self.0 else { return };
        for stage in stages {
            let labels = || [stage.pipeline.clone().into(), stage.stage.clone().into()];
            metric::PIPELINE_LAG.gauge(into, labels()).set(stage.lag as f64);
            metric::PIPELINE_PARKED.gauge(into, labels()).set(stage.parked_total as f64);
        }
        for (state, count) in agents {
            metric::AGENTS.gauge(into, [(*state).into()]).set(*count as f64);
        }
        let mut tally = lock(&recording.tally);
        if let Some(queue) = queue {
            queue.tell(into, &tally);
        }
        tally.tell(into);
    }
}

pub(crate) struct StageLook {
    pub(crate) pipeline: String,
    pub(crate) stage: String,
    pub(crate) lag: u64,
    pub(crate) parked_total: u64,
}
