//! The state of an attempt's turn among the calls that may write.

use std::sync::Arc;

use crate::base::workspace_turns::Turn;

/// A turn, while the call goes on and waits for no child run.
#[derive(Default)]
pub(super) struct TurnState {
    /// Programs and requests of the call hold it too, until they have ended.
    pub(super) held: Option<Arc<Turn>>,
    /// The call writes, so it takes a turn again after a wait.
    pub(super) is_wanted: bool,
    /// The turn is held alone, for an approved call.
    pub(super) is_alone: bool,
    /// A turn alone was given back.
    pub(super) was_alone: bool,
    /// Child runs that the call waits for.
    pub(super) waits: u32,
}
