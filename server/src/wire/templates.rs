//! Templates: plans learnt from runs.

use std::collections::BTreeMap;

use ostler_kernel::policy::TemplateRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A plan learnt from a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearntPlan {
    /// The run.
    pub run: String,
    /// The plan file, with `${NAME}` for parameters.
    pub plan: Value,
    /// Values of the parameters in the run.
    pub params: BTreeMap<String, String>,
    /// Texts of strangers may have steered the steps.
    pub tainted: bool,
}

/// What became of the latest runs of templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TemplateRecords {
    /// Records by name; absent: never run.
    pub records: BTreeMap<String, TemplateRecord>,
}
