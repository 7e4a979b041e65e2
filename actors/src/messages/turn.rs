//! The end of a wait for a turn in the workspace.

use crate::base::keys::AttemptKey;
use crate::base::workspace_turns::Turn;

pub(crate) struct TurnEnd {
    pub(crate) key: AttemptKey,
    /// The turn alone, `None` if one that others share may be had, or the call that wrote for too long.
    pub(crate) came: Result<Option<Turn>, AttemptKey>,
}
