//! The budget of a run while several attempts of it run at once: what each may cost is set aside before it costs it.

use std::collections::BTreeMap;

use crate::id::NodeId;

/// The share of what is free that an attempt is given at a time: one in so many.
const SHARE: u64 = 64;

/// Credits that it is given at least, as far as they are there; it asks again when it has used them.
const SHARE_MIN: u64 = 50;

/// An attempt of a node: which, and its number.
pub type NodeAttempt = (NodeId, u32);

/// What a run has of its budget. What was spent, what was given to runs that it opened, and what is set aside for attempts that are
/// under way is never more than the budget, as long as no attempt costs more than what is set aside for it.
///
/// # Examples
///
/// ```
/// use ostler_kernel::run::RunBudget;
/// let (mut run_budget, one, other) = (RunBudget::new(120), ("a".into(), 1), ("b".into(), 1));
/// assert_eq!(run_budget.reserve(&one, 60_000), Some(50));
/// assert_eq!(run_budget.reserve(&other, 60_000), Some(50));
/// assert_eq!(run_budget.reserve(&one, 60_000), Some(70));
/// assert_eq!(run_budget.reserve(&other, 60_000), None, "nothing is free");
/// run_budget.settle(&one, 10);
/// assert_eq!(run_budget.free(), 60);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBudget {
    budget: u64,
    /// By the records of the run.
    spent: u64,
    /// Given to runs that its attempts opened.
    opened: u64,
    /// Set aside for attempts that are under way.
    reserved: BTreeMap<NodeAttempt, u64>,
}

impl RunBudget {
    /// A budget of which nothing was spent yet.
    pub fn new(budget: u64) -> RunBudget {
        RunBudget { budget, spent: 0, opened: 0, reserved: BTreeMap::new() }
    }

    /// Takes over what the records say: credits that attempts cost which ended, and credits given to runs that were opened. Only
    /// attempts that run keep what is set aside for them.
    pub fn restore(&mut self, spent: u64, opened: u64, runs: impl Fn(&NodeAttempt) -> bool) {
        // An attempt that runs may have given away what is not recorded yet.
        (self.spent, self.opened) = (spent, self.opened.max(opened));
        self.reserved.retain(|attempt, _| runs(attempt));
    }

    /// Credits that are neither spent nor set aside.
    pub fn free(&self) -> u64 {
        let reserved = self.reserved.values().fold(0, |sum: u64, reserved| sum.saturating_add(*reserved));
        self.budget.saturating_sub(self.spent.saturating_add(self.opened).saturating_add(reserved))
    }

    /// Sets more aside for an attempt, `most` credits in all at most: gives what it may cost in all. `None`: there is no more for it.
    pub fn reserve(&mut self, attempt: &NodeAttempt, most: u64) -> Option<u64> {
        let (free, before) = (self.free(), self.reserved(attempt));
        let share = (free / SHARE).max(SHARE_MIN).min(free).min(most.saturating_sub(before));
        if share == 0 {
            return None;
        }
        self.reserved.insert(attempt.clone(), before + share);
        Some(before + share)
    }

    /// What is set aside for an attempt.
    pub fn reserved(&self, attempt: &NodeAttempt) -> u64 {
        self.reserved.get(attempt).copied().unwrap_or(0)
    }

    /// Whether an attempt that has nothing yet gets nothing now, and may later: others may leave some of theirs.
    pub fn must_wait(&self, attempt: &NodeAttempt) -> bool {
        self.free() == 0 && !self.reserved.is_empty() && self.reserved(attempt) == 0
    }

    /// Whether nothing is free and nobody is left who would leave any: nothing more is started.
    pub fn is_exhausted(&self) -> bool {
        self.free() == 0 && self.reserved.is_empty()
    }

    /// Gives credits to a run that an attempt opens: as many as it asks for, or half of what is free, as the attempt pays for waiting
    /// as long as that run takes.
    ///
    /// # Errors
    ///
    /// What is free, if that is less.
    pub fn fund_child(&mut self, asked: Option<u64>) -> Result<u64, u64> {
        let free = self.free();
        let given = asked.unwrap_or(free.div_ceil(2));
        if given > free || free == 0 {
            return Err(free);
        }
        self.opened = self.opened.saturating_add(given);
        Ok(given)
    }

    /// A run that was given credits was not opened after all.
    pub fn refund_child(&mut self, given: u64) {
        self.opened = self.opened.saturating_sub(given);
    }

    /// An attempt has ended, or does not start: by the records of the run all that ended cost `spent`.
    pub fn settle(&mut self, attempt: &NodeAttempt, spent: u64) {
        self.reserved.remove(attempt);
        self.spent = self.spent.max(spent);
    }

    /// Whether nothing is set aside.
    pub fn is_idle(&self) -> bool {
        self.reserved.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Something that happens to a run with a budget.
    #[derive(Debug, Clone)]
    enum Happens {
        Asks {
            node: u8,
            most: u64,
        },
        Opens(Option<u64>),
        /// It has cost that share of what was set aside for it, in 255ths.
        Ends {
            node: u8,
            of: u8,
        },
        /// Another process takes the run up: what ran is lost.
        Restart,
        /// Its actor is started again, and this attempt is not among those that run.
        Reload {
            lost: u8,
        },
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            6 => (0..6u8, 0..100_000u64).prop_map(|(node, most)| Happens::Asks { node, most }),
            1 => proptest::option::of(0..50_000u64).prop_map(Happens::Opens),
            3 => (0..6u8, any::<u8>()).prop_map(|(node, of)| Happens::Ends { node, of }),
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
                    Happens::Ends { node, of } => {
                        let may = reserved.remove(&node).unwrap_or(0);
                        spent += may * u64::from(of) / 255;
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
