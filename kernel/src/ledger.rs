//! Bookkeeping of what runs and clients use: credits, tokens and money.
//!
//! Credits are double-entry: after every record, deposits = balance + reservations + costs. Calls of models have accounts of
//! their own ([`CallAccount`]).

mod amounts;
mod call_account;
mod input_estimate;
mod price;
mod usd;

use std::collections::BTreeMap;

pub use amounts::{
    Amount, AmountError, Amounts, CallLimits, NANO_PER_USD, TOKENS_MAX, USD_MAX, nano_usd, usd_text,
};
pub use call_account::{CallAccount, CallQuote, CallRoom, OUTPUT_TOKENS_MIN, Shortfall, room_of_both};
pub use input_estimate::InputEstimate;
pub use price::{LongPrompt, Price, Rates, Tokens};
pub use usd::Usd;

use crate::id::RunId;

/// Credits reserved for market jobs, and their use by the job's run and all runs below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservations {
    holds: BTreeMap<RunId, Hold>,
    /// Child runs of jobs, at any depth, with the job that pays.
    opened: BTreeMap<RunId, RunId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    budget: u64,
    spent: u64,
}

impl Reservations {
    /// Reserves credits for a job after costs of `spent`.
    pub fn reserve(&mut self, job: RunId, budget: u64, spent: u64) {
        self.holds.insert(job, Hold { budget, spent });
    }

    /// Records a child run: the job that pays for the parent pays for the child too.
    pub fn add_child(&mut self, run: RunId, parent: RunId) {
        if let Some(job) = self.job_of(parent).filter(|job| *job != run) {
            self.opened.insert(run, job);
        }
    }

    /// The job with the reservation for a run; `None`: the client's balance pays.
    pub fn job_of(&self, run: RunId) -> Option<RunId> {
        if self.holds.contains_key(&run) { Some(run) } else { self.opened.get(&run).copied() }
    }

    /// Charges the cost of an attempt to the reservation of its run, if any. Returns what the reservation covers, in credits; the
    /// client's balance pays the rest.
    pub fn settle(&mut self, run: RunId, cost: u64) -> u64 {
        let Some(hold) = self.hold(run) else { return 0 };
        let covered = cost.min(hold.budget.saturating_sub(hold.spent));
        hold.spent = hold.spent.saturating_add(cost);
        covered
    }

    /// Reverts the last charge of a run after its record was lost.
    pub fn revert_settle(&mut self, run: RunId, cost: u64) {
        if let Some(hold) = self.hold(run) {
            hold.spent = hold.spent.saturating_sub(cost);
        }
    }

    fn hold(&mut self, run: RunId) -> Option<&mut Hold> {
        self.holds.get_mut(&self.job_of(run)?)
    }

    /// Ends a job and frees the rest of its reservation.
    pub fn refund(&mut self, job: RunId) {
        if self.holds.remove(&job).is_some() {
            self.opened.retain(|_, of| *of != job);
        }
    }

    /// True if a reservation pays for the run.
    pub fn is_reserved(&self, run: RunId) -> bool {
        self.job_of(run).is_some()
    }

    /// Credits that are still reserved, for all jobs together.
    pub fn outstanding(&self) -> u64 {
        self.holds.values().map(|hold| hold.budget.saturating_sub(hold.spent)).fold(0, u64::saturating_add)
    }
}

/// The credits of a metered client.
///
/// ```
/// use ostler_kernel::id::RunId;
/// use ostler_kernel::ledger::ClientCredits;
///
/// let job = RunId(uuid::Uuid::from_u128(1));
/// let mut credits = ClientCredits::default();
/// credits.deposit(1_000);
/// credits.reserve(job, 600)?;
/// credits.settle(Some(job), 250); // of the contract
/// credits.settle(None, 100); // of another run
/// assert_eq!((credits.balance(), credits.reserved(), credits.spent()), (300, 350, 350));
/// assert_eq!(credits.refund(job), Ok(350));
/// assert_eq!((credits.balance(), credits.reserved(), credits.spent()), (650, 0, 350));
/// # Ok::<(), ostler_kernel::ledger::CreditError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCredits {
    deposited: i64,
    /// Credits that are neither reserved nor spent; negative if attempts cost more than was left.
    balance: i64,
    spent: u64,
    held: BTreeMap<RunId, u64>,
}

/// A movement of credits that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreditError {
    /// The balance is smaller than the reservation.
    #[error("{wanted} credits cannot be reserved: {balance} are free")]
    BeyondBalance {
        /// The balance.
        balance: i64,
        /// Credits to reserve.
        wanted: u64,
    },
    /// The free part of the tokens or of the money is smaller than what the calls of a job may use.
    #[error("{wanted} cannot be reserved: {left} are free")]
    BeyondCalls {
        /// What is free.
        left: Amount,
        /// Amount to reserve.
        wanted: Amount,
    },
    /// The job has a reservation already.
    #[error("credits are reserved for job {0} already")]
    ReservedTwice(RunId),
    /// The job has no reservation.
    #[error("nothing is reserved for job {0}")]
    NotReserved(RunId),
}

impl ClientCredits {
    /// Adds a deposit; negative for a withdrawal.
    pub fn deposit(&mut self, credits: i64) {
        self.deposited = self.deposited.saturating_add(credits);
        self.balance = self.balance.saturating_add(credits);
    }

    /// Reserves credits of the balance for a job.
    ///
    /// # Errors
    ///
    /// The balance is too small, or the job has a reservation. Nothing has changed.
    pub fn reserve(&mut self, job: RunId, wanted: u64) -> Result<(), CreditError> {
        if self.held.contains_key(&job) {
            return Err(CreditError::ReservedTwice(job));
        }
        let balance = self.balance;
        let amount = i64::try_from(wanted).ok().filter(|amount| *amount <= balance);
        let amount = amount.ok_or(CreditError::BeyondBalance { balance, wanted })?;
        self.balance -= amount;
        self.held.insert(job, wanted);
        Ok(())
    }

    /// Charges an attempt: the reservation of its job pays first, the balance pays the rest. Late and discarded results are
    /// charged like any other.
    pub fn settle(&mut self, job: Option<RunId>, cost: u64) {
        let held = job.and_then(|job| self.held.get_mut(&job));
        let from_held = held.map_or(0, |held| {
            let paid = cost.min(*held);
            *held -= paid;
            paid
        });
        self.balance = self.balance.saturating_sub_unsigned(cost - from_held);
        self.spent = self.spent.saturating_add(cost);
    }

    /// Ends a job: the rest of its reservation returns to the balance. Returns the returned credits.
    ///
    /// # Errors
    ///
    /// The job has no reservation.
    pub fn refund(&mut self, job: RunId) -> Result<u64, CreditError> {
        let left = self.held.remove(&job).ok_or(CreditError::NotReserved(job))?;
        self.balance = self.balance.saturating_add_unsigned(left);
        Ok(left)
    }

    /// Sum of all deposits.
    pub fn deposited(&self) -> i64 {
        self.deposited
    }

    /// Credits that are neither reserved nor spent.
    pub fn balance(&self) -> i64 {
        self.balance
    }

    /// Credits reserved for jobs.
    pub fn reserved(&self) -> u64 {
        self.held.values().sum()
    }

    /// Cost of all attempts.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// True if deposits = balance + reservations + costs.
    pub fn adds_up(&self) -> bool {
        let parts = i128::from(self.balance) + i128::from(self.reserved()) + i128::from(self.spent);
        parts == i128::from(self.deposited)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job(number: u8) -> RunId {
        RunId(uuid::Uuid::from_u128(u128::from(number) + 1))
    }

    #[derive(Debug, Clone)]
    enum Op {
        Deposit(i64),
        Reserve(u8, u64),
        Open(u8, u8),
        Settle(u8, u64),
        Refund(u8),
    }

    const RUNS: u8 = 12;

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (-500i64..2_000).prop_map(Op::Deposit),
            (0u8..4, 0u64..1_500).prop_map(|(job, credits)| Op::Reserve(job, credits)),
            (0..RUNS, 4..RUNS).prop_map(|(parent, run)| Op::Open(parent, run)),
            // Includes jobs that have ended: late results.
            (0..RUNS, 0u64..900).prop_map(|(run, cost)| Op::Settle(run, cost)),
            (0u8..4).prop_map(Op::Refund),
        ]
    }

    #[test]
    fn what_is_not_there_is_neither_reserved_nor_refunded() {
        let mut credits = ClientCredits::default();
        credits.deposit(100);
        let beyond = |wanted| Err(CreditError::BeyondBalance { balance: 100, wanted });
        assert_eq!(credits.reserve(job(1), 101), beyond(101));
        assert_eq!(credits.reserve(job(1), u64::MAX), beyond(u64::MAX));
        assert_eq!(credits.reserve(job(1), 100), Ok(()));
        assert_eq!(credits.reserve(job(1), 0), Err(CreditError::ReservedTwice(job(1))));
        assert_eq!(credits.refund(job(2)), Err(CreditError::NotReserved(job(2))));
        credits.settle(Some(job(1)), 130);
        assert_eq!((credits.balance(), credits.reserved(), credits.spent()), (-30, 0, 130));
        assert_eq!(credits.refund(job(1)), Ok(0));
        assert_eq!(credits.refund(job(1)), Err(CreditError::NotReserved(job(1))));
        assert!(credits.adds_up());
    }

    #[test]
    fn what_runs_cost_that_a_job_opened_comes_out_of_its_reservation_once() {
        let (mut credits, mut reservations) = (ClientCredits::default(), Reservations::default());
        credits.deposit(1_500);
        credits.reserve(job(0), 1_000).unwrap();
        reservations.reserve(job(0), 1_000, 0);
        reservations.add_child(job(4), job(0));
        reservations.add_child(job(5), job(4));
        reservations.add_child(job(7), job(6));
        for (run, cost, expected) in [
            (4, 500, (500, 500, 500)),
            (5, 300, (500, 200, 800)),
            (0, 100, (500, 100, 900)),
            (7, 50, (450, 100, 950)),
            (5, 150, (400, 0, 1_100)),
        ] {
            credits.settle(reservations.job_of(job(run)), cost);
            reservations.settle(job(run), cost);
            assert_eq!((credits.balance(), credits.reserved(), credits.spent()), expected, "{run}");
            assert_eq!(reservations.outstanding(), expected.1);
        }
        reservations.revert_settle(job(5), 250);
        assert_eq!(reservations.outstanding(), 200);
        reservations.refund(job(0));
        assert_eq!((reservations.is_reserved(job(5)), reservations.outstanding()), (false, 0));
    }

    proptest! {
        #[test]
        fn credits_add_up_after_every_record(ops in proptest::collection::vec(op(), 0..60)) {
            let (mut credits, mut reservations) = (ClientCredits::default(), Reservations::default());
            let (mut deposited, mut spent) = (0i64, 0u64);
            let mut parents: BTreeMap<RunId, RunId> = BTreeMap::new();
            for op in ops {
                let before = credits.clone();
                match op {
                    Op::Deposit(amount) => { credits.deposit(amount); deposited += amount; }
                    Op::Reserve(at, amount) => match credits.reserve(job(at), amount) {
                        Ok(()) => reservations.reserve(job(at), amount, 0),
                        Err(_) => prop_assert_eq!(&credits, &before),
                    },
                    // A run is opened once, before anything else, by an older run.
                    Op::Open(parent, run) if parent < run && !parents.contains_key(&job(run)) => {
                        parents.insert(job(run), job(parent));
                        reservations.add_child(job(run), job(parent));
                    }
                    Op::Open(..) => {}
                    Op::Settle(run, cost) => {
                        let pays = reservations.job_of(job(run));
                        let ancestors = std::iter::successors(Some(job(run)), |run| parents.get(run).copied());
                        prop_assert!(pays.is_none_or(|pays| ancestors.clone().any(|run| run == pays)));
                        let (held, balance) = (credits.reserved(), credits.balance());
                        credits.settle(pays, cost);
                        reservations.settle(job(run), cost);
                        prop_assert!(pays.is_some() || held == credits.reserved());
                        let paid = balance - credits.balance() + held as i64 - credits.reserved() as i64;
                        prop_assert_eq!(paid, cost as i64, "it is paid once");
                        spent += cost;
                    }
                    Op::Refund(at) => match credits.refund(job(at)) {
                        Ok(_) => reservations.refund(job(at)),
                        Err(_) => prop_assert_eq!(&credits, &before),
                    },
                }
                prop_assert!(credits.adds_up(), "{:?}", credits);
                prop_assert_eq!((credits.deposited(), credits.spent()), (deposited, spent));
                prop_assert_eq!(credits.reserved(), reservations.outstanding());
                prop_assert_eq!(credits.balance(), deposited - spent as i64 - reservations.outstanding() as i64);
            }
        }
    }
}
