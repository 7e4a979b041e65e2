//! The answer of the clearance authority to a waiting attempt.

use ostler_kernel::event::Accounts;
use ostler_kernel::gate::{DenialCode, Seal};

use crate::base::keys::AttemptKey;
use crate::messages::slots::Ticket;

/// The authority's answer about the call with this seal.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) seal: Seal,
    pub(crate) said: Result<(), DenialCode>,
}

/// The resources of an attempt that waits for the authority: needed to begin the attempt after the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning {
    pub(crate) slot: Ticket,
    pub(crate) accounts: Accounts,
    /// True if the attempt is a repetition of an attempt that was lost with its process.
    pub(crate) again: bool,
}

/// The end of a question to the authority. Without an answer, the question was cancelled: no attempt waits any more.
pub(crate) struct ClearanceEnd {
    pub(crate) key: AttemptKey,
    pub(crate) begun: Beginning,
    pub(crate) answer: Option<Answer>,
}
