//! Heap allocations of a verdict. A program of its own: the allocator counts for the whole process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::gate::{
    AtConnection, Call, CallClass, GatePolicy, GatedTool, Permit, Provenance, Scope, Spent, Standing, Trust,
    judge,
};
use ostler_kernel::json::Object;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use peak_alloc::PeakAlloc;
use serde_json::{Map, Value, json};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

struct Send(ToolSpec);

impl Tool for Send {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::Write, idem: Idempotency::Natural }
    }

    fn sensitive(&self) -> Vec<String> {
        vec!["to".to_owned()]
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move { Ok(Value::Object(permit.into_params())) })
    }
}

/// Scope, impact and taint of an allowed call take nothing from the heap: a verdict costs no more on a machine short of memory.
#[test]
fn an_allowed_call_takes_no_memory() {
    let parameters =
        json!({"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}});
    let spec = ToolSpec {
        name: "send".to_owned(),
        version: "1".to_owned(),
        description: String::new(),
        params: parameters,
        result: json!({}),
    };
    let tool = GatedTool::new(Arc::new(Send(spec))).unwrap();
    let scope = Scope { tools: BTreeMap::from([("send".to_owned(), Some(1))]) };
    let scopes = BTreeMap::from([("default".to_owned(), scope)]);
    let policy = GatePolicy { scopes, ceiling: 2, ..GatePolicy::default() };
    let members = json!({"to": "a colleague", "text": "a line\n".repeat(1_024 / 7)});
    let params: Object = members.as_object().unwrap().clone().into();
    let provenance = Provenance {
        untrusted_author: false,
        params: BTreeMap::from([("text".to_owned(), Trust::Untrusted)]),
        labels: BTreeSet::new(),
    };
    for round in ["the first call", "a later call"] {
        let call = Call {
            tool: Some(&tool),
            name: "send",
            params: params.clone(),
            floor: 0,
            intent: 1,
            scope: "default".into(),
            workspace: None,
            provenance: &provenance,
            spent: Spent::NOTHING,
        };
        HEAP.reset_peak_usage();
        let before = HEAP.current_usage();
        let judged = judge(call, &policy, Standing::default(), &mut AtConnection);
        assert_eq!(HEAP.peak_usage() - before, 0, "bytes of {round}");
        assert_eq!(judged.unwrap().class.impact, 1);
    }
}
