//! The credits of a client, as its records tell: what was deposited is what is free, what is reserved for contracts and what was
//! spent, after every record.

use std::collections::BTreeMap;

use crate::id::RunId;

/// Credits that are reserved for jobs of the market, and what of them was spent: by the run of the job, and by those that it opened,
/// at whatever remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservations {
    holds: BTreeMap<RunId, Hold>,
    /// Runs that were opened for a job that is not over, by its run or by another of them.
    opened: BTreeMap<RunId, RunId>,
}

/// What is reserved for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    budget: u64,
    spent: u64,
}

impl Reservations {
    /// Reserves credits for a job of which so many are spent already, by runs that it opened too.
    pub fn reserve(&mut self, job: RunId, budget: u64, spent: u64) {
        self.holds.insert(job, Hold { budget, spent });
    }

    /// A run was opened by another one: what is reserved for that, or for the job that it was opened for, is for this one as well.
    pub fn add_child(&mut self, run: RunId, parent: RunId) {
        if let Some(job) = self.job_of(parent).filter(|job| *job != run) {
            self.opened.insert(run, job);
        }
    }

    /// The job whose reservation pays for this run.
    pub fn job_of(&self, run: RunId) -> Option<RunId> {
        if self.holds.contains_key(&run) { Some(run) } else { self.opened.get(&run).copied() }
    }

    /// An attempt of this run ended that cost so much; of a run without a reservation, nothing happens.
    pub fn settle(&mut self, run: RunId, cost: u64) {
        if let Some(hold) = self.hold(run) {
            hold.spent = hold.spent.saturating_add(cost);
        }
    }

    /// What was settled last of this run is not written down, and void.
    pub fn revert_settle(&mut self, run: RunId, cost: u64) {
        if let Some(hold) = self.hold(run) {
            hold.spent = hold.spent.saturating_sub(cost);
        }
    }

    fn hold(&mut self, run: RunId) -> Option<&mut Hold> {
        self.holds.get_mut(&self.job_of(run)?)
    }

    /// The job is over: what is left of its reservation is free again.
    pub fn refund(&mut self, job: RunId) {
        if self.holds.remove(&job).is_some() {
            self.opened.retain(|_, of| *of != job);
        }
    }

    /// Whether credits are reserved for this run, or for the job that it was opened for.
    pub fn is_reserved(&self, run: RunId) -> bool {
        self.job_of(run).is_some()
    }

    /// What is still reserved, of all jobs.
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
    /// What is neither reserved nor spent; below zero where attempts cost more than there was.
    balance: i64,
    spent: u64,
    held: BTreeMap<RunId, u64>,
}

/// Why credits cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreditError {
    /// More is to be reserved than is free.
    #[error("{wanted} credits cannot be reserved: {balance} are free")]
    BeyondBalance {
        /// What is free.
        balance: i64,
        /// What was to be reserved.
        wanted: u64,
    },
    /// Something is reserved for this job already.
    #[error("credits are reserved for job {0} already")]
    ReservedTwice(RunId),
    /// Nothing is reserved for this job.
    #[error("nothing is reserved for job {0}")]
    NotReserved(RunId),
}

impl ClientCredits {
    /// Credits come in, or are taken back if below zero.
    pub fn deposit(&mut self, credits: i64) {
        self.deposited = self.deposited.saturating_add(credits);
        self.balance = self.balance.saturating_add(credits);
    }

    /// Sets credits aside for a job, out of the balance.
    ///
    /// # Errors
    ///
    /// There are not as many, or the job has some already; nothing has changed then.
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

    /// An attempt cost so much: of a job's run, its reservation pays first, and the balance the rest. Late results and discarded
    /// ones are paid for like any other.
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

    /// A job is over: what is left of its reservation goes back to the balance. Gives how much.
    ///
    /// # Errors
    ///
    /// It has none.
    pub fn refund(&mut self, job: RunId) -> Result<u64, CreditError> {
        let left = self.held.remove(&job).ok_or(CreditError::NotReserved(job))?;
        self.balance = self.balance.saturating_add_unsigned(left);
        Ok(left)
    }

    /// All that was deposited.
    pub fn deposited(&self) -> i64 {
        self.deposited
    }

    /// What is neither reserved nor spent.
    pub fn balance(&self) -> i64 {
        self.balance
    }

    /// What is reserved for jobs.
    pub fn reserved(&self) -> u64 {
        self.held.values().sum()
    }

    /// What attempts cost.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether balance + reserved + spent = deposited.
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
        /// A run opens another.
        Open(u8, u8),
        Settle(u8, u64),
        Refund(u8),
    }

    /// Jobs, and runs that are for no contract or that others open.
    const RUNS: u8 = 12;

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (-500i64..2_000).prop_map(Op::Deposit),
            (0u8..4, 0u64..1_500).prop_map(|(job, credits)| Op::Reserve(job, credits)),
            (0..RUNS, 4..RUNS).prop_map(|(parent, run)| Op::Open(parent, run)),
            // Of jobs that are over too: late results.
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
        /// balance + reserved + spent = deposited after every record, and what is told by running totals is the same.
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
                    // A run is opened once, before it does anything, and by one that is older.
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
