//! The budget of a run with concurrent attempts: credits are reserved before they are spent.
//!
//! A run must not overspend its budget, however many attempts run at once, and no attempt knows its cost in advance. So an
//! attempt reserves in steps: a share of the free credits at a time, and the next share after the first is used up. Small
//! shares leave room for concurrent attempts; a share proportional to the free credits ([`SHARE`]) lets many attempts start,
//! and a minimum ([`SHARE_MIN`]) bounds the number of requests. At all times
//!
//! ```text
//! spent + given to child runs + reserved <= budget
//! ```
//!
//! because an attempt is ended at its reservation and charged at most that ([`RunBudget::chargeable`]). Reservations live in memory only. After the process died, the records
//! tell what was spent and given to child runs; lost attempts hold nothing, and repeated ones reserve anew.

use std::collections::BTreeMap;

use crate::id::NodeId;

/// A reservation takes one in `SHARE` of the free credits.
const SHARE: u64 = 64;

/// Smallest reservation, in credits, as long as so many are free.
const SHARE_MIN: u64 = 50;

/// An attempt: its node and number.
pub type NodeAttempt = (NodeId, u32);

/// The credits of a run with a budget.
///
/// # Examples
///
/// ```
/// use ostler_kernel::run::RunBudget;
/// let (mut budget, one, other) = (RunBudget::new(120), ("a".into(), 1), ("b".into(), 1));
/// assert_eq!(budget.reserve(&one, 60_000), Some(50));
/// assert_eq!(budget.reserve(&other, 60_000), Some(50));
/// assert_eq!(budget.reserve(&one, 60_000), Some(70));
/// assert_eq!(budget.reserve(&other, 60_000), None, "nothing is free");
/// budget.settle(&one, 10);
/// assert_eq!(budget.free(), 60);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBudget {
    budget: u64,
    /// Cost of ended attempts, by the records of the run.
    spent: u64,
    /// Credits given to child runs.
    opened: u64,
    /// Credits reserved by running attempts.
    reserved: BTreeMap<NodeAttempt, u64>,
}

impl RunBudget {
    /// A budget of `budget` credits, all free.
    pub fn new(budget: u64) -> RunBudget {
        RunBudget { budget, spent: 0, opened: 0, reserved: BTreeMap::new() }
    }

    /// Takes over the records: `spent` is the cost of ended attempts, `opened` the credits of child runs. Only the attempts for
    /// which `runs` holds keep their reservation.
    pub fn restore(&mut self, spent: u64, opened: u64, runs: impl Fn(&NodeAttempt) -> bool) {
        // A running attempt may have funded a child run whose record is not written yet.
        (self.spent, self.opened) = (spent, self.opened.max(opened));
        self.reserved.retain(|attempt, _| runs(attempt));
    }

    /// Credits that are neither spent, given to child runs nor reserved.
    pub fn free(&self) -> u64 {
        let reserved = self.reserved.values().fold(0, |sum: u64, reserved| sum.saturating_add(*reserved));
        self.budget.saturating_sub(self.spent.saturating_add(self.opened).saturating_add(reserved))
    }

    /// Raises the reservation of an attempt by one share, up to `most` credits. Returns the new total; `None` if the attempt can
    /// get no more.
    pub fn reserve(&mut self, attempt: &NodeAttempt, most: u64) -> Option<u64> {
        let (free, before) = (self.free(), self.reserved(attempt));
        let share = (free / SHARE).max(SHARE_MIN).min(free).min(most.saturating_sub(before));
        if share == 0 {
            return None;
        }
        self.reserved.insert(attempt.clone(), before + share);
        Some(before + share)
    }

    /// What an attempt that ended is charged for `cost` credits of time: the cost, as far as the attempt can reserve it. An attempt
    /// ends at its reservation; what the process took to notice the end is not charged.
    pub fn chargeable(&mut self, attempt: &NodeAttempt, cost: u64) -> u64 {
        while self.reserved(attempt) < cost && self.reserve(attempt, cost).is_some() {}
        cost.min(self.reserved(attempt))
    }

    /// Credits that an attempt has reserved.
    pub fn reserved(&self, attempt: &NodeAttempt) -> u64 {
        self.reserved.get(attempt).copied().unwrap_or(0)
    }

    /// True if an attempt without a reservation has to wait: nothing is free now, but running attempts may return some of theirs.
    pub fn must_wait(&self, attempt: &NodeAttempt) -> bool {
        self.free() == 0 && !self.reserved.is_empty() && self.reserved(attempt) == 0
    }

    /// True if nothing is free and no running attempt could return anything: no attempt starts any more.
    pub fn is_exhausted(&self) -> bool {
        self.free() == 0 && self.reserved.is_empty()
    }

    /// Gives credits to a child run: `asked`, or half of the free credits, because the waiting attempt needs some as well.
    ///
    /// # Errors
    ///
    /// The free credits, if those are fewer than asked for or 0.
    pub fn fund_child(&mut self, asked: Option<u64>) -> Result<u64, u64> {
        let free = self.free();
        let given = asked.unwrap_or(free.div_ceil(2));
        if given > free || free == 0 {
            return Err(free);
        }
        self.opened = self.opened.saturating_add(given);
        Ok(given)
    }

    /// Takes back the credits of a child run that was not opened after all.
    pub fn refund_child(&mut self, given: u64) {
        self.opened = self.opened.saturating_sub(given);
    }

    /// Releases the reservation of an attempt that ended or will not start. `spent` is the cost of all ended attempts by the
    /// records of the run.
    pub fn settle(&mut self, attempt: &NodeAttempt, spent: u64) {
        self.reserved.remove(attempt);
        self.spent = self.spent.max(spent);
    }

    /// True if no attempt has a reservation.
    pub fn is_idle(&self) -> bool {
        self.reserved.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An event in the life of a run with a budget.
    #[derive(Debug, Clone)]
    enum Happens {
        Asks {
            node: u8,
            most: u64,
        },
        Opens(Option<u64>),
        /// Ends after this time in credits, whatever was reserved.
        Ends {
            node: u8,
            cost: u64,
        },
        /// Another process recovers the run: every running attempt is lost.
        Restart,
        /// The run's actor restarts, and this attempt no longer runs.
        Reload {
            lost: u8,
        },
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            6 => (0..6u8, 0..100_000u64).prop_map(|(node, most)| Happens::Asks { node, most }),
            1 => proptest::option::of(0..50_000u64).prop_map(Happens::Opens),
            3 => (0..6u8, 0..20_000u64).prop_map(|(node, cost)| Happens::Ends { node, cost }),
            1 => Just(Happens::Restart),
            1 => (0..6u8).prop_map(|lost| Happens::Reload { lost }),
        ]
    }

    fn attempt(node: u8) -> NodeAttempt {
        (NodeId::from(format!("n{node}").as_str()), 1)
    }

    proptest! {
        #[test]
        fn what_is_spent_given_and_set_aside_is_never_more_than_the_budget(
            budget in 0..200_000u64,
            all in proptest::collection::vec(happens(), 0..200),
        ) {
            let mut run_budget = RunBudget::new(budget);
            let (mut spent, mut opened) = (0u64, 0u64);
            let mut reserved = BTreeMap::<u8, u64>::new();
            for one in all {
                match one {
                    Happens::Asks { node, most } => {
                        let before = reserved.get(&node).copied().unwrap_or(0);
                        match run_budget.reserve(&attempt(node), most) {
                            Some(now) => {
                                prop_assert!(before < now && now <= most.max(before));
                                reserved.insert(node, now);
                            }
                            None => prop_assert!(run_budget.free() == 0 || before >= most),
                        }
                    }
                    Happens::Opens(asked) => {
                        let free = run_budget.free();
                        match run_budget.fund_child(asked) {
                            Ok(given) => {
                                prop_assert_eq!(given, asked.unwrap_or(free.div_ceil(2)));
                                opened += given;
                            }
                            Err(left) => prop_assert!(left == free && (free == 0 || asked > Some(free))),
                        }
                    }
                    Happens::Ends { node, cost } => {
                        let Some(held) = reserved.remove(&node) else { continue };
                        let most = held + run_budget.free();
                        let charged = run_budget.chargeable(&attempt(node), cost);
                        prop_assert_eq!(charged, cost.min(most), "all of the cost that the budget has");
                        spent += charged;
                        run_budget.settle(&attempt(node), spent);
                    }
                    Happens::Reload { lost } => {
                        reserved.remove(&lost);
                        run_budget.restore(spent, opened, |of| *of != attempt(lost));
                    }
                    Happens::Restart => {
                        reserved.clear();
                        run_budget = RunBudget::new(budget);
                        run_budget.restore(spent, opened, |_| true);
                    }
                }
                let running: u64 = reserved.values().sum();
                prop_assert!(spent + opened + running <= budget);
                prop_assert_eq!(run_budget.free(), budget - spent - opened - running, "and none of it is lost");
            }
        }
    }

    #[test]
    fn who_finds_nothing_free_waits_only_for_others() {
        let mut run_budget = RunBudget::new(50);
        assert!(!run_budget.must_wait(&attempt(1)), "there is some");
        assert_eq!(run_budget.reserve(&attempt(0), 1_000), Some(50));
        assert!(run_budget.must_wait(&attempt(1)) && !run_budget.must_wait(&attempt(0)));
        run_budget.settle(&attempt(0), 50);
        assert!(!run_budget.must_wait(&attempt(1)), "nobody leaves anything any more");
        assert_eq!(run_budget.reserve(&attempt(1), 1_000), None);
    }
}
