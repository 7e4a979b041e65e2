//! Configured models, called through the gate; what they show and report is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ostler_drivers::model::{Models, ModelsConfig};
use ostler_kernel::gate::{
    Call, CallLimits, Egress, GatePolicy, GatedTool, Provenance, Scope, Spent, Verdict, decide,
};
use ostler_kernel::id::Digest;
use ostler_kernel::port::{AttemptLog, CallContext, CallOrigin, Delta, ModelCall, ToolResult};
use serde_json::Value;
use tokio::sync::Notify;

/// Keeps the pieces and the calls of an attempt.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) deltas: Mutex<Vec<Delta>>,
    pub(crate) calls: Mutex<Vec<ModelCall>>,
    /// Notified after each piece.
    pub(crate) shown: Notify,
}

impl AttemptLog for Kept {
    fn model_delta(&self, _call: u32, delta: &Delta) {
        self.deltas.lock().unwrap().push(delta.clone());
        self.shown.notify_one();
    }

    fn model_called(&self, _number: u32, call: ModelCall) {
        self.calls.lock().unwrap().push(call);
    }
}

/// Models of a configuration, relative to a temporary folder.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) models: Models,
    pub(crate) kept: Arc<Kept>,
}

impl World {
    /// Builds the models of this TOML; `KEY` holds `secret`.
    pub(crate) fn new(config: &str, files: &[(&str, &str)], secret: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let config: ModelsConfig = toml::from_str(config).unwrap();
        let env = |name: &str| (name == "KEY").then(|| secret.to_owned());
        let models = Models::new(&config, folder.path(), &env).unwrap();
        World { folder, models, kept: Arc::default() }
    }

    pub(crate) async fn call(&self, name: &str, params: Value) -> ToolResult {
        self.call_as(name, params, CallOrigin::default()).await
    }

    pub(crate) async fn call_as(&self, name: &str, params: Value, origin: CallOrigin) -> ToolResult {
        let name = format!("model.{name}");
        let tool = self.models.tools().into_iter().find(|tool| tool.spec().name == name).unwrap();
        let scope = Scope { tools: BTreeMap::from([(name.clone(), None)]) };
        let policy = GatePolicy {
            scopes: BTreeMap::from([("all".to_owned(), scope)]),
            ceiling: 2,
            epoch: 1,
            limits: CallLimits { max_depth: 64, max_bytes: 64 << 20 },
            egress: Egress::default(),
            ..GatePolicy::default()
        };
        let gated = GatedTool::new(tool.clone()).unwrap();
        let call = Call {
            tool: Some(&gated),
            name: &name,
            params: params.as_object().unwrap().clone().into(),
            floor: 0,
            intent: 0,
            scope: "all".into(),
            workspace: Some("/"),
            provenance: Provenance::PLAN,
            spent: Spent::NOTHING,
        };
        let permit = match decide(call, Digest([1; 32]), &policy) {
            Verdict::Allowed { permit, .. } => permit,
            Verdict::Denied(denial) => panic!("{}: {}", denial.code, denial.operator),
        };
        let mut context = CallContext::without_log(Arc::from(self.folder.path()), 60_000);
        context.origin = origin;
        context.attempt = self.kept.clone();
        tool.call(permit, context).await
    }

    /// The result or failure on one line.
    pub(crate) async fn shown(&self, name: &str, params: Value) -> String {
        shown(self.call(name, params).await)
    }

    /// The reported calls, without their times.
    pub(crate) fn calls(&self) -> Vec<ModelCall> {
        let mut calls = std::mem::take(&mut *self.kept.calls.lock().unwrap());
        for call in &mut calls {
            (call.first_piece_ms, call.took_ms) = (call.first_piece_ms.map(|_| 0), 0);
        }
        calls
    }

    /// The text shown so far.
    pub(crate) fn text(&self) -> String {
        let deltas = self.kept.deltas.lock().unwrap();
        let text = deltas.iter().filter_map(|delta| match delta {
            Delta::Text(text) => Some(text.as_str()),
            _ => None,
        });
        text.collect()
    }
}

pub(crate) fn shown(result: ToolResult) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{}: {}", failure.category, failure.message),
    }
}
