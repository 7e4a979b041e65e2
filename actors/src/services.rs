//! What every actor of a system shares: the outside, behind its ports, and what outlives any actor.

#[cfg(test)]
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::contract::{Contract, ContractError};
use ostler_kernel::evaluation::Domains;
use ostler_kernel::gate::{Denial, GatePolicy, Permit};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::Object;
use ostler_kernel::plan::{Rule, Settings};
use ostler_kernel::port::{ArtifactStore, Journal, JournalError, Judge, Position, StreamBatch, Tool};
use ostler_kernel::run::{DecisionContext, Run, StaticPlanner};
use tokio::sync::watch;

use crate::api::evaluations::Evaluating;
use crate::attempts::attempt::Caller;
use crate::attempts::attempt_table::{AttemptKey, Effects};
use crate::attempts::children::{Home, Waiters};
use crate::base::clock::Clock;
use crate::base::error::RunError;
use crate::base::limits::Limits;
#[cfg(test)]
use crate::base::lock::lock;
use crate::messages::mailboxes::Links;
use crate::metrics::Measures;
use crate::pipelines::Book;
use crate::registry::RegistryMessage;
use crate::run::Answer;
use crate::run::suspended_runs;
use crate::scheduler::Scheduling;
use crate::state::active_runs::DrivenRuns;
use crate::state::contracts::Contracts;
use crate::state::estimates::Estimates;
use crate::state::ledger::Ledger;
use crate::state::market::Market;
use crate::state::plans::Plans;
use crate::state::profiles::Profiles;
use crate::state::run_budgets::Purses;
use crate::state::toolbox::Toolbox;
use crate::storage::disk_space::Room;
use crate::storage::step_logs::NotesOfRuns;

/// What every actor of a system shares.
pub(crate) struct Services {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) artifacts: Arc<dyn ArtifactStore>,
    pub(crate) toolbox: Toolbox,
    pub(crate) gate: GatePolicy,
    pub(crate) clock: Clock,
    pub(crate) effects: Effects,
    pub(crate) scheduling: Scheduling,
    pub(crate) notes: NotesOfRuns,
    pub(crate) purses: Purses,
    pub(crate) waiters: Waiters,
    /// The system that all this is of, for as long as it runs.
    pub(crate) home: Mutex<Option<Home>>,
    pub(crate) estimates: Estimates,
    pub(crate) plans: Plans,
    pub(crate) ledger: Ledger,
    pub(crate) profiles: Profiles,
    pub(crate) pipelines: Book,
    pub(crate) market: Market,
    /// How much each dimension of an evaluation counts.
    pub(crate) domains: Domains,
    /// Says how good the results of runs are, if somebody is there to say it.
    pub(crate) judge: Option<Arc<dyn Judge>>,
    pub(crate) links: Links,
    pub(crate) measures: Measures,
    pub(crate) limits: Limits,
    /// Slots of a run whose plan does not say.
    pub(crate) run_slots: u32,
    pub(crate) driven: DrivenRuns,
    contracts: Contracts,
    /// Held by who opens a run under an id of their choice.
    pub(crate) opening: Mutex<()>,
    /// Where the first record stands that was ordered here, as far as anybody was told; beyond all others as long as none was.
    first: AtomicU64,
    /// Where the last one stands, those of pipelines left out.
    ordered: AtomicU64,
    /// Nothing starts any more.
    stopping: watch::Sender<bool>,
    /// Actors that are to panic at their next messages, and at how many.
    #[cfg(test)]
    pub(crate) trips: Mutex<BTreeMap<String, u32>>,
    /// Counts whatever may change how a run stands, for those who wait for it.
    pub(crate) stirs: watch::Sender<u64>,
    /// Why nothing goes on any more, once that is so.
    pub(crate) halted: watch::Sender<Option<String>>,
    pub(crate) room: Room,
}

impl Services {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        artifacts: Arc<dyn ArtifactStore>,
        toolbox: Toolbox,
        gate: GatePolicy,
        run_slots: u32,
        limits: Limits,
        measures: Measures,
    ) -> Services {
        Services {
            journal: measures.count(journal),
            artifacts,
            estimates: Estimates::new(&toolbox),
            toolbox,
            gate,
            clock: Clock::new(),
            effects: Effects::default(),
            scheduling: Scheduling::default(),
            notes: NotesOfRuns::default(),
            purses: Purses::default(),
            waiters: Waiters::default(),
            home: Mutex::default(),
            plans: Plans::default(),
            ledger: Ledger::default(),
            profiles: Profiles::default(),
            pipelines: Book::default(),
            market: Market::default(),
            domains: Domains::default(),
            judge: None,
            links: Links::default(),
            measures,
            limits,
            run_slots,
            driven: DrivenRuns::default(),
            contracts: Contracts::default(),
            opening: Mutex::default(),
            first: AtomicU64::new(u64::MAX),
            ordered: AtomicU64::new(0),
            stopping: watch::Sender::new(false),
            #[cfg(test)]
            trips: Mutex::default(),
            stirs: watch::Sender::new(0),
            halted: watch::Sender::new(None),
            room: Room::default(),
        }
    }

    /// The same, with what runs are judged by.
    pub(crate) fn with_evaluation(self, Evaluating { domains, judge }: Evaluating) -> Services {
        Services { domains, judge, ..self }
    }

    /// The same, with a ledger that was read from the journal.
    pub(crate) fn with_ledger(self, ledger: Ledger) -> Services {
        Services { ledger, ..self }
    }

    /// How plans are normalised and judged here.
    pub(crate) fn settings(&self) -> Settings<'_> {
        Settings { domains: Some(&self.domains), ..Settings::real(self.run_slots, &self.toolbox) }
    }

    /// Does something with a run that may decide what follows, as of now.
    pub(crate) fn within<T>(
        &self,
        id: RunId,
        run: &mut Run,
        act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T,
    ) -> T {
        let (settings, now) = (self.settings(), self.clock.now());
        act(run, &mut DecisionContext { run_id: id, now, settings: &settings, planner: &StaticPlanner })
    }

    /// The run is driven no longer. Who waits for it hears so, as what it waits with is dropped.
    pub(crate) fn let_go(self: &Arc<Services>, run: RunId) {
        self.driven.remove(run);
        self.effects.of_run(run).iter().for_each(|key| suspended_runs::ended(self, key));
        self.purses.let_go(run, || self.driven.has(run));
        self.notes.forget(run);
        self.stir();
    }

    /// Answers once what was ordered up to there is durable.
    pub(crate) fn answer_when_durable(self: &Arc<Services>, position: Position, answers: Vec<Answer>) {
        if answers.is_empty() {
            return;
        }
        let services = Arc::clone(self);
        tokio::spawn(async move {
            let durable = services.journal.durable(position).await.map_err(RunError::from);
            for (reply, answer) in answers {
                let _ = reply.send(durable.clone().and(answer));
            }
        });
    }

    /// Lets go of attempts that acted and whose end is durable by now. If that was undone, it is written down anew, by whoever
    /// drives the run then.
    pub(crate) fn sweep_effects(&self) {
        self.effects.sweep(&*self.journal).into_iter().for_each(|key| self.unheard(key));
    }

    /// The same, when all that is kept by now is durable: nobody may come by for long.
    pub(crate) fn sweep_effects_when_durable(self: &Arc<Services>) {
        let Some(last) = self.effects.last_kept() else { return };
        let services = Arc::clone(self);
        tokio::spawn(async move {
            // Whether it is, or was undone, is told by the sweep.
            let _ = services.journal.durable(last).await;
            services.sweep_effects();
        });
    }

    /// The end of an attempt was told to an agent that is not about its run: who drives that looks for it, and else the registry.
    pub(crate) fn unheard(&self, key: AttemptKey) {
        if !self.driven.has(key.run) {
            self.links.tell_registry(RegistryMessage::Unheard(key));
        }
    }

    /// An attempt has ended whose run nobody drives any more.
    pub(crate) fn left_behind(&self, key: &AttemptKey) {
        self.purses.ended(key, 0);
        self.purses.let_go(key.run, || self.driven.has(key.run));
    }

    /// Whether nothing goes on in a run until a person answers. Silence that is due moves it without one.
    pub(crate) fn waits_for_person(&self, run: &Run) -> bool {
        run.waits_for_person() && !run.human_timeout_due(self.clock.now())
    }

    /// Tells those who wait for this run that something may have changed.
    pub(crate) fn stir_run(&self, run: RunId) {
        self.driven.stir(run);
        self.stir();
    }

    /// Panics if this actor is to.
    #[cfg(test)]
    pub(crate) fn trip(&self, who: &str) {
        let mut trips = lock(&self.trips);
        let Some(left) = trips.get_mut(who) else { return };
        *left -= 1;
        if *left == 0 {
            trips.remove(who);
        }
        drop(trips);
        panic!("{who} was to panic");
    }

    /// From here on nothing starts.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until nothing starts any more.
    pub(crate) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Tells those who watch all runs that something may have changed.
    pub(crate) fn stir(&self) {
        self.stirs.send_modify(|stirs| *stirs += 1);
    }

    /// Orders records of one stream, and takes note if there is no room for them.
    pub(crate) fn append(&self, batch: StreamBatch) -> Result<Position, JournalError> {
        let appended = self.journal.append(vec![batch]);
        match &appended {
            Ok(position) => {
                // Who appended first need not be told first.
                self.first.fetch_min(position.0, Ordering::SeqCst);
                self.ordered.fetch_max(position.0, Ordering::SeqCst);
            }
            Err(JournalError::Full(why)) => self.room.is_missing(why),
            Err(_) => {}
        }
        appended
    }

    /// Whether a record that stands there is of this process.
    pub(crate) fn is_ours(&self, position: Position) -> bool {
        position.0 >= self.first.load(Ordering::SeqCst)
    }

    /// Where the last record stands that was ordered here. Pipelines order theirs themselves.
    pub(crate) fn last_ordered(&self) -> Position {
        let last = Position(self.ordered.load(Ordering::SeqCst));
        self.pipelines.opened().iter().map(|log| log.position()).fold(last, Position::max)
    }

    /// What was ordered never will be durable. Where it was undone, all that was derived from it is read again.
    pub(crate) fn not_durable(&self, error: &JournalError) {
        if !matches!(error, JournalError::Full(_)) {
            self.halt(&error.to_string());
        }
    }

    /// Stops everything: what is not durable by now never will be.
    pub(crate) fn halt(&self, why: &str) {
        tracing::error!(why, "the system halts");
        self.end(why);
    }

    /// Nothing goes on any more, as somebody wanted.
    pub(crate) fn end(&self, why: &str) {
        self.halted.send_if_modified(|halted| {
            let first = halted.is_none();
            halted.get_or_insert_with(|| why.to_owned());
            first
        });
        self.driven.stir_all();
        self.stir();
    }

    /// Leave to make a call, and the tool that takes it; or why not.
    pub(crate) fn gate(
        &self,
        caller: &Caller,
        name: &str,
        params: Object,
        floor: u8,
        idempotency_key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        let since = self.measures.now();
        let verdict = self.toolbox.gate(&self.gate, caller, name, params, floor, idempotency_key);
        self.measures.gated(since, verdict.as_ref());
        verdict
    }

    /// The compiled form of a contract.
    pub(crate) fn contract(&self, rules: &[Rule]) -> Result<Arc<Contract>, ContractError> {
        self.contracts.compiled(rules, self.limits.contracts_kept, self.limits.contracts_kept_bytes)
    }
}
