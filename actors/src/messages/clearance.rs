//! The answer of the clearance authority, for the attempt that waits for it.

use ostler_kernel::event::Accounts;
use ostler_kernel::gate::{DenialCode, Seal};

use crate::base::keys::AttemptKey;
use crate::messages::slots::Ticket;

/// What the authority said about the call with this seal.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) seal: Seal,
    pub(crate) said: Result<(), DenialCode>,
}

/// How an attempt that asks is begun again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    pub(crate) slot: Ticket,
    pub(crate) accounts: Accounts,
    /// The attempt was lost with its process.
    pub(crate) again: bool,
}

/// The end of a question; without an answer, it was ended because nobody waited for one any more.
pub(crate) struct ClearanceEnd {
    pub(crate) key: AttemptKey,
    pub(crate) begun: Beginning,
    pub(crate) answer: Option<Answer>,
}
