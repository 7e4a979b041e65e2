//! A tool as the gate sees it: its parameter schema compiled, once.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::call::CallClass;
use super::close_schema::close_objects;
use super::path_params::{Format, FormatParams, SchemaGraph};
use crate::contract::{SchemaError, compile_schema, excerpt};
use crate::id::Digest;
use crate::json::Object;
use crate::lineage::{self, ExecutableSpec};
use crate::plan::{Effect, Idempotency};
use crate::port::{Tool, ToolSpec};

/// A tool with its schema compiled. Made once per tool and shared by all calls.
pub struct GatedTool {
    tool: Arc<dyn Tool>,
    validator: Validator,
    defaults: Vec<(String, Value)>,
    result_schema: Option<Arc<Value>>,
    paths: FormatParams,
    uris: FormatParams,
    executable_digest: Digest,
}

impl fmt::Debug for GatedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatedTool({})", self.tool.spec().name)
    }
}

impl GatedTool {
    /// Compiles the tool's parameter schema. Objects are closed: a parameter that the schema does not name is
    /// refused unless it says `additionalProperties`. A tool whose schema is null takes no parameters. A parameter holds paths or
    /// URLs if anything that it may be held against says `format: path` or `uri`, at any depth, behind whatever reference.
    ///
    /// # Errors
    ///
    /// Why the schema is none.
    pub fn new(tool: Arc<dyn Tool>) -> Result<GatedTool, SchemaError> {
        let mut schema = match &tool.spec().params {
            Value::Null => serde_json::json!({"type": "object"}),
            schema => schema.clone(),
        };
        let open = compile_schema(&schema)?; // the author's own words first: faults name their places
        drop(open);
        let top = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let schemas = SchemaGraph::of(&schema)?;
        let (paths, uris) = (schemas.params_with(Format::Path)?, schemas.params_with(Format::Uri)?);
        let defaults = top
            .iter()
            .filter_map(|(name, inner)| Some((name.clone(), inner.get("default")?.clone())))
            .collect();
        close_objects(&mut schema);
        let result_schema = Some(&tool.spec().result).filter(|schema| !schema.is_null());
        let result_schema = result_schema.cloned().map(Arc::new);
        let ToolSpec { name, version, .. } = tool.spec();
        let executable_digest = ExecutableSpec {
            kind: "tool",
            tool: Some(name),
            tool_version: Some(version),
            ..ExecutableSpec::default()
        };
        let executable_digest =
            lineage::executable_digest(&executable_digest.document().expect("texts are canonical"));
        let validator = compile_schema(&schema)?.validator;
        Ok(GatedTool { validator, tool, defaults, result_schema, paths, uris, executable_digest })
    }

    /// The tool itself, for whoever performs the call.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Digest of what runs when it is called, see [`ExecutableSpec`].
    pub fn executable_digest(&self) -> Digest {
        self.executable_digest
    }

    /// Its parameter schema, compiled.
    pub(super) fn validator(&self) -> &Validator {
        &self.validator
    }

    /// What it says of its results, if anything.
    pub fn result_schema(&self) -> Option<Arc<Value>> {
        self.result_schema.clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.tool.spec().name
    }

    /// Fills in the defaults of absent top-level parameters; null is a value.
    pub(super) fn fill_defaults(&self, params: &mut Object) {
        if self.defaults.iter().any(|(name, _)| !params.contains_key(name)) {
            *params = self.with_defaults(params).into();
        }
    }

    pub(super) fn with_defaults(&self, params: &Map<String, Value>) -> Map<String, Value> {
        let mut whole = params.clone();
        for (name, default) in &self.defaults {
            whole.entry(name).or_insert_with(|| default.clone());
        }
        whole
    }

    /// Checks the parameters; the error says what is wrong and where, in bounded length.
    pub(super) fn check(&self, params: &Value) -> Result<(), String> {
        if self.validator.is_valid(params) {
            return Ok(());
        }
        match self.validator.validate(params) {
            Ok(()) => Ok(()),
            Err(error) => {
                let place = error.instance_path().as_str();
                let place = if place.is_empty() { String::new() } else { format!(" at {}", excerpt(place)) };
                Err(format!("{}{place}", excerpt(error.masked())))
            }
        }
    }

    /// What a call would do. A tool that cannot say, or says nonsense, is believed to do the worst.
    pub(super) fn class(&self, params: &Map<String, Value>) -> CallClass {
        const WORST: CallClass = CallClass { impact: 2, effect: Effect::External, idem: Idempotency::None };
        match catch_unwind(AssertUnwindSafe(|| self.tool.class(params))) {
            Ok(class) if class.impact <= 2 => class,
            Ok(_) | Err(_) => WORST,
        }
    }

    /// Whether any of its parameters holds a path.
    pub fn takes_paths(&self) -> bool {
        !self.paths.are_none()
    }

    /// Whether a parameter of this name holds a path.
    pub(super) fn takes_path(&self, name: &str) -> bool {
        self.paths.have(name)
    }

    /// Whether a parameter of this name holds a URL.
    pub fn takes_url(&self, name: &str) -> bool {
        self.uris.have(name)
    }
}
