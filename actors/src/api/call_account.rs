//! The account that pays for the calls of models of a run.

use ostler_kernel::port::JournalError;

use crate::api::system::System;
use crate::api::view::RunView;
use crate::state::call_accounts::{CallAccountView, Payer};

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
}
