//! The end of a wait for a turn in the workspace.

use crate::base::keys::AttemptKey;
use crate::base::workspace_turns::Turn;

pub(crate) struct TurnEnd {
    pub(crate) key: AttemptKey,
    /// The turn, or the call that wrote for too long.
    pub(crate) came: Result<Turn, AttemptKey>,
}
