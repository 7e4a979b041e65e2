//! What an attempt holds of its turn among the calls that may write.

use crate::base::workspace_turns::Turn;

/// A turn that is shared, while the call goes on and asks nobody.
#[derive(Debug, Default)]
pub(super) struct SharedTurn {
    pub(super) held: Option<Turn>,
    /// The call has begun with a turn.
    pub(super) is_wanted: bool,
    /// Open questions of the call to people.
    pub(super) questions: u32,
}
