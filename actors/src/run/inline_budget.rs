//! Budget of inline attempts in one turn.

use std::time::Duration;

use tokio::time::Instant;

/// Inline attempts in one turn. Other futures get the thread before the next turn.
pub(super) const IN_A_ROW_MAX: u32 = 64;

/// Granted slots in one turn, so that the resulting events fit into one append.
pub(super) const SLOTS_IN_A_TURN: u32 = 256;

/// Time for inline attempts in one turn; later attempts of the turn get tasks.
pub(super) const AT_ONCE: Duration = Duration::from_millis(2);

/// Time for looks in one turn: requests to the run are answered between turns.
const LOOKS_IN_A_TURN: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(super) struct InlineBudget {
    pub(super) started: Option<Instant>,
    pub(super) attempts: u32,
    pub(super) grants: u32,
    /// Time of looks at the files of questions.
    pub(super) looks: Duration,
    /// Credits charged for attempts that are not appended yet.
    pub(super) unrecorded: u64,
}

impl InlineBudget {
    pub(super) fn begin(&mut self) {
        (self.started, self.attempts, self.grants, self.looks) = (None, 0, 0, Duration::ZERO);
    }

    pub(super) fn count_look(&mut self, begun: Instant) {
        self.looks += begun.elapsed();
    }

    pub(super) fn count_grant(&mut self) {
        self.grants += 1;
    }

    /// True if the rest must wait for another turn.
    pub(super) fn is_full(&self) -> bool {
        self.grants >= SLOTS_IN_A_TURN || self.attempts >= IN_A_ROW_MAX || self.looks >= LOOKS_IN_A_TURN
    }

    pub(super) fn recorded(&mut self) {
        self.unrecorded = 0;
    }
}
