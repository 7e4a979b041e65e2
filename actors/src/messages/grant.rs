//! Giving and revoking grants.

use ostler_kernel::grant::{GRANTS_MAX, PatternError};
use ostler_kernel::id::NodeId;
use ostler_kernel::port::JournalError;

use crate::base::error::RunError;

/// Error of giving or revoking a grant; nothing has changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GrantError {
    /// The pattern is malformed.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The validity is out of range.
    #[error("a grant holds for 1 ms to a day, not {0} ms")]
    Validity(i64),
    /// The question is not about the start of a call with an argument list.
    #[error(
        "node {0}: its question is not about the start of a call with an argument list, so there is nothing to grant further"
    )]
    NoCall(NodeId),
    /// The call, or a file that it names, is another one than the person saw.
    #[error(
        "node {0}: the call has changed since it was shown; look at it with `ostler approvals`, and approve it anew"
    )]
    Changed(NodeId),
    /// The pattern does not fit the approved call.
    #[error("the pattern does not fit the call that is approved, {0}")]
    OtherCall(String),
    /// [`GRANTS_MAX`] grants are in force.
    #[error("there are {GRANTS_MAX} grants in force: revoke one first, with `ostler approvals revoke ID`")]
    TooMany,
    /// No such grant is in force.
    #[error("no grant {0} is in force; `ostler approvals --grants` lists them")]
    Unknown(String),
    /// The question cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}
