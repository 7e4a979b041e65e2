//! One stage of a program: code with its schemas.

use std::sync::{Arc, OnceLock};

use ostler_kernel::contract::Contract;
use ostler_kernel::gate::CallClass;
use ostler_kernel::plan::{Method, Rule};
use ostler_kernel::port::{BoxFuture, ToolResult};
use serde_json::Value;

use super::context::ProgramContext;

pub(super) type Code = Arc<dyn Fn(ProgramContext, Value) -> BoxFuture<'static, ToolResult> + Send + Sync>;

#[derive(Clone)]
pub(super) struct Routine {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) code: Code,
    pub(super) input: Shape,
    pub(super) output: Shape,
    pub(super) class: CallClass,
}

#[derive(Clone)]
pub(super) struct Shape {
    pub(super) schema: Value,
    pub(super) compiled: Arc<OnceLock<Result<Contract, String>>>,
}

impl Shape {
    pub(super) fn new(schema: Value) -> Shape {
        Shape { schema, compiled: Arc::default() }
    }

    pub(super) fn judge(&self, value: &Value) -> Result<(), String> {
        let compiled = self.compiled.get_or_init(|| {
            let rule = Rule { method: Method::Schema, p: None, spec: Some(Arc::new(self.schema.clone())) };
            Contract::compile(&[rule]).map_err(|error| error.to_string())
        });
        let judged = compiled.as_ref().map_err(Clone::clone)?.judge(value);
        let broken: Vec<String> = judged.broken.iter().map(ToString::to_string).collect();
        if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
    }
}
