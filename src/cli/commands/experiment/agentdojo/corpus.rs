//! The corpus: tools, tasks of users with their own calls, and tasks injected into results of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ostler_drivers::regular_file;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::exit::Failure;

/// Largest file of a corpus.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Deserialize)]
pub(super) struct Corpus {
    pub(super) benchmark: String,
    #[serde(default)]
    pub(super) license_note: String,
    pub(super) suites: BTreeMap<String, Suite>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Suite {
    pub(super) tools: Vec<SuiteTool>,
    pub(super) user_tasks: Vec<UserTask>,
    pub(super) injection_tasks: Vec<InjectionTask>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SuiteTool {
    pub(super) name: String,
    /// Schema of the parameters.
    pub(super) parameters: Value,
    pub(super) proposed: Terms,
}

/// Classification of a tool, as the corpus proposes it.
#[derive(Debug, Deserialize)]
pub(super) struct Terms {
    pub(super) impact: u8,
    pub(super) sensitive: Vec<String>,
    pub(super) egress: bool,
    pub(super) output_trusted: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct UserTask {
    pub(super) id: String,
    pub(super) calls: Vec<UserCall>,
}

#[derive(Debug, Deserialize)]
pub(super) struct UserCall {
    pub(super) tool: String,
    pub(super) args: Map<String, Value>,
    /// Parts of the result that an attacker can write.
    #[serde(default)]
    pub(super) output_attacker_vectors: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InjectionTask {
    pub(super) id: String,
    #[serde(default)]
    calls: Vec<InjectedCall>,
    /// Calls that the corpus derived, for a task without any.
    #[serde(default)]
    derived_calls: Vec<InjectedCall>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct InjectedCall {
    pub(super) tool: String,
    pub(super) args: Map<String, Value>,
}

impl Corpus {
    /// Reads a corpus, and fills in required parameters that an injected call leaves open.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has another form.
    pub(super) fn read(path: &Path) -> Result<Corpus, Failure> {
        let shown = path.display();
        let wrong = |what: String| Failure::invalid(format!("--data {shown}: {what}"));
        let text = regular_file::read_text(path, BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let mut corpus: Corpus =
            serde_json::from_str(&text).map_err(|error| wrong(format!("no corpus of this form: {error}")))?;
        for (name, suite) in &mut corpus.suites {
            suite.complete().map_err(|what| wrong(format!("suite {name}: {what}")))?;
        }
        Ok(corpus)
    }
}

impl Suite {
    fn complete(&mut self) -> Result<(), String> {
        let schemas: BTreeMap<&str, &Value> =
            self.tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters)).collect();
        if let Some(tool) = self.tools.iter().find(|tool| tool.proposed.impact > 2) {
            return Err(format!("the impact of {} is {}", tool.name, tool.proposed.impact));
        }
        let named = self.user_tasks.iter().flat_map(|task| task.calls.iter().map(|call| &call.tool));
        let injected = self.injection_tasks.iter().flat_map(|task| task.calls());
        if let Some(tool) =
            named.chain(injected.map(|call| &call.tool)).find(|tool| !schemas.contains_key(tool.as_str()))
        {
            return Err(format!("there is no tool {tool:?}"));
        }
        for task in &mut self.injection_tasks {
            for call in task.calls.iter_mut().chain(&mut task.derived_calls) {
                let schema = schemas[call.tool.as_str()];
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                for name in required {
                    let filler = || filler(&schema["properties"][name]);
                    call.args.entry(name).or_insert_with(filler);
                }
            }
        }
        Ok(())
    }

    pub(super) fn tool(&self, name: &str) -> &SuiteTool {
        self.tools.iter().find(|tool| tool.name == name).expect("a read corpus names no other tool")
    }

    pub(super) fn impact(&self, tool: &str) -> u8 {
        self.tool(tool).proposed.impact
    }
}

impl UserTask {
    /// The tools of the task: its scope.
    pub(super) fn tools(&self) -> BTreeSet<&str> {
        self.calls.iter().map(|call| call.tool.as_str()).collect()
    }

    /// The intent of the task: the highest impact of its calls.
    pub(super) fn intent(&self, suite: &Suite) -> u8 {
        self.calls.iter().map(|call| suite.impact(&call.tool)).max().unwrap_or(0)
    }

    /// The first call with a result that an attacker can write.
    pub(super) fn way_in(&self) -> Option<usize> {
        self.calls.iter().position(|call| !call.output_attacker_vectors.is_empty())
    }
}

impl InjectionTask {
    pub(super) fn calls(&self) -> &[InjectedCall] {
        if self.calls.is_empty() { &self.derived_calls } else { &self.calls }
    }
}

/// A value that fits a schema.
pub(super) fn filler(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if let Some(first) = schema["anyOf"].get(0) {
        return filler(first);
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("x"),
    }
}
