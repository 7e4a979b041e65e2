//! Operator keys.

use serde::{Deserialize, Serialize};

pub use crate::operator::OperatorRow;

/// The answer to `GET /v1/operators`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorList {
    /// The accepted keys, oldest first.
    pub operators: Vec<OperatorRow>,
}
