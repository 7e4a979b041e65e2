//! Grants.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// What an approval grants beyond its own call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// Words of the argument list, such as `git push *`.
    pub pattern: String,
    /// Validity, at most a day.
    pub valid_ms: NonZeroU32,
}

/// A grant in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRow {
    /// Id of the grant.
    pub id: String,
    /// Runs of the client alone are covered.
    pub client: String,
    /// The tool.
    pub tool: String,
    /// Words of the argument list.
    pub pattern: String,
    /// End of the validity, in milliseconds since the Unix epoch.
    pub until_ms: i64,
    /// The operator who gave it.
    pub by: String,
}

/// The answer to `GET /v1/grants`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantList {
    /// The grants in force, by their end.
    pub grants: Vec<GrantRow>,
}
