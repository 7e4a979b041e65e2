//! Reserves and settles the calls of models of an attempt, or of the micro-planner.

use std::sync::{Arc, Mutex};

use ostler_kernel::event::{CallSettled, Event, Failure};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::ledger::{Amount, Amounts, CallLimits, Shortfall};
use ostler_kernel::port::{CallGrant, ModelCall, PricedCall, RUN_JUDGE};
use ostler_kernel::run::FailureCategory;

use crate::base::lock::lock;
use crate::base::paused_time::PausedTime;
use crate::state::active_runs::{ActiveRuns, GIVEN_UP};
use crate::state::call_accounts::{CallAccounts, Payer, Refused};
use crate::storage::journal_client::JournalClient;
use crate::storage::step_logs::RunStepLog;

/// The calls of one node: who pays for them, and where they are recorded.
pub(crate) struct CallBudget {
    pub(crate) accounts: Arc<CallAccounts>,
    pub(crate) active_runs: Arc<ActiveRuns>,
    pub(crate) run: RunId,
    pub(crate) journal: Arc<JournalClient>,
    pub(crate) step_log: Arc<RunStepLog>,
    pub(crate) payer: Payer,
    pub(crate) node: NodeId,
    /// The last call that did not fit.
    pub(crate) shortfall: Mutex<Option<Box<Shortfall>>>,
}

/// A reservation whose call is not made yet: on drop it ends without a charge.
struct Unmade<'a> {
    budget: &'a CallBudget,
    reservation: Option<u64>,
    /// What the records say is reserved.
    recorded: Option<Amounts>,
}

impl Drop for Unmade<'_> {
    fn drop(&mut self) {
        let used = Amounts::default();
        match (self.reservation, self.recorded) {
            (Some(call), Some(reserved)) => {
                self.budget.record_end(CallSettled { call, reserved, used, prices: None });
            }
            (Some(reservation), None) => self.budget.accounts.close(reservation, used),
            (None, _) => {}
        }
    }
}

impl CallBudget {
    /// Reserves a call; the record is durable on return. Waiting for other calls is no time of the attempt. Dropping the future
    /// reserves nothing, also while the record is written: another one ends it.
    ///
    /// # Errors
    ///
    /// The call is refused, or the record cannot be written.
    pub(crate) async fn reserve(
        &self,
        call: PricedCall<'_>,
        waited: Option<&PausedTime>,
    ) -> Result<CallGrant, Failure> {
        self.check_wanted()?;
        let reserved = {
            let _waits = waited.map(PausedTime::begin);
            self.accounts.reserve(&self.payer, &self.node, &call).await
        };
        let reserved = reserved.map_err(|refused| self.refused(refused, call.model))?;
        let mut unmade = Unmade { budget: self, reservation: reserved.grant.reservation, recorded: None };
        // It may have waited for room.
        self.check_wanted()?;
        // The judge of a run is no part of it.
        if self.node.as_str() != RUN_JUDGE {
            self.active_runs.take_call(self.run).map_err(spent_calls)?;
        }
        let Some(record) = reserved.record else { return Ok(reserved.grant) };
        let failed = |error: String| {
            Failure::new(
                FailureCategory::Transient,
                format!("the price of the call cannot be recorded: {error}"),
            )
        };
        let amounts = record.amounts;
        let appended = self.step_log.append(Event::CallReserved(Box::new(record)));
        let position = appended.map_err(|error| failed(error.to_string()))?;
        unmade.recorded = Some(amounts);
        if let Err(error) = self.journal.durable(position).await {
            // The record was taken back.
            unmade.recorded = None;
            return Err(failed(error.to_string()));
        }
        unmade.reservation = None;
        Ok(reserved.grant)
    }

    /// A run that is being cancelled with a run above it calls no model.
    fn check_wanted(&self) -> Result<(), Failure> {
        match self.active_runs.is_given_up(self.run) {
            true => Err(Failure::new(FailureCategory::Structural, GIVEN_UP)),
            false => Ok(()),
        }
    }

    /// Settles a call. Its record comes before the room that it makes, so the records never say more than the budget.
    pub(crate) fn settle(&self, reservation: u64, call: &ModelCall) {
        if let Some(settled) = self.accounts.settlement(reservation, call) {
            self.record_end(settled);
        }
    }

    fn record_end(&self, settled: CallSettled) {
        let (reservation, used) = (settled.call, settled.used);
        match self.step_log.append(Event::CallSettled(Box::new(settled))) {
            Ok(_) => self.accounts.close(reservation, used),
            // As after a crash: the whole reservation counts.
            Err(error) => {
                tracing::warn!(node = %self.node, %error, "the usage of a call cannot be recorded: its reservation counts");
                self.accounts.close_in_full(reservation);
            }
        }
    }

    fn refused(&self, refused: Refused, model: &str) -> Failure {
        match refused {
            Refused::Short(shortfall) => {
                let what = describe(&shortfall);
                *lock(&self.shortfall) = Some(shortfall);
                Failure::new(FailureCategory::ResourceExhaustion, what)
            }
            Refused::Unpriced => Failure::new(
                FailureCategory::Structural,
                format!(
                    "model {model}: its price is unknown, and a budget in usd holds; set price = {{input = …, output = …}} in US \
                     dollars per million tokens, or price = \"free\", in [models.{model}]"
                ),
            ),
            Refused::Journal(error) => Failure::new(
                FailureCategory::Transient,
                format!("the budget of the run cannot be read: {error}"),
            ),
        }
    }
}

fn spent_calls(most: u64) -> Failure {
    let calls = if most == 1 { "1 call" } else { &format!("{most} calls") };
    Failure::new(
        FailureCategory::ResourceExhaustion,
        format!("the {calls} of models that the run may make, with all its sub-agents, are used up"),
    )
}

/// The reason why a call was not made, for people.
pub(crate) fn describe(short: &Shortfall) -> String {
    let Shortfall { model, of_client, least, left, limits, .. } = short;
    let whose = if *of_client { "balance of its client" } else { "budget" };
    let (needs, left) = (within(*least, *limits), limits_text(*left));
    format!("a call of model {model} needs at least {needs}; {left} of the {whose} are left")
}

/// The amounts that a limit holds for.
fn within(amounts: Amounts, limits: CallLimits) -> String {
    let tokens = limits.tokens.map(|_| Amount::Tokens(amounts.tokens));
    texts([limits.nano_usd.map(|_| Amount::NanoUsd(amounts.nano_usd)), tokens])
}

fn limits_text(limits: CallLimits) -> String {
    texts([limits.nano_usd.map(Amount::NanoUsd), limits.tokens.map(Amount::Tokens)])
}

fn texts(amounts: [Option<Amount>; 2]) -> String {
    let texts: Vec<String> = amounts.into_iter().flatten().map(|amount| amount.to_string()).collect();
    texts.join(" and ")
}
