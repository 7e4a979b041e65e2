//! The streams of the clients: appended by the registry alone, and read when it starts.

use std::sync::Arc;

use ostler_kernel::agent::Profile;
use ostler_kernel::client_terms::ClientTerms;
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::json;
use ostler_kernel::market::{MarketStep, Offer};
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus, Seq, StreamBatch, StreamId};
use ostler_scheduler::AGENT_WEIGHT;
use ractor::ActorProcessingErr;

use super::RegistryState;
use super::agent_lifecycle::Input;
use super::entry::AgentEntry;
use crate::base::error::RunError;
use crate::base::keys::FairShareKey;
use crate::messages::client_change::{ClientChange, ClientError};
use crate::messages::evaluator::EvaluatorMessage;
use crate::messages::market::{MarketError, OfferRefused};
use crate::messages::registry::{RegisterError, ReleaseError};
use crate::messages::verdict::{EvaluationError, Said};
use crate::run::suspended_runs;
use crate::state::evaluation::verdicts;
use crate::state::market::MarketBook;
use crate::storage::run_reader;

impl RegistryState {
    /// Restores every registered agent and the driven runs from the journal.
    pub(super) fn rebuild(&mut self) -> Result<(), ActorProcessingErr> {
        let journal = Arc::clone(&self.services.journal);
        self.services.ledger.forget_terms();
        self.services.grants.forget();
        self.services.retractions.forget();
        let unrecorded = self.services.attempts.unrecorded();
        self.services.ledger.recount(&journal.accounts()?, &unrecorded);
        self.services.active_runs.forget_records();
        self.services.step_logs.read_again();
        self.services.gatekeeper.runs_around.read_again();
        let mut book = MarketBook::keeping(self.services.limits.jobs_kept);
        for stream in journal.clients()? {
            run_reader::each(&**journal, stream, None, |record| -> Result<(), JournalError> {
                self.services.ledger.record(&record.event, record.at_ms);
                self.services.grants.record(&record.event, record.at_ms);
                self.services.retractions.record(&record.event);
                book.record(&record.event, record.at_ms, record.position);
                self.heads.insert(stream, record.seq);
                self.remember(&record.event, record.position);
                Ok(())
            })?;
        }
        self.services.market.begin(book, &**journal)?;
        for (client, run, cost) in unrecorded {
            self.services.ledger.client(&client).settle_reserved(run, cost);
        }
        for (client, _) in self.services.ledger.clients().iter().filter(|(_, book)| book.reserved() > 0) {
            self.services.scheduler.renew_terms(client);
        }
        for run in self.services.active_runs.all() {
            match self.services.journal.run(run)? {
                Some(row) => self.entry(&row).push(row),
                // The opening record was rolled back.
                None => suspended_runs::release(&self.services, run),
            }
        }
        for entry in self.agents.values_mut() {
            // Runs that have begun come before those behind them.
            let driven = &self.services.active_runs;
            entry.runs.make_contiguous().sort_by_cached_key(|row| (!driven.is_loaded(row.run), row.run));
            self.services.active_runs.line_up(entry.runs.iter().map(|row| &row.run));
        }
        Ok(())
    }

    fn remember(&mut self, event: &Event, since: Position) {
        match event {
            Event::AgentRegistered { agent, client, weight } => {
                let entry = AgentEntry::registered(client.clone(), *weight, since);
                if self.agents.insert(agent.clone(), entry).is_none() {
                    self.registered += 1;
                }
            }
            Event::AgentProfiled { agent, profile, .. } => {
                self.services.evaluation.profiles.read(agent, profile)
            }
            Event::AgentQuarantined { agent, reason } => {
                if let Some(entry) = self.agents.get_mut(agent) {
                    entry.note_quarantined(reason.clone());
                }
            }
            Event::AgentReleased { agent } => {
                if let Some(entry) = self.agents.get_mut(agent) {
                    entry.note_released();
                }
            }
            _ => {}
        }
    }

    pub(super) fn append(&mut self, client: &ClientId, events: Vec<Event>) -> Result<Position, JournalError> {
        let (stream, at_ms) = (StreamId::client(client), self.services.journal.now());
        let expected = self.heads.get(&stream).copied().unwrap_or_default();
        let batch = StreamBatch { stream, expected, at_ms, events: events.clone() };
        let position = self.services.journal.append_batch(batch)?;
        self.heads.insert(stream, Seq(expected.0 + events.len() as u64));
        for event in &events {
            self.services.ledger.record(event, at_ms);
            self.services.grants.record(event, at_ms);
            self.services.retractions.record(event);
            self.services.market.record(event, at_ms, position);
            if matches!(event, Event::Market { .. }) {
                // The step may have reserved credits, or freed them.
                self.services.scheduler.renew_terms(client);
            }
        }
        Ok(position)
    }

    pub(super) fn change_client(
        &mut self,
        client: &ClientId,
        change: &ClientChange,
    ) -> Result<Option<Position>, ClientError> {
        let ledger = &self.services.ledger;
        if change.sets_terms() && ledger.is_configured(client) {
            return Err(ClientError::Configured(client.clone()));
        }
        let most = self.services.limits.clients;
        if !ledger.has_room(client, most) {
            return Err(ClientError::TooMany(most));
        }
        let book = ledger.find(client).unwrap_or_default();
        let terms = book.terms();
        if let Some(credits) = change.credits {
            // Reserved and held credits cannot be withdrawn.
            let held = match self.services.scheduler.held(client) {
                None if credits < 0 => return Err(ClientError::Restarting),
                held => held.unwrap_or(0),
            };
            let used = book.spent().saturating_add(book.reserved()).saturating_add(held);
            let checked = terms.check_deposit(credits, used);
            checked.map_err(|error| ClientError::Credits { client: client.clone(), error })?;
        }
        let calls = self.services.call_accounts.of_client(client);
        if let Some(balance) = change.balance() {
            let checked = terms.check_balance(balance, calls.taken());
            checked.map_err(|error| ClientError::Credits { client: client.clone(), error })?;
        }
        let events = change.events(client, &terms, book.spent(), calls.used);
        if events.is_empty() {
            return Ok(None);
        }
        let position = self.append(client, events)?;
        self.services.scheduler.renew_terms(client);
        self.services.call_accounts.renewed();
        self.credits(client.clone());
        Ok(Some(position))
    }

    /// Removes the terms and credits of a client that no open run and no open job uses.
    pub(super) fn remove_client(&mut self, client: &ClientId) -> Result<Position, ClientError> {
        let ledger = &self.services.ledger;
        let terms = ledger.find(client).ok_or_else(|| ClientError::Unknown(client.clone()))?.terms();
        if ledger.is_configured(client) && terms.deposited().is_none() && terms.call_limits().is_unlimited() {
            return Err(ClientError::Configured(client.clone()));
        }
        if terms == ClientTerms::default() {
            return Err(ClientError::NoAccount(client.clone()));
        }
        let client = || client.clone();
        if let Some(job) = self.services.market.open_job_of(&client()) {
            return Err(ClientError::HasJob { client: client(), job });
        }
        // A quarantined run never goes on, and cannot be closed.
        let open = self.services.journal.runs(true)?.into_iter().find(|row| {
            row.client == client() && matches!(row.status, RunRowStatus::Open | RunRowStatus::Parked(_))
        });
        if let Some(RunRow { run, .. }) = open {
            return Err(ClientError::HasRun { client: client(), run });
        }
        let held = self.services.scheduler.held(&client()).ok_or(ClientError::Restarting)?;
        let is_charged = |(whose, ..): &(ClientId, RunId, u64)| *whose == client();
        if held > 0 || self.services.attempts.unrecorded().iter().any(is_charged) {
            return Err(ClientError::HasAttempts(client()));
        }
        let position = self.append(&client(), vec![Event::ClientRemoved { client: client() }])?;
        self.services.scheduler.renew_terms(&client());
        Ok(position)
    }

    pub(super) fn register(
        &mut self,
        agent: AgentId,
        client: ClientId,
        weight: Option<u32>,
        profile: Profile,
    ) -> Result<Position, RegisterError> {
        let most = self.services.limits.agents;
        match self.agents.get(&agent) {
            Some(entry) if entry.client == client => {
                if weight.is_some_and(|weight| weight != entry.weight) {
                    return Err(RegisterError::Weight { agent, weight: entry.weight });
                }
                let same = profile.is_empty() || *self.services.evaluation.profiles.of(&agent) == profile;
                return if same { Ok(entry.since) } else { Err(RegisterError::Profile(agent)) };
            }
            Some(entry) => return Err(RegisterError::Taken { agent, owner: entry.client.clone(), client }),
            None if self.registered >= most => return Err(RegisterError::TooMany(most)),
            None => self.services.evaluation.domains.check(profile.domain.as_deref())?,
        }
        let weight = weight.unwrap_or(AGENT_WEIGHT);
        let mut events =
            vec![Event::AgentRegistered { agent: agent.clone(), client: client.clone(), weight }];
        let profile = match profile.is_empty() {
            true => None,
            false => Some(json::canonical(&serde_json::to_value(&profile).expect("a profile is JSON"))?),
        };
        if let Some(profile) = &profile {
            let (agent, client, profile) = (agent.clone(), client.clone(), profile.clone());
            events.push(Event::AgentProfiled { agent, client, profile });
        }
        let since = self.append(&client, events)?;
        if let Some(profile) = &profile {
            self.services.evaluation.profiles.read(&agent, profile);
        }
        self.agents.insert(agent, AgentEntry::registered(client, weight, since));
        self.registered += 1;
        Ok(since)
    }

    /// Puts an agent back into service. Its suspended runs stay suspended until they are resumed by name.
    pub(super) fn release(&mut self, agent: &AgentId) -> Result<Position, ReleaseError> {
        let entry = self.agents.get(agent).filter(|entry| entry.registered);
        let entry = entry.ok_or_else(|| ReleaseError::Unknown(agent.clone()))?;
        if !entry.is_quarantined() {
            return Err(ReleaseError::InService(agent.clone()));
        }
        let client = entry.client.clone();
        let position = self.append(&client, vec![Event::AgentReleased { agent: agent.clone() }])?;
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.reason = None;
        }
        self.take(agent, Input::Released);
        tracing::info!(%agent, "the agent is back in service");
        Ok(position)
    }

    /// Records a verdict, with the scores that follow from the run's present ones.
    pub(super) fn judge(&mut self, row: &RunRow, said: Said) -> Result<Position, EvaluationError> {
        // The scores may have changed through another verdict.
        let row = self.services.journal.run(row.run)?.ok_or(RunError::Unknown(row.run))?;
        // A repeated verdict waits for its first record.
        if said.repeats(&verdicts(&**self.services.journal, &row)?) {
            return Ok(row.position);
        }
        let verdict = said.verdict(&row)?;
        let client = row.client.clone();
        let position = self.append(&client, vec![Event::Verdict(Box::new(verdict))])?;
        let lane = FairShareKey { client, agent: row.named_agent().cloned() };
        let (run, is_verdict) = (row.run, true);
        self.services.mailboxes.tell_evaluator(EvaluatorMessage::Evaluated { lane, run, is_verdict });
        Ok(position)
    }

    pub(super) fn offer(&mut self, agent: AgentId, offer: Box<Offer>) -> Result<Position, OfferRefused> {
        offer.check()?;
        let entry = self.agents.get(&agent).filter(|entry| entry.registered);
        let entry = entry.ok_or_else(|| OfferRefused::Unknown(agent.clone()))?;
        self.services.evaluation.domains.check(offer.domain.as_deref())?;
        // A repeated offer waits for its first record, which may not be durable yet.
        if let Some((_, position)) =
            self.services.market.offered(&agent).filter(|(known, _)| **known == *offer)
        {
            return Ok(position);
        }
        let client = entry.client.clone();
        Ok(self.append(&client, vec![Event::AgentOffered { agent, client: client.clone(), offer }])?)
    }

    /// Records a step of a job, if it follows from the job's stage.
    pub(super) fn market(&mut self, job: RunId, step: Box<MarketStep>) -> Result<Position, MarketError> {
        let client = self.services.market.admit(
            (self.services.limits.jobs_open, self.services.journal.now()),
            job,
            &step,
        )?;
        let position = self.append(&client, vec![Event::Market { job, step }])?;
        // The step may have ended a reservation.
        self.credits(client);
        Ok(position)
    }
}
