//! Evaluations of runs and agents, and verdicts of people.

use std::collections::BTreeMap;

use ostler_kernel::evaluation::{
    Appraised, Composite, DOMAIN_DEFAULT, Dimension, Domains, HISTORY_MAX, Neighbor, Regression, Reputation,
    Scores, Standard, Verdict, check_pm, detect_regression, mean, nearest,
};
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks};
use ostler_kernel::port::{JournalError, RunRow, RunRowStatus, StreamId};

use crate::api::system::System;
use crate::base::error::RunError;
use crate::messages::answer::Answer;
use crate::messages::registry::RegistryMessage;
use crate::messages::verdict::{EvaluationError, Said, VerdictRequest};
use crate::state::evaluation::{in_order, verdicts};
use crate::storage::run_reader;

/// Evaluation of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvaluation {
    /// The run.
    pub row: RunRow,
    /// The standard that the evaluation used.
    pub appraised: Appraised,
    /// One score for all dimensions by those weights; `None`: not evaluated.
    pub composite: Option<Composite>,
    /// Verdicts with their times, oldest first.
    pub verdicts: Vec<(Ticks, Verdict)>,
}

/// Evaluation of an agent over its kept runs.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvaluation {
    /// The client that pays.
    pub client: ClientId,
    /// The agent; `None`: all unnamed agents of the client.
    pub agent: Option<AgentId>,
    /// The domain.
    pub domain: String,
    /// The reputation.
    pub reputation: Reputation,
    /// Mean of its last scores; `None`: no kept run was evaluated.
    pub scores: Option<Scores>,
    /// One score for that mean, by the weights of the domain.
    pub composite: Option<Composite>,
    /// Closed runs.
    pub runs: u64,
    /// Closed runs that needed no person.
    pub alone: u64,
    /// The last run was much worse than usual.
    pub degradation: Option<Regression>,
}

impl AgentEvaluation {
    /// Share of closed runs that needed no person, in thousandths; `None`: no closed run.
    pub fn zero_intervention_pm(&self) -> Option<u16> {
        (self.runs > 0).then(|| (self.alone * 1_000 / self.runs) as u16)
    }
}

#[derive(Default)]
struct Tallied {
    history: Vec<Scores>,
    runs: u64,
    alone: u64,
}

impl System {
    /// The evaluation of a run, durable on return.
    ///
    /// # Errors
    ///
    /// The run is unknown, or its records cannot be read.
    pub async fn evaluation(&self, run: RunId) -> Result<RunEvaluation, RunError> {
        let row = self.row(run)?;
        if let RunRowStatus::Quarantined(why) = row.status {
            return Err(RunError::Quarantined(why));
        }
        let appraised = self.appraised(&row)?;
        let verdicts = verdicts(&**self.services.journal, &row)?;
        self.services.journal.durable(row.position).await?;
        let composite = row.evaluated.and_then(|it| appraised.weights.composite(&it.scores));
        Ok(RunEvaluation { row, appraised, composite, verdicts })
    }

    /// The standard that the evaluation of a closed run used.
    fn appraised(&self, row: &RunRow) -> Result<Appraised, JournalError> {
        let mut found = None;
        let stream = StreamId::run(&row.client, row.run);
        run_reader::each(&**self.services.journal, stream, None, |record| -> Result<(), JournalError> {
            if let Event::Appraised(appraised) = &record.event {
                found = Some((**appraised).clone());
            }
            Ok(())
        })?;
        Ok(found.unwrap_or_else(|| Appraised::by(&Standard::default(), &Domains::default(), None)))
    }

    /// Records a person's verdict on a closed run: one more score of its agent, unless it repeats the last verdict.
    /// Durable on return; dropping the future may or may not have taken effect, and a repetition is harmless.
    ///
    /// # Errors
    ///
    /// [`EvaluationError`]; nothing has changed then.
    pub async fn judge(&self, run: RunId, request: VerdictRequest) -> Result<(), EvaluationError> {
        for (dimension, pm) in
            [(Dimension::Quality, request.quality_pm), (Dimension::Adherence, request.adherence_pm)]
        {
            pm.map(|pm| check_pm(dimension, pm)).transpose()?;
        }
        if request.quality_pm.is_none() && request.adherence_pm.is_none() {
            return Err(EvaluationError::Nothing);
        }
        Answer::approve().by(request.by.as_str()).note(request.note.as_str()).check()?;
        let row = self.row(run)?;
        match &row.status {
            RunRowStatus::Closed(_) => {}
            RunRowStatus::Quarantined(why) => return Err(RunError::Quarantined(why.clone()).into()),
            RunRowStatus::Open | RunRowStatus::Parked(_) => return Err(EvaluationError::NotOver(run)),
        }
        let said = Box::new(Said { request, weights: self.appraised(&row)?.weights });
        let judged = self.ask_registry(|reply| RegistryMessage::Judge { row, said, reply }).await;
        let position = judged.ok_or(RunError::Restarting)??;
        Ok(self.services.journal.durable(position).await?)
    }

    /// Evaluations of all agents with kept runs or a reputation, by client and name.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn evaluations(&self) -> Result<Vec<AgentEvaluation>, RunError> {
        let services = &self.services;
        let mut tallied: BTreeMap<(ClientId, Option<AgentId>), Tallied> = BTreeMap::new();
        for row in services.journal.accounts()? {
            if row.reputation.scores() > 0 {
                tallied.entry((row.client, row.agent)).or_default();
            }
        }
        for row in in_order(services.journal.runs(false)?) {
            let entry = tallied.entry((row.client.clone(), row.named_agent().cloned())).or_default();
            entry.runs += 1;
            entry.alone += u64::from(row.acts == 0);
            entry.history.extend(row.evaluated.map(|evaluated| evaluated.scores));
        }
        let told = tallied.into_iter().map(|((client, agent), Tallied { history, runs, alone })| {
            let domain = agent.as_ref().and_then(|agent| services.evaluation.domain_of(agent));
            let domain = domain.unwrap_or_else(|| DOMAIN_DEFAULT.to_owned());
            let weights = services.evaluation.domains.of(&domain);
            let scores = mean(&history[history.len().saturating_sub(HISTORY_MAX)..]);
            AgentEvaluation {
                reputation: services.ledger.reputation(&client, agent.as_ref()),
                composite: scores.and_then(|scores| weights.composite(&scores)),
                // Runs of unnamed agents are unrelated.
                degradation: agent.as_ref().and_then(|_| detect_regression(&history, &weights)),
                client,
                agent,
                domain,
                scores,
                runs,
                alone,
            }
        });
        Ok(told.collect())
    }
}

/// Named agents by the distance of their mean scores to the ones of `agent`, with the weights of its domain, nearest
/// first; `None`: the agent is unknown.
pub fn like<'a>(
    all: &'a [AgentEvaluation],
    agent: &str,
    domains: &Domains,
    most: usize,
) -> Option<Vec<Neighbor<&'a AgentId>>> {
    let aim = all.iter().find(|one| one.agent.as_ref().is_some_and(|name| name.as_str() == agent))?;
    let others = all.iter().filter_map(|one| Some((one.agent.as_ref()?, one.scores?)));
    let others = others.filter(|(name, _)| name.as_str() != agent);
    Some(nearest(&aim.scores?, others, &domains.of(&aim.domain), most))
}

impl System {
    /// Weights of the dimensions, by domain.
    pub fn domains(&self) -> &Domains {
        &self.services.evaluation.domains
    }
}
