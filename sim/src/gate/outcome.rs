//! The outcome of a step, in the form of `expect`.

use std::collections::BTreeSet;

use ostler_kernel::gate::Measured;
use serde_json::{Map, Value, json};

/// What a step led to.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    verdict: &'static str,
    code: String,
    pub(super) measured: Option<Measured>,
    pub(super) clearance_called: bool,
    audit_records: u8,
    model_sees: &'static str,
    pub(super) held: Option<&'static str>,
    pub(super) info: BTreeSet<&'static str>,
    pub(super) args: Option<Map<String, Value>>,
    pub(super) connect: Option<Value>,
    pub(super) clearance_request: Option<Value>,
}

impl Outcome {
    pub(super) fn ended(
        &mut self,
        verdict: &'static str,
        code: &str,
        model_sees: &'static str,
        audit_records: u8,
    ) {
        (self.verdict, self.model_sees, self.audit_records) = (verdict, model_sees, audit_records);
        code.clone_into(&mut self.code);
    }

    /// The outcome as the journal gives it again: nothing is asked and nothing recorded.
    pub(super) fn replayed(&self) -> Outcome {
        Outcome { clearance_called: false, clearance_request: None, audit_records: 0, ..self.clone() }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut outcome = json!({
            "verdict": self.verdict,
            "code": self.code,
            "effective_impact": self.measured.map(|measured| measured.impact),
            "ceiling": self.measured.map(|measured| measured.ceiling),
            "clearance_called": self.clearance_called,
            "audit_records": self.audit_records,
            "model_sees": self.model_sees,
        });
        if !self.info.is_empty() {
            outcome["info"] = json!(self.info);
        }
        let optional = [
            ("held", self.held.map(Value::from)),
            ("args", self.args.clone().map(Value::Object)),
            ("connect", self.connect.clone()),
            ("clearance_request", self.clearance_request.clone()),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                outcome[name] = value;
            }
        }
        outcome
    }
}
