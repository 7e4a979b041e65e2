//! `time.sleep`: waits.

use std::time::Duration;

use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool_spec::{PURE, object, params, spec};

/// Maximum duration in milliseconds: a year.
pub const SLEEP_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1_000;

/// Waits. The run engine turns the call into a durable timer ([`Tool::timer_ms`]), so that a sleep needs no slot and survives
/// restarts.
#[derive(Debug)]
pub(super) struct TimeSleep {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    ms: u64,
}

impl TimeSleep {
    pub(super) fn new() -> TimeSleep {
        TimeSleep {
            spec: spec(
                "time.sleep",
                "Wait for some milliseconds. Survives restarts, and takes as long as it says: the timeout of its node does not end it.",
                object(&["ms"], json!({"ms": {"type": "integer", "minimum": 0, "maximum": SLEEP_MS_MAX}})),
                object(&[], json!({})),
            ),
        }
    }
}

impl Tool for TimeSleep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        PURE
    }

    fn is_timer(&self) -> bool {
        true
    }

    fn timer_ms(&self, params: &Map<String, Value>) -> Option<u64> {
        params.get("ms").and_then(Value::as_u64).filter(|ms| *ms <= SLEEP_MS_MAX)
    }

    fn call(&self, permit: Permit, _context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let Params { ms } = params(permit)?;
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(json!({}))
        })
    }
}
