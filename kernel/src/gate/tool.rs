//! A registered tool with its parameter schema compiled for the gate.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::call::CallClass;
use super::close_schema::close_objects;
use super::path_params::{Format, FormatParams, SchemaGraph};
use super::strict_numbers::{fits, has_whole_double};
use crate::contract::{Extent, Schema, SchemaError, compile_schema, excerpt};
use crate::id::Digest;
use crate::json::{Object, VALUE_MEMORY_MAX, memory};
use crate::lineage::{self, ExecutableSpec};
use crate::plan::{Effect, Idempotency};
use crate::port::{Tool, ToolSpec};

/// Parameters of tools that run programs: each may hold code.
const OF_PROGRAMS: [&str; 2] = ["argv", "stdin"];

/// Most steps to check the parameters of one call. The gate checks them in the run's actor, which cannot be interrupted.
pub const PARAMS_STEPS_MAX: u64 = 4_000_000;

/// Fault of parameters whose violations are too many to look for the first.
pub(super) const UNPLACED: &str =
    "they break the parameter schema of the tool, and are too large to find the place";

pub(super) const TOO_LARGE_HELP: &str = "pass shorter texts, or fewer values";

/// Refuses parameters that take more than `most` bytes of memory: references copy the same result into many of them.
fn check_memory(params: &Value, extent: Extent, most: usize) -> Result<(), String> {
    if extent.memory_bound() <= most as u64 {
        return Ok(());
    }
    match memory(params) {
        taken if taken > most => {
            Err(format!("they would take about {taken} bytes of memory, at most {most} are allowed"))
        }
        _ => Ok(()),
    }
}

/// A tool with its compiled schema. Built once per tool and shared by all calls.
pub struct GatedTool {
    tool: Arc<dyn Tool>,
    schema: Schema,
    defaults: Vec<(String, Value)>,
    result_schema: Option<Arc<Value>>,
    paths: FormatParams,
    uris: FormatParams,
    sensitive: BTreeSet<String>,
    /// The schema lists doubles without a fraction.
    lists_whole_doubles: bool,
    executable_digest: Digest,
}

impl fmt::Debug for GatedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatedTool({})", self.tool.spec().name)
    }
}

impl GatedTool {
    /// Compiles the tool's parameter schema.
    ///  
    /// The gate closes object schemas: an undeclared parameter is denied unless the schema has `additionalProperties`. A null
    /// schema accepts no parameters. A parameter counts as a path or URL if any subschema that may apply to the parameter has
    /// `format: path` or `format: uri`, at any depth and through any reference.
    ///  
    /// # Errors
    ///  
    /// The schema is invalid, or the gate cannot tell from a call's values which parameters hold paths or URLs.
    pub fn new(tool: Arc<dyn Tool>) -> Result<GatedTool, SchemaError> {
        let mut schema = match &tool.spec().params {
            Value::Null => serde_json::json!({"type": "object"}),
            schema => schema.clone(),
        };
        let open = compile_schema(&schema)?; // before closing, so that errors point into the author's own text
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
        let schema = compile_schema(&schema)?;
        let sensitive = tool.sensitive().into_iter().collect();
        let lists_whole_doubles = has_whole_double(&tool.spec().params);
        Ok(GatedTool {
            lists_whole_doubles,
            schema,
            tool,
            defaults,
            result_schema,
            paths,
            uris,
            sensitive,
            executable_digest,
        })
    }

    /// Adds the sensitive parameters that follow from schema and class: URLs; for acting tools, paths, and
    /// arguments and standard input of programs, which may be code; for tools that read strangers, everything that can hold text, because even a read-only request sends its text
    /// away.
    #[must_use]
    pub fn with_reach(mut self) -> GatedTool {
        let acts = self.class(&Map::new()).effect.acts();
        let reads_strangers = self.tool.reads_strangers();
        let says_where = |(name, schema): &(&String, &Value)| match schema["format"].as_str() {
            Some("uri") => true,
            Some("path") => acts,
            _ => acts && OF_PROGRAMS.contains(&name.as_str()) || reads_strangers && can_hold_text(schema),
        };
        let properties = self.tool.spec().params.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flatten().filter(says_where).map(|(name, _)| name.clone());
        let names: Vec<String> = names.collect();
        self.sensitive.extend(names);
        self
    }

    /// The tool, for the executor of the call.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Digest of the tool's name and version, see [`ExecutableSpec`].
    pub fn executable_digest(&self) -> Digest {
        self.executable_digest
    }

    /// The validator of the closed schema, for parameters that it checks within [`PARAMS_STEPS_MAX`].
    ///
    /// # Errors
    ///
    /// The check may take more steps, or the parameters take more memory than [`VALUE_MEMORY_MAX`].
    pub(super) fn validator(&self, params: &Value) -> Result<&Validator, String> {
        let extent = Extent::of(params);
        check_memory(params, extent, VALUE_MEMORY_MAX)?;
        let steps = self.schema.steps(params, extent, PARAMS_STEPS_MAX);
        if steps > PARAMS_STEPS_MAX {
            let taken = if steps == u64::MAX { "far too many".to_owned() } else { steps.to_string() };
            return Err(format!(
                "checking them may take {taken} steps, at most {PARAMS_STEPS_MAX} are allowed"
            ));
        }
        Ok(&self.schema.validator)
    }

    /// Schema of the tool's results, if declared.
    pub fn result_schema(&self) -> Option<Arc<Value>> {
        self.result_schema.clone()
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.tool.spec().name
    }

    /// Fills in defaults of absent top-level parameters. An explicit null stays.
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

    /// Checks parameters against the closed schema. The error names the fault and its place, in bounded length.
    pub(super) fn check(&self, params: &Value) -> Result<(), String> {
        let validator = self.validator(params).map_err(|what| format!("{what}: {TOO_LARGE_HELP}"))?;
        let schema = &self.tool.spec().params;
        if (self.lists_whole_doubles || has_whole_double(params)) && !fits(schema, params) {
            return Err(
                "an integer is written with a fraction or an exponent, or a number is not listed".to_owned()
            );
        }
        if validator.is_valid(params) {
            return Ok(());
        }
        let Some(error) = self.schema.first_violation(params, Extent::of(params)) else {
            return Err(UNPLACED.to_owned());
        };
        let place = error.instance_path().as_str();
        let place = if place.is_empty() { String::new() } else { format!(" at {}", excerpt(place)) };
        Err(format!("{}{place}", excerpt(error.masked())))
    }

    /// True if all violations by parameters can be listed.
    pub(super) fn can_list_violations(&self, params: &Value) -> bool {
        self.schema.can_list_violations(Extent::of(params))
    }

    /// Class of a call. A tool that panics or returns an invalid class gets the worst class, because the gate must not trust
    /// a broken tool.
    pub fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.measured_class(params).0
    }

    /// Class of a call, and whether the tool failed to give it.
    pub(super) fn measured_class(&self, params: &Map<String, Value>) -> (CallClass, bool) {
        const WORST: CallClass = CallClass { impact: 2, effect: Effect::External, idem: Idempotency::None };
        match catch_unwind(AssertUnwindSafe(|| self.tool.class(params))) {
            Ok(class) if class.impact <= 2 => (class, false),
            Ok(_) | Err(_) => (WORST, true),
        }
    }

    /// The tool's version, which a scope may pin.
    pub fn version(&self) -> &str {
        &self.tool.spec().version
    }

    /// True if values of this parameter say where the call reaches, or what leaves by it.
    pub fn is_sensitive(&self, name: &str) -> bool {
        self.sensitive.contains(name)
    }

    /// Names of the sensitive parameters.
    pub fn sensitive(&self) -> &BTreeSet<String> {
        &self.sensitive
    }

    /// True if any parameter may hold a path.
    pub fn takes_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// True if the named parameter may hold a path.
    pub fn takes_path(&self, name: &str) -> bool {
        self.paths.contains(name)
    }

    /// True if the named parameter may hold a URL.
    pub fn takes_url(&self, name: &str) -> bool {
        self.uris.contains(name)
    }
}

/// True unless a value of this schema is a number, a truth value or one of a list.
fn can_hold_text(schema: &Value) -> bool {
    let is_plain = matches!(schema["type"].as_str(), Some("number" | "integer" | "boolean" | "null"));
    let is_listed = schema.get("enum").is_some() || schema.get("const").is_some();
    !is_plain && !is_listed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_refused_by_the_memory_that_they_take() {
        for params in [
            json!({"value": [[[[]]], [], [[]]]}),
            json!({"a": {"b": {"c": {}}}, "text": "x".repeat(1_000)}),
            json!({"rows": [{"x": 1}, {"x": 2}], "n": 1.5, "none": null}),
        ] {
            let (extent, taken) = (Extent::of(&params), memory(&params));
            assert!(extent.memory_bound() >= taken as u64, "{params}");
            assert_eq!(check_memory(&params, extent, taken), Ok(()));
            let told =
                format!("they would take about {taken} bytes of memory, at most {} are allowed", taken - 1);
            assert_eq!(check_memory(&params, extent, taken - 1), Err(told));
        }
    }
}
