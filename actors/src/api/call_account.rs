//! The account that pays for the calls of models of a run.

use std::collections::BTreeMap;

use ostler_kernel::event::{CallReserved, Event};
use ostler_kernel::port::{JournalError, StreamId};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::state::call_accounts::{CallAccountView, Payer};
use crate::storage::run_reader;

impl System {
    /// The budget of a run's calls of models, with what the run and all runs that share it used; `None`: the run has none.
    ///
    /// # Errors
    ///
    /// The records of the account cannot be read.
    pub fn call_account(&self, view: &RunView) -> Result<Option<CallAccountView>, JournalError> {
        let payer = Payer::new(view.opened.run, &view.opened.client, view.run.call_terms());
        let read = |account| self.services.call_accounts.view(account, &payer.client);
        payer.account.map(read).transpose()
    }

    /// The calls of models that were lost with their process, in the order of their numbers: reserved, and never settled, so each
    /// counts in full.
    ///
    /// # Errors
    ///
    /// The records of the attempts cannot be read.
    pub fn lost_calls(&self, view: &RunView) -> Result<Vec<CallReserved>, JournalError> {
        let mut lost = self.unsettled(view)?;
        lost.retain(|call, _| !self.services.call_accounts.is_open(*call));
        if !lost.is_empty() {
            // A call of this process may have ended since its records were read.
            let again = self.unsettled(view)?;
            lost.retain(|call, _| again.contains_key(call));
        }
        Ok(lost.into_values().collect())
    }

    /// The reservations without a settlement, by number.
    fn unsettled(&self, view: &RunView) -> Result<BTreeMap<u64, CallReserved>, JournalError> {
        let mut open = BTreeMap::new();
        let stream = StreamId::attempts(&view.opened.client, view.opened.run);
        run_reader::each(&**self.services.journal, stream, None, |record| -> Result<(), JournalError> {
            match &record.event {
                Event::CallReserved(call) => drop(open.insert(call.call, (**call).clone())),
                Event::CallSettled(call) => drop(open.remove(&call.call)),
                _ => {}
            }
            Ok(())
        })?;
        Ok(open)
    }
}
