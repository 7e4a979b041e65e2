//! Freshness: for how long a recorded read may stand in for a new one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::pointer::Pointer;
use super::{HumanDuration, Settings};
use crate::id::{NodeId, Ticks};

/// Freshness that a read must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// Read in each run.
    #[default]
    Always,
    /// Any recorded result will do.
    Never,
    /// Read in each run, but only what was modified: the recorded result is offered to the tool, which asks the source by its
    /// validator.
    Etag,
    /// A result recorded within so many ticks will do.
    Within(Ticks),
}

impl Freshness {
    /// The policy as in a plan file of a real run; `None` for the default.
    pub fn written(self) -> Option<Value> {
        match self {
            Freshness::Always => None,
            Freshness::Never => Some("never".into()),
            Freshness::Etag => Some("etag".into()),
            Freshness::Within(ms) => Some(HumanDuration::Millis(ms).to_string().into()),
        }
    }

    /// Results of the read are recorded.
    pub fn is_recorded(self) -> bool {
        self != Freshness::Always
    }

    /// A recorded result may stand in without any question to the source.
    pub fn allows_reuse(self) -> bool {
        matches!(self, Freshness::Never | Freshness::Within(_))
    }
}

/// The forms, for messages.
const HELP: &str = "write a duration such as 10m, or one of always, etag and never";

/// Parses the `fresh` of a node. Malformed input is a V34.
pub(super) fn read(
    node: &NodeId,
    written: &Value,
    settings: &Settings<'_>,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) -> Freshness {
    match written.as_str() {
        Some("always") => return Freshness::Always,
        Some("never") => return Freshness::Never,
        Some("etag") => return Freshness::Etag,
        _ => {}
    }
    let span: Option<HumanDuration> = serde_json::from_value(written.clone()).ok();
    match span.map(|span| span.ticks(settings.ticks_per_second)).filter(|ticks| *ticks > 0) {
        Some(ticks) => Freshness::Within(ticks),
        None => {
            let detail = "fresh is neither a duration above 0 nor one of always, etag and never".to_owned();
            faults.push(Diagnostic::new(DiagnosticCode::V34, node, detail, HELP).at(&place()));
            Freshness::Always
        }
    }
}
