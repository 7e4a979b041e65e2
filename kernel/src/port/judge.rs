//! Judges: opinions on the quality of a run.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{AttemptLog, BoxFuture};
use crate::id::{AgentId, RunId};
use crate::plan::Rule;
use crate::run::RunOutcome;

/// Stands for a node in the records of the calls of models that the judge of a run makes. No node of a plan has such an id.
pub const RUN_JUDGE: &str = "(judge)";

/// A run to judge.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRun {
    /// Id of the run.
    pub run: RunId,
    /// The agent that executed the run.
    pub agent: AgentId,
    /// Id of the plan.
    pub plan: String,
    /// Purpose of the plan in its author's words.
    pub title: Option<String>,
    /// The plan's contract over its outputs.
    pub contract: Vec<Rule>,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Results of the executed outputs, by node.
    pub outputs: Map<String, Value>,
}

/// Opinion of a judge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opinion {
    /// Quality in thousandths.
    pub quality_pm: u16,
    /// Adherence to the purpose and the contracts, in thousandths. It can lower the adherence of the records, and never
    /// raises it. `None`: no opinion.
    pub adherence_pm: Option<u16>,
    /// Reason, in one line.
    pub note: String,
}

/// Judges the quality of a run's outputs: code, a model or a service. Asked once per run, after its last attempt and before
/// the scores are recorded.
pub trait Judge: Send + Sync + 'static {
    /// Name of the judge, as evaluations show it.
    fn name(&self) -> &str;

    /// Judges a run. An error, in words, leaves the quality unknown. Dropping the future loses the opinion. After a crash
    /// the judge is asked again.
    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>>;

    /// As [`Judge::judge`], for a judge that calls models: each call takes its turn from `bill` and is paid there. The default pays
    /// nothing.
    fn judge_in_turn(
        &self,
        work: JudgedRun,
        bill: Arc<dyn AttemptLog>,
    ) -> BoxFuture<'_, Result<Opinion, String>> {
        let _ = bill;
        self.judge(work)
    }
}

impl fmt::Debug for dyn Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Judge({})", self.name())
    }
}
