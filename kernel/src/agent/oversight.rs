//! How far people watch an agent. Three modes, each of which asks whatever the one before it asks.
//!
//! There are two kinds of requests. A *checkpoint* is routine: a result is about to be used. An *escalation* has a reason: a
//! step that is about to control something (impact 2), or a result that says of itself that it may be wrong.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{NodeId, RunId, Ticks};
use crate::lineage;

/// How far people watch an agent; the later ones ask for more (definition 3 of the Agent Scheduler paper, with its order
/// put right).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversight {
    /// Escalations alone.
    #[default]
    AutonomousEscalation,
    /// Escalations, and [`SPOT_CHECKS_PERCENT`] of a hundred checkpoints: always the same ones.
    SpotCheck,
    /// Escalations, and every checkpoint.
    Supervised,
}

/// What a person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A result, as every step has one.
    Checkpoint,
    /// Something that is out of the ordinary.
    Escalation,
}

/// Checkpoints of a hundred that a spot check asks about.
pub const SPOT_CHECKS_PERCENT: u64 = 30;

/// A result that names a confidence below this one escalates.
pub const CONFIDENCE_MIN: f64 = 0.7;

/// Milliseconds after which silence ends a question that no plan sets a time for: a day.
pub const OVERSIGHT_WAIT: Ticks = 86_400_000;

impl Oversight {
    /// Every mode, the freest first.
    pub const ALL: [Oversight; 3] =
        [Oversight::AutonomousEscalation, Oversight::SpotCheck, Oversight::Supervised];

    /// Whether a person is asked, when the step drew `draw` (see [`spot_draw`]).
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

    /// The word used in files.
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

/// What a step draws for spot checks, of 2^64: the first eight bytes, little-endian, of
/// `H("aos/spot/1", run, node, generation)`. Whoever decides again draws the same.
pub fn spot_draw(run: RunId, node: &NodeId, generation: u64) -> u64 {
    let mut text = uuid::Uuid::encode_buffer();
    let run = run.0.hyphenated().encode_lower(&mut text);
    let digest =
        lineage::hash("aos/spot/1", &[run.as_bytes(), node.as_str().as_bytes(), &generation.to_le_bytes()]);
    let mut draw = [0; 8];
    draw.copy_from_slice(&digest.0[..8]);
    u64::from_le_bytes(draw)
}

/// Whether a result says of itself that it may be wrong: it is a map with a `confidence` below [`CONFIDENCE_MIN`].
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
