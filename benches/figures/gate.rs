//! Time of a verdict of the gate.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use ostler::kernel::gate::{
    AtConnection, Call, GatePolicy, GatedTool, Provenance, Scope, Spent, Standing, Trust, judge,
};
use ostler::kernel::json::Object;
use ostler_drivers::tool::{ToolConfig, builtin};
use serde_json::json;

use crate::table::Row;

const VERDICTS: usize = 200_000;

/// Scope, impact and taint of an allowed `text.render` with 1 KiB of parameters; each call is timed by itself, the clock included.
pub(crate) fn rows() -> Vec<Row> {
    let tools = builtin(&ToolConfig::default(), None);
    let tool = tools.into_iter().find(|tool| tool.spec().name == "text.render").unwrap();
    let tool = GatedTool::new(tool).unwrap();
    let scope = Scope { tools: BTreeMap::from([("text.render".to_owned(), Some(1))]) };
    let scopes = BTreeMap::from([("default".to_owned(), scope)]);
    let policy = GatePolicy { scopes, ceiling: 2, ..GatePolicy::default() };
    let params = json!({"template": "a line\n".repeat(1_024 / 7), "values": {}});
    let params: Object = params.as_object().unwrap().clone().into();
    let taint = BTreeMap::from([("values".to_owned(), Trust::Untrusted)]);
    let provenance = Provenance { params: taint, ..Provenance::PLAN.clone() };
    let mut times: Vec<f64> = (0..VERDICTS)
        .map(|_| {
            let call = Call {
                tool: Some(&tool),
                name: "text.render",
                params: params.clone(),
                floor: 0,
                intent: 1,
                scope: "default".into(),
                workspace: None,
                provenance: &provenance,
                spent: Spent::NOTHING,
            };
            let begun = Instant::now();
            let judged = judge(call, &policy, Standing::default(), &mut AtConnection);
            let took = begun.elapsed().as_secs_f64() * 1e6;
            assert!(black_box(judged).is_ok());
            took
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let middle = times[VERDICTS / 2];
    let slow = times[VERDICTS * 99 / 100];
    vec![
        Row::ratio("a verdict of the gate on 1 KiB of parameters, 99 of 100 within", None, slow)
            .unit("µs")
            .note(format!("in the middle {middle:.2} µs")),
    ]
}
