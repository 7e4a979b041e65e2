//! Contracts: conditions on an output before the node counts as executed.
//!
//! A contract is compiled once and judges any number of outputs. Schemas and code checks run here; the caller
//! runs tests and asks models as tool calls through the gate, and the run asks people. [`Judgement`] has all of them.

mod code_check;
mod evaluation_steps;
mod keyword_cost;
mod patterns;
mod question;
mod reliability;
mod schema;
mod schema_cost;
#[cfg(test)]
mod schema_cost_tests;
mod schema_graph;
mod spec_error;

use std::fmt::{self, Write};

use serde_json::{Map, Value};

use crate::plan::{Method, Rule};
use crate::text::beginning;

use code_check::CodeCheck;
pub(crate) use keyword_cost::Extent;
pub use patterns::CONTRACT_PATTERNS_BYTES_MAX;
pub(crate) use patterns::PATTERNS_HELP;
pub use question::{JUDGED_BYTES_MAX, ModelQuestion, QUESTION_BYTES_MAX, human_questions, model_questions};
pub use reliability::{Reliability, precision, reliability};
pub(crate) use schema::Schema;
pub(crate) use schema::compile as compile_schema;
pub use schema::{SCHEMA_BYTES_MAX, SchemaError, check_schema};
pub use schema_cost::{JUDGEMENT_STEPS_MAX, SCHEMA_CHAIN_MAX, SCHEMA_STEPS_MAX};
pub(crate) use schema_graph::{Subschema, schema_graph};
pub use spec_error::{SpecError, describe_kind, regex_error};

/// Longest excerpt of a value in a message, in bytes.
const EXCERPT_BYTES_MAX: usize = 300;

/// Most elements in the argument list of a test.
pub const TEST_ARGUMENTS_MAX: usize = 256;

/// Most rules in one contract.
pub const CONTRACT_RULES_MAX: usize = 256;

/// A compiled contract.
///
/// ```
/// use ostler_kernel::contract::Contract;
/// use ostler_kernel::plan::{Method, Rule};
/// use serde_json::json;
///
/// let spec = json!({"check": "min_items", "path": "files", "value": 1});
/// let rule = Rule { method: Method::Code, p: None, spec: Some(spec.into()) };
/// let contract = Contract::compile(&[rule]).unwrap();
/// assert!(contract.judge(&json!({"files": ["a"]})).holds());
/// assert!(!contract.judge(&json!({"files": []})).holds());
/// ```
#[derive(Debug)]
pub struct Contract {
    rules: Vec<Compiled>,
    pattern_bytes: usize,
}

#[derive(Debug)]
enum Compiled {
    /// A schema rule without a schema; accepts every output.
    Anything,
    Schema(Box<Schema>),
    Code(CodeCheck),
    Test(Vec<String>),
    Model {
        ask: String,
        model: Option<String>,
    },
    Human,
}

/// A rule with a malformed `spec`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("contract[{rule}]: {what}")]
pub struct ContractError {
    /// Index of the rule in the contract.
    pub rule: usize,
    /// The problem.
    pub what: String,
}

/// Result of judging an output by a contract.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// Broken rules, in contract order.
    pub broken: Vec<BrokenRule>,
    /// Tests to run before the contract holds, in contract order.
    pub tests: Vec<Test>,
    /// Questions to models before the contract holds, in contract order.
    pub models: Vec<ModelQuestion>,
    /// Rules for a person: their indexes.
    pub people: Vec<usize>,
}

impl Judgement {
    /// Returns whether every rule judged here holds. Tests, models and people are not included.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}

/// A rule that an output breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// Index of the rule in the contract.
    pub rule: usize,
    /// Method of the rule.
    pub method: Method,
    /// Expected value, of bounded length.
    pub expected: String,
    /// Found value, of bounded length.
    pub found: String,
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BrokenRule { rule, expected, found, .. } = self;
        write!(f, "contract[{rule}]: expected {expected}, found {found}")
    }
}

/// A test, to run as a call of [`TEST_TOOL`](crate::plan::TEST_TOOL) through the gate. The test passes if the
/// call succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Index of the rule in the contract.
    pub rule: usize,
    /// The program and its arguments.
    pub argv: Vec<String>,
}

impl Test {
    /// Parameters for the tool call.
    pub fn params(&self) -> Map<String, Value> {
        Map::from_iter([("argv".to_owned(), Value::from(self.argv.clone()))])
    }
}

/// The tests of a contract, in order. Malformed rules are skipped.
pub fn tests(rules: &[Rule]) -> Vec<Test> {
    let tests = rules.iter().enumerate().filter(|(_, rule)| rule.method == Method::Test);
    let tests =
        tests.filter_map(|(at, rule)| Some(Test { rule: at, argv: compile_test(rule.spec.as_ref()?).ok()? }));
    tests.collect()
}

impl Contract {
    /// Compiles rules.
    ///
    /// # Errors
    ///
    /// The first malformed rule, or the first rule beyond the limits on rules or patterns.
    pub fn compile(rules: &[Rule]) -> Result<Contract, ContractError> {
        let mut contract = Contract { rules: Vec::new(), pattern_bytes: 0 };
        for (rule, made) in rules.iter().enumerate() {
            let refused = |what: String| ContractError { rule, what };
            if rule == CONTRACT_RULES_MAX {
                return Err(refused(too_many_rules(rules.len())));
            }
            let compiled = compile_rule(made).map_err(|SpecError { what, .. }| refused(what))?;
            contract.pattern_bytes += compiled.pattern_bytes();
            if contract.pattern_bytes > CONTRACT_PATTERNS_BYTES_MAX {
                return Err(refused(patterns_too_large()));
            }
            contract.rules.push(compiled);
        }
        Ok(contract)
    }

    /// Accounted size of the compiled patterns, in bytes.
    pub fn pattern_bytes(&self) -> usize {
        self.pattern_bytes
    }

    /// Upper bound on the steps to judge an output. A step takes a few dozen nanoseconds, and a judgement cannot be
    /// interrupted.
    pub fn steps(&self, output: &Value) -> u64 {
        let extent = Extent::of(output);
        self.rules.iter().map(|rule| rule.steps(output, extent, u64::MAX)).fold(0, u64::saturating_add)
    }

    /// Judges an output by every rule. A rule that would take the steps beyond [`JUDGEMENT_STEPS_MAX`] counts as broken.
    pub fn judge(&self, output: &Value) -> Judgement {
        let mut judgement = Judgement::default();
        let extent = Extent::of(output);
        let mut left = JUDGEMENT_STEPS_MAX;
        for (rule, compiled) in self.rules.iter().enumerate() {
            let steps = compiled.steps(output, extent, left);
            if steps > left {
                judgement.broken.push(compiled.too_many_steps(rule, steps));
                continue;
            }
            left -= steps;
            match compiled {
                Compiled::Anything => {}
                Compiled::Schema(schema) => {
                    judgement.broken.extend(judge_schema(rule, schema, output, extent));
                }
                Compiled::Code(check) => {
                    if let Err((expected, found)) = check.judge(output) {
                        judgement.broken.push(BrokenRule { rule, method: Method::Code, expected, found });
                    }
                }
                Compiled::Test(argv) => judgement.tests.push(Test { rule, argv: argv.clone() }),
                Compiled::Model { ask, model } => {
                    let (ask, model) = (ask.clone(), model.clone());
                    judgement.models.push(ModelQuestion { rule, ask, model });
                }
                Compiled::Human => judgement.people.push(rule),
            }
        }
        judgement
    }
}

/// Compiles rules and judges one output. Keep a [`Contract`] to judge several.
///
/// # Errors
///
/// Those of [`Contract::compile`].
pub fn judge(rules: &[Rule], output: &Value) -> Result<Judgement, ContractError> {
    Ok(Contract::compile(rules)?.judge(output))
}

pub(crate) fn too_many_rules(rules: usize) -> String {
    format!("the contract has {rules} rules, at most {CONTRACT_RULES_MAX} are allowed")
}

/// Message for the rule that exceeds the pattern budget of the contract.
pub(crate) fn patterns_too_large() -> String {
    format!("with it, the compiled patterns of the contract exceed {CONTRACT_PATTERNS_BYTES_MAX} bytes")
}

/// Checks the `spec` of a rule and returns the accounted size of its patterns in bytes.
///
/// # Errors
///
/// The problem, with its place in the spec.
pub fn check_spec(rule: &Rule) -> Result<usize, SpecError> {
    compile_rule(rule).map(|compiled| compiled.pattern_bytes())
}

/// Upper bound on the pattern size of a rule that failed to compile.
pub(crate) fn pattern_bytes_at_most(rule: &Rule) -> usize {
    match (rule.method, rule.spec.as_deref()) {
        (Method::Schema, Some(schema)) => patterns::at_most(schema),
        (Method::Code, Some(spec)) if spec["check"] == "matches" => patterns::PATTERN_BYTES_MAX,
        _ => 0,
    }
}

impl Compiled {
    fn pattern_bytes(&self) -> usize {
        match self {
            Compiled::Schema(schema) => schema.pattern_bytes,
            Compiled::Code(check) => check.pattern_bytes(),
            Compiled::Anything | Compiled::Test(_) | Compiled::Model { .. } | Compiled::Human => 0,
        }
    }

    /// Upper bound on the steps to judge an output; the more exact, the nearer to `most` it is.
    fn steps(&self, output: &Value, extent: Extent, most: u64) -> u64 {
        match self {
            Compiled::Schema(schema) => schema.steps(output, extent, most),
            Compiled::Code(check) => check.steps(output),
            Compiled::Anything | Compiled::Test(_) | Compiled::Model { .. } | Compiled::Human => 0,
        }
    }

    /// The violation of a rule that may take more steps than are left.
    fn too_many_steps(&self, rule: usize, steps: u64) -> BrokenRule {
        let method = if matches!(self, Compiled::Schema(_)) { Method::Schema } else { Method::Code };
        let expected = format!("an output that its contract judges in {JUDGEMENT_STEPS_MAX} steps");
        let taken = if steps == u64::MAX { "far more".to_owned() } else { steps.to_string() };
        let found = format!(
            "one that may take {taken} with this rule; give a smaller or flatter one, or simpler patterns and schemas"
        );
        BrokenRule { rule, method, expected, found }
    }
}

fn compile_rule(rule: &Rule) -> Result<Compiled, SpecError> {
    let spec = rule.spec.as_deref().filter(|spec| !spec.is_null());
    match (rule.method, spec) {
        (Method::Schema, None) => Ok(Compiled::Anything),
        (Method::Schema, Some(schema)) => {
            let compiled = compile_schema(schema).map_err(|error| {
                let place = if let SchemaError::Invalid { place, .. } = &error { place.as_str() } else { "" };
                SpecError::new(place, error.to_string(), error.help())
            })?;
            Ok(Compiled::Schema(Box::new(compiled)))
        }
        (Method::Code, None) => {
            let help = "add a `spec`, such as {check: non_empty, path: matches}";
            Err(SpecError::new("", "a code rule needs a `spec`", help))
        }
        (Method::Code, Some(spec)) => CodeCheck::compile(spec).map(Compiled::Code),
        (Method::Test, None) => Err(SpecError::new("", "a test rule needs a `spec`", TEST_SHAPE)),
        (Method::Test, Some(spec)) => compile_test(spec).map(Compiled::Test),
        (Method::Model, spec) => {
            let (ask, model) = question::compile(Method::Model, spec)?;
            Ok(Compiled::Model { ask, model })
        }
        (Method::Human, spec) => question::compile(Method::Human, spec).map(|_| Compiled::Human),
    }
}

const TEST_SHAPE: &str = "give the program and its arguments: spec: {argv: [make, check]}";

fn compile_test(spec: &Value) -> Result<Vec<String>, SpecError> {
    let wrong = |pointer: &str, what: String| Err(SpecError::new(pointer, what, TEST_SHAPE));
    let Value::Object(spec) = spec else {
        return wrong("", format!("the `spec` of a test rule must be a map, found {}", describe_kind(spec)));
    };
    spec_error::known_keys(spec, &["argv"])?;
    let Some(Value::Array(listed)) = spec.get("argv") else {
        return wrong(
            if spec.contains_key("argv") { "/argv" } else { "" },
            "`argv` must be a list of texts".into(),
        );
    };
    let mut argv = Vec::with_capacity(listed.len().min(TEST_ARGUMENTS_MAX));
    for (at, argument) in listed.iter().enumerate() {
        match argument {
            Value::String(text) => argv.push(text.clone()),
            other => {
                return wrong(
                    &format!("/argv/{at}"),
                    format!("`argv` must hold texts, found {}", describe_kind(other)),
                );
            }
        }
    }
    if argv.first().is_none_or(String::is_empty) {
        return wrong("/argv", "`argv` must begin with the name of a program".into());
    }
    if argv.len() > TEST_ARGUMENTS_MAX {
        let count = argv.len();
        return wrong(
            "/argv",
            format!("`argv` has {count} elements, at most {TEST_ARGUMENTS_MAX} are allowed"),
        );
    }
    Ok(argv)
}

fn judge_schema(rule: usize, schema: &Schema, output: &Value, extent: Extent) -> Option<BrokenRule> {
    if schema.validator.is_valid(output) {
        return None;
    }
    let Some(error) = schema.first_violation(output, extent) else {
        let expected = "an output valid under its schema".to_owned();
        let found = format!("{}, which is too large to find the place", excerpt(output));
        return Some(BrokenRule { rule, method: Method::Schema, expected, found });
    };
    let place = error.instance_path().as_str();
    let place = if place.is_empty() { String::new() } else { format!(" at {}", excerpt(place)) };
    Some(BrokenRule {
        rule,
        method: Method::Schema,
        expected: format!("an output valid under its schema ({})", excerpt(error.masked())),
        found: format!("{}{place}", excerpt(error.instance())),
    })
}

/// A bounded prefix of the displayed value; formatting stops at the bound.
pub(crate) fn excerpt(thing: impl fmt::Display) -> String {
    struct Beginning(String);
    impl Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = EXCERPT_BYTES_MAX - self.0.len();
            if text.len() <= room {
                self.0.push_str(text);
                return Ok(());
            }
            self.0.push_str(beginning(text, room));
            Err(fmt::Error)
        }
    }
    let mut beginning = Beginning(String::new());
    if write!(beginning, "{thing}").is_err() {
        beginning.0.push('…');
    }
    beginning.0
}

#[cfg(test)]
mod tests;
