//! Judges arbitrary bytes as a path and as a URL, without panic or hang.

use std::sync::Arc;

use ostler::kernel::gate::{
    Call, CallClass, Egress, GatePolicy, GatedTool, Permit, Provenance, Scope, Spent, preview,
};
use ostler::kernel::plan::{Effect, Idempotency};
use ostler::kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

/// The workspace of the judged call.
const WORKSPACE: &str = "/srv/work";

struct Put(ToolSpec);

impl Tool for Put {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async { Ok(Value::Null) })
    }
}

/// Judges `bytes` as a path; true if the gate allows the path. An allowed path stays in the workspace when only slashes are
/// interpreted.
pub(crate) fn path(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let params = json!({"type": "object", "properties": {"path": {"type": "string", "format": "path"}}});
    let (name, version) = ("put".to_owned(), "1".to_owned());
    let spec = ToolSpec { name, version, description: String::new(), params, result: Value::Null };
    let tool = GatedTool::new(Arc::new(Put(spec))).expect("the schema is one");
    let scope = Scope { tools: [("put".to_owned(), None)].into() };
    let policy = GatePolicy { scopes: [("all".to_owned(), scope)].into(), ..GatePolicy::default() };
    let params: Map<String, Value> = Map::from_iter([("path".to_owned(), json!(text))]);
    let call = Call {
        tool: Some(&tool),
        name: "put",
        params: params.into(),
        floor: 0,
        intent: 0,
        scope: "all".into(),
        workspace: Some(WORKSPACE),
        provenance: Provenance::PLAN,
        spent: Spent::NOTHING,
    };
    let is_allowed = preview(call, &policy).is_ok();
    assert!(!is_allowed || stays(&text), "{text:?} leaves {WORKSPACE}");
    is_allowed
}

/// True if a path whose slashes alone are interpreted never leaves the workspace.
fn stays(text: &str) -> bool {
    let mut place: Vec<&str> = match text.starts_with('/') {
        true => Vec::new(),
        false => WORKSPACE.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(place.pop()),
            part => place.push(part),
        }
    }
    format!("/{}/", place.join("/")).starts_with(&format!("{WORKSPACE}/"))
}

/// Judges `bytes` as a URL; true if the gate allows a call. The host of an allowed URL is on the list.
pub(crate) fn url(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let egress = Egress::new(["api.example.com:443"]).expect("the entry is one");
    let judged = egress.judge(&text);
    if let Ok(destination) = &judged {
        assert_eq!((destination.host.as_str(), destination.port), ("api.example.com", 443), "{text:?}");
    }
    judged.is_ok()
}
