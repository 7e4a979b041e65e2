//! The evaluator: what scores add up to, for each agent and client, how that bends the weight of the client, and whether an agent
//! does worse than it used to.
//!
//! A run's own scores are worked out by the kernel and written down as the run is closed. What is kept here is read from the
//! journal, whoever told of it first: so it is the same on every replay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ostler_kernel::evaluation::{HISTORY_MAX, Scores, degradation};
use ostler_kernel::event::Evaluated;
use ostler_kernel::id::RunId;
use ostler_kernel::port::JournalError;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::evaluations;
use crate::scheduler::Lane;
use crate::services::Services;

pub(crate) enum EvaluatorMessage {
    /// A run of these was closed, or a person has judged it: how well it was done.
    Evaluated { lane: Lane, run: RunId, evaluated: Evaluated },
}

pub(crate) struct Evaluator;

pub(crate) struct EvaluatorState {
    services: Arc<Services>,
    /// The last scores of agents with a name, the oldest first; `None`: nobody has asked the journal yet.
    histories: Option<BTreeMap<Lane, VecDeque<(RunId, Scores)>>>,
}

impl Actor for Evaluator {
    type Msg = EvaluatorMessage;
    type State = EvaluatorState;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        _: ActorRef<EvaluatorMessage>,
        services: Arc<Services>,
    ) -> Result<EvaluatorState, ActorProcessingErr> {
        for row in services.journal.accounts()? {
            services.ledger.read_reputation(row);
        }
        Ok(EvaluatorState { services, histories: None })
    }

    async fn handle(
        &self,
        _: ActorRef<EvaluatorMessage>,
        EvaluatorMessage::Evaluated { lane, run, evaluated }: EvaluatorMessage,
        state: &mut EvaluatorState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        state.services.trip("evaluator");
        if let Some(row) = state.services.journal.account(&lane.client, lane.agent.as_ref())? {
            state.services.ledger.read_reputation(row);
        }
        state.services.scheduling.renew_terms(&state.services, &lane.client);
        state.services.measures.evaluated();
        Ok(state.watch(lane, run, evaluated.scores)?)
    }
}

impl EvaluatorState {
    /// Raises an alarm if an agent with a name does far worse than it used to.
    fn watch(&mut self, lane: Lane, run: RunId, scores: Scores) -> Result<(), JournalError> {
        let Some(agent) = lane.agent.clone() else { return Ok(()) };
        let histories = match &mut self.histories {
            Some(histories) => histories,
            none => none.insert(read(&self.services)?),
        };
        if histories.len() >= self.services.limits.histories && !histories.contains_key(&lane) {
            return Ok(());
        }
        let history = histories.entry(lane).or_default();
        match history.iter_mut().find(|(known, _)| *known == run) {
            // Judged once more.
            Some((_, known)) => *known = scores,
            None => history.push_back((run, scores)),
        }
        while history.len() > HISTORY_MAX + 1 {
            history.pop_front();
        }
        let scores: Vec<Scores> = history.iter().map(|(_, scores)| *scores).collect();
        let domain = self.services.domain_of(&agent);
        let weights = self.services.domains.of(domain.as_deref().unwrap_or_default());
        if let Some(fell) = degradation(&scores, &weights) {
            let (dimension, from, to) = (fell.dimension, fell.from_pm, fell.to_pm);
            tracing::warn!(%agent, %run, %dimension, from, to, "the agent does far worse than it used to");
            self.services.measures.degraded();
        }
        Ok(())
    }
}

/// The last scores of agents with a name, of as many agents as are watched.
fn read(services: &Services) -> Result<BTreeMap<Lane, VecDeque<(RunId, Scores)>>, JournalError> {
    let mut histories: BTreeMap<Lane, VecDeque<(RunId, Scores)>> = BTreeMap::new();
    for row in evaluations::in_order(services.journal.runs(false)?) {
        let (Some(agent), Some(evaluated)) = (row.named_agent(), row.evaluated) else { continue };
        let lane = Lane { client: row.client.clone(), agent: Some(agent.clone()) };
        if histories.len() >= services.limits.histories && !histories.contains_key(&lane) {
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
