//! The components that the run queue uses.

use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::system_status::SystemStatus;
use crate::messages::mailboxes::Mailboxes;
use crate::metrics::Measures;
use crate::state::attempt_table::AttemptTable;
use crate::state::ledger::Ledger;
use crate::state::rates::Rates;

pub(crate) struct QueueContext {
    pub(crate) attempts: Arc<AttemptTable>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) measures: Measures,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<SystemStatus>,
    pub(crate) jobs_max: u32,
    pub(crate) rates: Arc<Rates>,
}
