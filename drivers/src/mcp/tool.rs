//! A tool of a server, as plans and models call it.

use std::sync::Arc;

use ostler_kernel::contract::{Contract, ContractError};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::Rule;
use ostler_kernel::port::{AttemptLog, BoxFuture, CallContext, Tool, ToolResult, ToolSpec, WorkspaceUse};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

use super::caller::CallError;
use super::class::class;
use super::definition::Definition;
use super::held;
use super::question::Asking;
use super::result;
use super::server::McpServer;
use super::up::Up;
use crate::tool::tool_spec::{crash, structural};

pub use ostler_kernel::port::MCP_PREFIX;

/// Share of an attempt's time that a call waits for the start of its server, in percent. A server that starts later fails the call
/// with "nothing was called"; a time-out of the attempt would leave the outcome in doubt.
const START_SHARE_PERCENT: u64 = 90;

/// A tool of a server.
pub(super) struct McpTool {
    spec: ToolSpec,
    definition: Definition,
    server: Arc<McpServer>,
    class: CallClass,
    sensitive: Vec<String>,
    output: Option<Arc<Contract>>,
}

impl McpTool {
    /// Builds the tool of an accepted definition.
    pub(super) fn new(server: &Arc<McpServer>, definition: &Definition) -> Result<McpTool, ContractError> {
        let Definition { name, description, input, output, annotations } = definition;
        let output = output.as_ref().map(|schema| Contract::compile(&[schema_rule(schema)])).transpose()?;
        let output = output.map(Arc::new);
        let spec = ToolSpec {
            name: format!("{MCP_PREFIX}{}.{name}", server.name()),
            version: definition.digest().to_string(),
            description: description.clone(),
            params: open_free_objects(input),
            result: result::result_schema(),
        };
        let class = class(server.config.impact.of(name), server.config.trust, *annotations);
        let sensitive = server.config.sensitive_of(name, input);
        let (definition, server) = (definition.clone(), Arc::clone(server));
        Ok(McpTool { spec, definition, server, class, sensitive, output })
    }

    /// The result of the call. The server wrote both schema and content, so the judgement may take long.
    async fn result(&self, answer: CallToolResult) -> ToolResult {
        let (server, output) = (self.server.name().to_owned(), self.output.clone());
        let broken = move |structured: &Value| {
            let judgement = output?.judge(structured);
            judgement.broken.first().map(ToString::to_string)
        };
        let judged = tokio::task::spawn_blocking(move || result::value(&server, answer, broken)).await;
        judged.unwrap_or_else(|error| Err(crash(format!("the result was not judged: {error}"))))
    }

    async fn call_server(&self, permit: Permit, context: CallContext) -> ToolResult {
        let (server, tool) = (&self.server, &self.spec.name);
        let wait_ms = context.timeout_ms / 100 * START_SHARE_PERCENT;
        let up = server.ready(wait_ms.max(1)).await?;
        self.clear(&up, &*context.attempt).await?;
        let turn = context.turn.filter(|_| server.config.writes_files());
        let asking = Asking::new(tool, context.attempt, context.origin.ordinal, turn);
        match up.caller.call(&self.definition.name, permit.into_params(), asking).await {
            Ok(answer) => {
                server.worked();
                self.result(answer).await
            }
            Err(CallError::Refused(why)) => {
                server.worked();
                Err(structural(format!("server {}: {why}", server.name())))
            }
            Err(CallError::Unauthorized(refusal)) => {
                server.worked();
                Err(server.unauthorized(&refusal).await)
            }
            // The tool may have done a part of the work.
            Err(CallError::Broken(why)) => {
                server.worked();
                Err(crash(format!("server {}: {why}", server.name())))
            }
            Err(CallError::Lost(why)) => {
                let why = up.lost().await.unwrap_or(why);
                Err(crash(format!("server {}: the answer to {tool} is lost: {why}", server.name())))
            }
        }
    }
}

impl McpTool {
    /// Holds the call unless the present definition of the tool is accepted, or an operator accepts the definition now.
    async fn clear(&self, up: &Up, attempt: &dyn AttemptLog) -> Result<(), Failure> {
        let (server, accepted) = (&self.server, &self.definition);
        let Some(now) = up.listed(&accepted.name) else {
            return Err(held::held(server, &accepted.name, "is gone from its server"));
        };
        if now == *accepted {
            return Ok(());
        }
        if !server.accepts(&now) {
            held::ask(server, accepted, &now, attempt).await?;
        }
        // The gate gave the permit, and the contract judges the result, by the earlier definition.
        let class = class(server.config.impact.of(&now.name), server.config.trust, now.annotations);
        if class == self.class && now.output == accepted.output {
            return Ok(());
        }
        Err(structural(format!(
            "tool {} was accepted with another impact or output: it is called so once the process that holds the data folder starts again",
            self.spec.name
        )))
    }
}

/// Keywords with a schema or a list of schemas as value.
const SCHEMAS: [&str; 9] =
    ["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "if", "then", "else"];
/// Keywords with schemas by name as value.
const NAMED_SCHEMAS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords that restrict the members of an object.
const OF_MEMBERS: [&str; 8] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "required",
    "$ref",
    "allOf",
    "oneOf",
];

/// Schema of the parameters for the gate, which closes objects. A nested object without rules for its members becomes explicitly open;
/// the parameters themselves never are.
fn open_free_objects(input: &Map<String, Value>) -> Value {
    let mut schema = Value::Object(input.clone());
    each_schema_within(&mut schema, &mut |inner| {
        let is_object = |kind: &Value| {
            kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("object")))
        };
        let is_free = inner.get("type").is_some_and(is_object)
            && !OF_MEMBERS.iter().any(|word| inner.contains_key(*word));
        if is_free {
            inner.insert("additionalProperties".to_owned(), Value::Bool(true));
        }
    });
    schema
}

/// Visits the schemas within a schema. [`Definition::check`] bounds the nesting.
fn each_schema_within(schema: &mut Value, done: &mut dyn FnMut(&mut Map<String, Value>)) {
    let mut visit = |inner: &mut Value| {
        each_schema_within(inner, done);
        if let Some(members) = inner.as_object_mut() {
            done(members);
        }
    };
    for (word, inner) in schema.as_object_mut().into_iter().flatten() {
        match inner {
            Value::Object(named) if NAMED_SCHEMAS.contains(&word.as_str()) => {
                named.values_mut().for_each(&mut visit);
            }
            Value::Array(listed) if SCHEMAS.contains(&word.as_str()) => {
                listed.iter_mut().for_each(&mut visit);
            }
            inner if SCHEMAS.contains(&word.as_str()) => visit(inner),
            _ => {}
        }
    }
}

fn schema_rule(schema: &Map<String, Value>) -> Rule {
    serde_json::from_value(json!({"method": "schema", "spec": schema})).expect("it has the form of a rule")
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        self.class
    }

    fn reads_strangers(&self) -> bool {
        true
    }

    fn workspace_use(&self) -> WorkspaceUse {
        // What it reads counts as strangers' unless the operator trusts it: then what it reads is trusted too.
        WorkspaceUse { reads: false, writes: self.server.config.writes_files() }
    }

    fn writes_outside(&self) -> bool {
        self.server.config.writes_files()
    }

    fn sends_out(&self) -> bool {
        self.server.config.reaches_network()
    }

    fn sensitive(&self) -> Vec<String> {
        self.sensitive.clone()
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(self.call_server(permit, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_any_members_stays_open_within_closed_parameters() {
        let input = json!({"type": "object", "properties": {
            "any": {"type": "object"},
            "maybe": {"type": ["string", "object"]},
            "list": {"type": "array", "items": {"type": "object"}},
            "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        }});
        let opened = open_free_objects(input.as_object().expect("it is an object"));
        let free = json!({"type": "object", "additionalProperties": true});
        assert_eq!(opened["properties"]["any"], free);
        assert_eq!(opened["properties"]["list"]["items"], free);
        assert_eq!(opened["properties"]["maybe"]["additionalProperties"], true);
        assert_eq!(opened["properties"]["known"], input["properties"]["known"]);
        assert!(opened.get("additionalProperties").is_none());
        assert_eq!(open_free_objects(&Map::new()), json!({}));
    }
}
