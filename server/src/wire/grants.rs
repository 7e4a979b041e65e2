//! Grants: calls allowed without further questions.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Calls that an approval grants beyond its own call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// Words of the argument list, such as `git push *`.
    pub pattern: String,
    /// Validity in milliseconds, at most a day.
    pub valid_ms: NonZeroU32,
}

/// A grant in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRow {
    /// Id of the grant.
    pub id: String,
    /// Client of the covered runs.
    pub client: String,
    /// Workspace of the covered runs.
    pub workspace: String,
    /// The tool.
    pub tool: String,
    /// Words of the argument list.
    pub pattern: String,
    /// Files that must be as the approved call found them, by path below the workspace.
    pub files: Vec<String>,
    /// End of the validity, in milliseconds since the Unix epoch.
    pub until_ms: i64,
    /// Operator of the grant.
    pub by: String,
}

/// The answer to `GET /v1/grants`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantList {
    /// The grants in force, ordered by the end of validity.
    pub grants: Vec<GrantRow>,
}
