//! Oversight: the steps of an agent that a person has to approve. Each mode asks for everything that the mode before it asks
//! for.
//!
//! A *checkpoint* is routine: a result is about to be published. An *escalation* has a cause: a step with impact 2
//! (control), or a result with low confidence.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{NodeId, RunId, Ticks};
use crate::lineage;

/// Oversight mode of an agent; later modes ask for more (definition 3 of the Agent Scheduler paper, in corrected order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversight {
    /// Asks for escalations only.
    #[default]
    AutonomousEscalation,
    /// Asks for escalations, and for [`SPOT_CHECKS_PERCENT`] percent of the checkpoints.
    SpotCheck,
    /// Asks for escalations and all checkpoints.
    Supervised,
}

/// Kind of an approval request by oversight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Routine: a result.
    Checkpoint,
    /// An exception: control, or low confidence.
    Escalation,
}

/// Percentage of checkpoints that spot checks ask for.
pub const SPOT_CHECKS_PERCENT: u64 = 30;

/// Confidence below which a result escalates.
pub const CONFIDENCE_MIN: f64 = 0.7;

/// Time for an answer if the plan sets none, in milliseconds: one day.
pub const OVERSIGHT_WAIT: Ticks = 86_400_000;

impl Oversight {
    /// All modes, the freest first.
    pub const ALL: [Oversight; 3] =
        [Oversight::AutonomousEscalation, Oversight::SpotCheck, Oversight::Supervised];

    /// True if a person has to approve a step whose draw is `draw` (see [`spot_draw`]).
    ///
    /// ```
    /// use ostler_kernel::agent::{Oversight, RequestKind};
    /// let asks = |draw| Oversight::ALL.map(|mode| mode.asks(RequestKind::Checkpoint, draw));
    /// assert_eq!(asks(0), [false, true, true]);
    /// assert_eq!(asks(u64::MAX), [false, false, true]);
    /// assert!(Oversight::ALL.iter().all(|mode| mode.asks(RequestKind::Escalation, u64::MAX)));
    /// ```
    pub fn asks(self, kind: RequestKind, draw: u64) -> bool {
        match (self, kind) {
            (_, RequestKind::Escalation) | (Oversight::Supervised, RequestKind::Checkpoint) => true,
            (Oversight::SpotCheck, RequestKind::Checkpoint) => {
                u128::from(draw) * 100 < u128::from(SPOT_CHECKS_PERCENT) << 64
            }
            (Oversight::AutonomousEscalation, RequestKind::Checkpoint) => false,
        }
    }

    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Oversight::AutonomousEscalation => "autonomous_escalation",
            Oversight::SpotCheck => "spot_check",
            Oversight::Supervised => "supervised",
        }
    }
}

impl fmt::Display for Oversight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The draw of a step for spot checks, uniform in 0..2^64: the first eight bytes, little-endian, of `H("aos/spot/1", run,
/// node, generation)`. Equal on every replay.
pub fn spot_draw(run: RunId, node: &NodeId, generation: u64) -> u64 {
    let mut text = uuid::Uuid::encode_buffer();
    let run = run.0.hyphenated().encode_lower(&mut text);
    let digest =
        lineage::hash("aos/spot/1", &[run.as_bytes(), node.as_str().as_bytes(), &generation.to_le_bytes()]);
    let mut draw = [0; 8];
    draw.copy_from_slice(&digest.0[..8]);
    u64::from_le_bytes(draw)
}

/// True if a result reports a low confidence: a map with a number `confidence` below [`CONFIDENCE_MIN`].
///
/// ```
/// use ostler_kernel::agent::is_unsure;
/// assert!(is_unsure(&serde_json::json!({"risk": "high", "confidence": 0.4})));
/// assert!(!is_unsure(&serde_json::json!({"risk": "high", "confidence": 0.7})));
/// assert!(!is_unsure(&serde_json::json!({"risk": "high"})));
/// ```
pub fn is_unsure(result: &Value) -> bool {
    result.get("confidence").and_then(Value::as_f64).is_some_and(|confidence| confidence < CONFIDENCE_MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stricter_mode_asks_whatever_a_freer_one_asks(draw in any::<u64>()) {
            for kind in [RequestKind::Checkpoint, RequestKind::Escalation] {
                let asks = Oversight::ALL.map(|mode| mode.asks(kind, draw));
                prop_assert!(asks.is_sorted(), "{asks:?}");
            }
        }
    }

    #[test]
    fn a_spot_check_asks_about_three_in_ten_and_always_the_same() {
        let run = RunId(uuid::Uuid::from_u128(7));
        let nodes: Vec<NodeId> = (0..10_000).map(|at| NodeId::from(format!("n{at}").as_str())).collect();
        let asked =
            |node: &NodeId| Oversight::SpotCheck.asks(RequestKind::Checkpoint, spot_draw(run, node, 1));
        let first: Vec<bool> = nodes.iter().map(asked).collect();
        assert_eq!(nodes.iter().map(asked).collect::<Vec<_>>(), first);
        let count = first.iter().filter(|&&asked| asked).count();
        assert!((2_800..=3_200).contains(&count), "{count} of 10,000");
    }
}
