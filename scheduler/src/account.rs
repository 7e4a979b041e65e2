//! Exact virtual time: the charge of a client or an agent divided by its weight.

/// Least virtual time: refunds below it are cut off, so that sums cannot overflow.
pub(crate) const VRUNTIME_MIN: i64 = -(1 << 62);
/// Highest virtual time that an account can be restored to: the greatest `rebase_at`, plus the greatest distance that charges and
/// reweighing can put between an account and its queue.
pub(crate) const VRUNTIME_MAX: i64 = (1 << 61) + (1 << 53);

/// The account of a client or an agent.
pub(crate) struct Account {
    pub(crate) vruntime: i64,
    /// Remainder of the division by the weight, below the weight; the next charge adds it, so no rounding is lost.
    pub(crate) remainder: u32,
    pub(crate) weight: u32,
    /// Breaks ties; drawn on waking and at each dispatch. 0 before the first.
    pub(crate) seq: u64,
    pub(crate) runnable: bool,
}

impl Account {
    pub(crate) fn new(weight: u32) -> Self {
        Self { vruntime: 0, remainder: 0, weight, seq: 0, runnable: false }
    }

    /// Adds `charge * scale / weight` to the virtual time; a negative charge is a refund.
    #[inline]
    pub(crate) fn charge(&mut self, charge: i64, scale: i64) {
        let weight = i64::from(self.weight);
        let due = charge * scale + i64::from(self.remainder);
        let steps = due.div_euclid(weight);
        self.remainder = (due - steps * weight) as u32;
        self.vruntime = (self.vruntime + steps).max(VRUNTIME_MIN);
    }

    /// Places the account on waking: at `floor`, the virtual time of its queue, unless debt puts it later.
    #[inline]
    pub(crate) fn wake(&mut self, floor: i64, seq: u64) {
        self.vruntime = self.vruntime.max(floor);
        self.seq = seq;
    }

    /// Changes the weight; the distance to `floor`, the virtual time of the queue, stays the same in units of cost.
    pub(crate) fn reweigh(&mut self, weight: u32, floor: i64) {
        if weight == self.weight {
            return;
        }
        let lag = (i128::from(self.vruntime) - i128::from(floor)) * i128::from(self.weight);
        let vruntime = i128::from(floor) + lag.div_euclid(i128::from(weight));
        self.vruntime = vruntime.clamp(i128::from(VRUNTIME_MIN), i128::from(VRUNTIME_MAX)) as i64;
        self.remainder = 0;
        self.weight = weight;
    }

    pub(crate) fn shift(&mut self, by: i64) {
        self.vruntime = self.vruntime.saturating_add(by).max(VRUNTIME_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_and_refunds_leave_no_rounding_behind() {
        let mut account = Account::new(777);
        for charge in [1, 1000, 3, -1000, -4, 1 << 32, -(1 << 32)] {
            account.charge(charge, 65536);
            assert!(account.remainder < 777);
        }
        assert_eq!((account.vruntime, account.remainder), (0, 0));
    }

    #[test]
    fn reweighing_keeps_the_lag_in_units_of_cost() {
        let mut account = Account { vruntime: 1000, ..Account::new(100) };
        account.reweigh(300, 400);
        assert_eq!(account.vruntime, 600);
        account.reweigh(100, 400);
        assert_eq!(account.vruntime, 1000);
    }

    #[test]
    fn virtual_time_stops_at_its_least_value() {
        let mut account = Account { vruntime: VRUNTIME_MIN + 1, ..Account::new(1) };
        account.charge(-5, 1);
        assert_eq!(account.vruntime, VRUNTIME_MIN);
        account.shift(-1);
        assert_eq!(account.vruntime, VRUNTIME_MIN);
    }
}
