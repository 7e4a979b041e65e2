//! Waits of attempts that are about to begin for the answer of the clearance authority.

use ostler_kernel::event::Accounts;
use ostler_kernel::gate::{DenialCode, Seal};

use crate::base::keys::AttemptKey;
use crate::base::workspace_turns::Turn;
use crate::messages::slots::Ticket;

/// The authority's answer about the call with this seal.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) seal: Seal,
    pub(crate) said: Result<(), DenialCode>,
}

/// The resources of an attempt that waits: needed to begin the attempt afterwards.
pub(crate) struct Beginning {
    pub(crate) slot: Ticket,
    pub(crate) accounts: Accounts,
    /// True if the attempt is a repetition of an attempt that was lost with its process.
    pub(crate) again: bool,
    /// The turn that the attempt has waited for: without it, other calls would write before the answer, again and again.
    pub(crate) turn: Option<Turn>,
}

/// The end of a wait. Without an answer the wait was cancelled: no attempt waits any more.
pub(crate) struct ClearanceAnswer {
    pub(crate) key: AttemptKey,
    pub(crate) begun: Beginning,
    pub(crate) answer: Option<Answer>,
}
