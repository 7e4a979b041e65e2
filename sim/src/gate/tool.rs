//! Tools of gate cases: a schema, an impact, and nothing that could be called.

use std::sync::Arc;

use ostler_kernel::gate::{ArgvTable, CallClass, GatedTool, Hints, ImpactTable, Level, Permit};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value, json};

use crate::graph::CaseError;

/// A tool as a case describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolScript {
    #[serde(default)]
    impact: Impact,
    schema: Option<Value>,
    #[serde(default)]
    sensitive: Vec<String>,
    #[serde(default)]
    egress: bool,
    #[serde(default)]
    pub(super) trusted_output: bool,
    #[serde(default)]
    pub(super) hash: String,
    #[serde(default)]
    hints: Hints,
}

/// The impact of a tool.
#[derive(Debug, Clone)]
enum Impact {
    Level(Option<u8>),
    /// Panics, or takes more steps than a table may.
    Fails,
    Rules(ImpactTable),
    Argv {
        param: String,
        programs: ArgvTable,
        otherwise: Option<u8>,
    },
}

impl Default for Impact {
    fn default() -> Impact {
        Impact::Level(Some(2))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArgvFields {
    argv: String,
    programs: Value,
    #[serde(rename = "else")]
    otherwise: Option<Level>,
}

impl<'de> Deserialize<'de> for Impact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Impact, D::Error> {
        let written = Value::deserialize(deserializer)?;
        if written.is_number() {
            let level: Level = serde_json::from_value(written).map_err(D::Error::custom)?;
            return Ok(Impact::Level(level.get()));
        }
        if written.get("fail").is_some() {
            return Ok(Impact::Fails);
        }
        if written.get("argv").is_none() {
            return serde_json::from_value(written).map(Impact::Rules).map_err(D::Error::custom);
        }
        let fields: ArgvFields = serde_json::from_value(written).map_err(D::Error::custom)?;
        let programs = ArgvTable::from_programs(&fields.programs.to_string()).map_err(D::Error::custom)?;
        let otherwise = fields.otherwise.map_or(Some(2), Level::get);
        Ok(Impact::Argv { param: fields.argv, programs, otherwise })
    }
}

impl Impact {
    fn level(&self, params: &Map<String, Value>) -> Option<u8> {
        match self {
            Impact::Level(level) => *level,
            Impact::Fails => None,
            Impact::Rules(table) => table.level(params),
            Impact::Argv { param, programs, otherwise } => {
                let elements = params.get(param).and_then(Value::as_array);
                let argv: Option<Vec<&str>> =
                    elements.and_then(|elements| elements.iter().map(Value::as_str).collect());
                let listed = argv.and_then(|argv| programs.listed(&argv));
                listed.map_or(*otherwise, |class| Some(class.impact))
            }
        }
    }
}

impl ToolScript {
    /// The tool in a version.
    pub(super) fn gated(&self, name: &str, version: &str) -> Result<GatedTool, CaseError> {
        let mut schema = self.schema.clone().unwrap_or_else(|| json!({"type": "object"}));
        close(&mut schema);
        let spec = ToolSpec {
            name: name.to_owned(),
            version: version.to_owned(),
            description: String::new(),
            params: schema,
            result: Value::Null,
        };
        let tool = Arc::new(ScriptedTool { spec, script: self.clone() });
        GatedTool::new(tool).map_err(|error| CaseError::Shape(format!("tool {name}: {error}")))
    }
}

/// Closes every schema that describes an object, unless it says `additionalProperties: true`.
fn close(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    let of_object = match members.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    let says = |word: &str| members.contains_key(word);
    if of_object || ["properties", "required", "additionalProperties"].iter().any(|word| says(word)) {
        let open = members.get("additionalProperties") == Some(&Value::Bool(true));
        members.insert("additionalProperties".to_owned(), Value::Bool(open));
    }
    for (word, inner) in members.iter_mut() {
        match (word.as_str(), inner) {
            ("properties", Value::Object(named)) => named.values_mut().for_each(close),
            ("items", inner) => close(inner),
            ("anyOf", Value::Array(parts)) => parts.iter_mut().for_each(close),
            _ => {}
        }
    }
}

struct ScriptedTool {
    spec: ToolSpec,
    script: ToolScript,
}

impl Tool for ScriptedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// A level beyond 2 tells the gate that the impact function failed.
    fn class(&self, params: &Map<String, Value>) -> CallClass {
        let impact = self.script.impact.level(params).map_or(u8::MAX, |it| it.max(self.script.hints.floor()));
        let effect = if impact == 0 { Effect::Read } else { Effect::Write };
        CallClass { impact, effect, idem: Idempotency::None }
    }

    fn reads_strangers(&self) -> bool {
        !self.script.trusted_output
    }

    fn sends_out(&self) -> bool {
        self.script.egress
    }

    fn sensitive(&self) -> Vec<String> {
        self.script.sensitive.clone()
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(std::future::ready(Ok(Value::Object(permit.into_params()))))
    }
}
