//! The evaluator: adds up scores by agent and client, bends the weight of the client, and detects regressions.
//!
//! The kernel computes the scores of a run, which are recorded when the run closes. Everything here is read from the
//! journal, so the order of messages does not matter and every replay gives the same.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ostler_kernel::evaluation::{HISTORY_MAX, Scores, detect_regression};
use ostler_kernel::event::Evaluated;
use ostler_kernel::id::RunId;
use ostler_kernel::port::JournalError;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::base::keys::FairShareKey;
use crate::messages::evaluator::EvaluatorMessage;
use crate::metrics::Measures;
use crate::scheduler::SchedulerHandle;
use crate::state::evaluation::{Evaluation, in_order};
use crate::state::ledger::Ledger;
use crate::storage::journal_client::JournalClient;

pub(crate) struct Evaluator;

#[derive(Clone)]
pub(crate) struct EvaluatorArguments {
    pub(crate) journal: Arc<JournalClient>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) evaluation: Arc<Evaluation>,
    pub(crate) scheduler: Arc<SchedulerHandle>,
    pub(crate) measures: Measures,
    pub(crate) histories_max: usize,
}

pub(crate) struct EvaluatorState {
    this: EvaluatorArguments,
    /// Last scores of named agents, oldest first; `None` before the journal was read.
    histories: Option<BTreeMap<FairShareKey, VecDeque<(RunId, Scores)>>>,
}

impl Actor for Evaluator {
    type Msg = EvaluatorMessage;
    type State = EvaluatorState;
    type Arguments = EvaluatorArguments;

    async fn pre_start(
        &self,
        _: ActorRef<EvaluatorMessage>,
        this: EvaluatorArguments,
    ) -> Result<EvaluatorState, ActorProcessingErr> {
        for row in this.journal.accounts()? {
            this.ledger.read_reputation(row);
        }
        Ok(EvaluatorState { this, histories: None })
    }

    async fn handle(
        &self,
        _: ActorRef<EvaluatorMessage>,
        EvaluatorMessage::Evaluated { lane, run, is_verdict }: EvaluatorMessage,
        state: &mut EvaluatorState,
    ) -> Result<(), ActorProcessingErr> {
        state.this.journal.status.faults.inject_panic("evaluator");
        if let Some(row) = state.this.journal.account(&lane.client, lane.agent.as_ref())? {
            state.this.ledger.read_reputation(row);
        }
        state.this.scheduler.renew_terms(&lane.client);
        state.this.measures.evaluated();
        Ok(state.watch(lane, run, is_verdict)?)
    }
}

impl EvaluatorState {
    /// Reports a regression of a named agent when a run is closed or judged.
    fn watch(&mut self, lane: FairShareKey, run: RunId, is_verdict: bool) -> Result<(), JournalError> {
        let Some(agent) = lane.agent.clone() else { return Ok(()) };
        let evaluated = self.this.journal.run(run)?.and_then(|row| row.evaluated);
        let Some(Evaluated { scores, .. }) = evaluated else { return Ok(()) };
        let histories = match &mut self.histories {
            Some(histories) => histories,
            none => none.insert(read(&self.this)?),
        };
        if histories.len() >= self.this.histories_max && !histories.contains_key(&lane) {
            return Ok(());
        }
        let history = histories.entry(lane).or_default();
        match history.iter_mut().find(|(known, _)| *known == run) {
            // A further verdict on the same run.
            Some((_, known)) => *known = scores,
            // The run has left the history, or its end is reported next.
            None if is_verdict => return Ok(()),
            None => history.push_back((run, scores)),
        }
        if history.back().is_none_or(|(newest, _)| *newest != run) {
            return Ok(());
        }
        while history.len() > HISTORY_MAX + 1 {
            history.pop_front();
        }
        let scores: Vec<Scores> = history.iter().map(|(_, scores)| *scores).collect();
        let domain = self.this.evaluation.domain_of(&agent);
        let weights = self.this.evaluation.domains.of(domain.as_deref().unwrap_or_default());
        if let Some(fell) = detect_regression(&scores, &weights) {
            let (dimension, from, to) = (fell.dimension, fell.from_pm, fell.to_pm);
            tracing::warn!(%agent, %run, %dimension, from, to, "the agent does far worse than it used to");
            self.this.measures.degraded();
        }
        Ok(())
    }
}

/// Reads the last scores of named agents, up to the limit.
fn read(
    this: &EvaluatorArguments,
) -> Result<BTreeMap<FairShareKey, VecDeque<(RunId, Scores)>>, JournalError> {
    let mut histories: BTreeMap<FairShareKey, VecDeque<(RunId, Scores)>> = BTreeMap::new();
    for row in in_order(this.journal.runs(false)?) {
        let (Some(agent), Some(evaluated)) = (row.named_agent(), row.evaluated) else { continue };
        let lane = FairShareKey { client: row.client.clone(), agent: Some(agent.clone()) };
        if histories.len() >= this.histories_max && !histories.contains_key(&lane) {
            continue;
        }
        let history = histories.entry(lane).or_default();
        history.push_back((row.run, evaluated.scores));
        if history.len() > HISTORY_MAX + 1 {
            history.pop_front();
        }
    }
    Ok(histories)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ostler_kernel::evaluation::Verdict;
    use ostler_kernel::event::{Event, RunOpened};
    use ostler_kernel::gate::GatePolicy;
    use ostler_kernel::json::Json;
    use ostler_kernel::port::{Seq, StreamBatch, StreamId};
    use ostler_kernel::run::RunOutcome;
    use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};

    use super::*;
    use crate::metrics::Seen;
    use crate::{Measures, System, SystemConfig};

    /// One run more than the history keeps, so that the first has left it by the last.
    const RUNS: u128 = HISTORY_MAX as u128 + 2;

    fn run(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    fn lane() -> FairShareKey {
        FairShareKey { client: "acme".into(), agent: Some("worker".into()) }
    }

    fn all(score: u16) -> Evaluated {
        let some = Some(score);
        let (quality, adherence) = (some, some);
        let (speed, cost, errors, revisions) = (score, score, score, score);
        let scores = Scores { quality, adherence, speed, cost, errors, revisions };
        Evaluated { scores, composite: score }
    }

    struct World {
        state: EvaluatorState,
        seen: Seen,
        verdicts: u64,
    }

    impl World {
        /// An evaluator after a full history of good runs.
        async fn of_good_runs() -> World {
            let seen = Seen::default();
            let config = SystemConfig {
                journal: Arc::new(MemoryJournal::default()),
                artifacts: Arc::new(MemoryArtifacts::default()),
                output: Arc::new(MemoryOutput::default()),
                writes: Arc::new(WriteCounts::default()),
                tools: Vec::new(),
                gate: GatePolicy::default(),
                slots: 1,
                run_slots: 1,
                drain: Duration::ZERO,
                clients: Vec::new(),
                models: Default::default(),
                measures: Measures::recording(Arc::new(seen.clone())),
                evaluation: Default::default(),
                planner: Arc::new(ostler_kernel::run::StaticPlanner),
                diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
            };
            let system = System::start(config).await.unwrap();
            let this = crate::api::tree::evaluator_arguments(&system.services);
            let state = EvaluatorState { this, histories: None };
            let mut world = World { state, seen, verdicts: 0 };
            for number in 1..=RUNS {
                world.close(number);
                world.state.watch(lane(), run(number), false).unwrap();
            }
            world
        }

        fn append(&self, stream: StreamId, expected: u64, at_ms: i64, events: Vec<Event>) {
            let batch = StreamBatch { stream, expected: Seq(expected), at_ms, events };
            self.state.this.journal.append(vec![batch]).unwrap();
        }

        fn close(&self, number: u128) {
            let opened = RunOpened {
                run: run(number),
                client: lane().client,
                agent: "worker".into(),
                plan: Json::null(),
                intent: 1,
                scope: "default".to_owned(),
                workspace: "/".to_owned(),
                policy_epoch: 1,
                seed: 1,
            };
            let closed = Event::RunClosed { outcome: RunOutcome::Succeeded };
            let events = vec![Event::RunOpened(opened.into()), Event::Evaluated(all(900)), closed];
            self.append(StreamId::run(&lane().client, run(number)), 0, number as i64, events);
        }

        fn judge(&mut self, number: u128, score: u16) {
            let (quality, evaluated) = (Some(score), all(score));
            let (by, note) = ("pat".to_owned(), String::new());
            let (run, agent) = (run(number), lane().agent);
            let verdict = Verdict { run, agent, quality, adherence: None, evaluated, by, note };
            let told = vec![Event::Verdict(Box::new(verdict))];
            self.append(StreamId::client(&lane().client), self.verdicts, 1_000, told);
            self.verdicts += 1;
            self.state.watch(lane(), run, true).unwrap();
        }

        #[track_caller]
        fn check(&self, alarms: f64) {
            assert_eq!(self.seen.value("ostler_degradations_total"), Some(alarms));
            assert_eq!(self.state.histories, Some(read(&self.state.this).unwrap()), "as after a restart");
        }
    }

    #[tokio::test]
    async fn a_verdict_on_a_run_that_left_the_history_is_no_newer_score() {
        let mut world = World::of_good_runs().await;
        world.judge(1, 0);
        world.check(0.0);
    }

    #[tokio::test]
    async fn a_verdict_raises_the_alarm_about_the_last_run_alone() {
        let mut world = World::of_good_runs().await;
        world.judge(RUNS, 0);
        world.check(1.0);
        world.judge(RUNS - 1, 800);
        world.check(1.0);
    }

    #[tokio::test]
    async fn a_verdict_that_is_heard_of_before_the_end_of_its_run_counts() {
        let mut world = World::of_good_runs().await;
        world.close(RUNS + 1);
        world.judge(RUNS + 1, 0);
        world.state.watch(lane(), run(RUNS + 1), false).unwrap();
        world.check(1.0);
    }
}
