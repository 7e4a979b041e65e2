//! Access to the journal and the artifact store.

pub(crate) mod disk_space;
pub(crate) mod event_cursor;
pub(crate) mod journal_client;
pub(crate) mod plans;
pub(crate) mod program_output;
pub(crate) mod results;
pub(crate) mod run_reader;
pub(crate) mod runs_around;
pub(crate) mod step_logs;
