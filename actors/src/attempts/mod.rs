//! Attempts: what executes outside the actors, the journal it keeps, and agents written as code.

pub(crate) mod attempt;
pub(crate) mod attempt_journal;
pub(crate) mod attempt_table;
pub(crate) mod children;
pub(crate) mod program;
