//! The calls of an attempt of a node: that of its tool, and those of the programs of its contract's tests.
//!
//! A test counts like a call of a node of its own, from the start of the attempt on.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::ResultTerms;
use crate::contract;
use crate::plan::{Effect, Method, Node, SUB_AGENT_TOOL, TEST_TOOL, model_tool};

/// The tool that a node calls, with the effect of the call: what its tool says, or more if the node does. The parameters of a call
/// with the largest effect need no look.
pub(super) fn own_call<'n>(node: &'n Node, terms: &dyn ResultTerms) -> Option<(&'n str, Effect)> {
    let tool = node.tool.as_deref()?;
    let effect = match node.effect {
        Effect::External => Effect::External,
        said => said.max(terms.effect(tool, &node.params)),
    };
    Some((tool, effect))
}

/// The tool that runs the tests of a node, with the largest effect of their programs; `None` without tests. A test counts like a call
/// of a node of its own, from the start of the attempt on.
pub(super) fn test_call(node: &Node, terms: &dyn ResultTerms) -> Option<(&'static str, Effect)> {
    if !node.is_judged_by(Method::Test) {
        return None;
    }
    let tests = contract::tests(&node.contract);
    let effect = tests.iter().map(|test| terms.effect(TEST_TOOL, &test.params())).max()?;
    Some((TEST_TOOL, effect))
}

pub(super) fn tests_of(node: &Node) -> usize {
    node.contract.iter().filter(|rule| rule.method == Method::Test).count()
}

/// Labels of the result of a node, without those of its inputs: of its tool, and of its tests, which a failure quotes.
pub(super) fn labels_of<'t>(node: &Node, terms: &'t dyn ResultTerms) -> Vec<&'t str> {
    let mut labels = labels_of_call(node, terms);
    labels.extend(labels_of_test_calls(node, terms));
    labels
}

/// Labels of the result of a call. The result of a child run has the labels of all tools that the child could use.
pub(super) fn labels_of_call<'t>(node: &Node, terms: &'t dyn ResultTerms) -> Vec<&'t str> {
    match node.tool.as_deref() {
        Some(SUB_AGENT_TOOL) => labels_of_child(&node.params, terms),
        Some(tool) => terms.labels(tool),
        None => Vec::new(),
    }
}

pub(super) fn labels_of_test_calls<'t>(node: &Node, terms: &'t dyn ResultTerms) -> Vec<&'t str> {
    if node.is_judged_by(Method::Test) { terms.labels(TEST_TOOL) } else { Vec::new() }
}

fn labels_of_child<'t>(params: &Map<String, Value>, terms: &'t dyn ResultTerms) -> Vec<&'t str> {
    let nodes = params.get("plan").and_then(|plan| plan.get("nodes")).and_then(Value::as_array);
    let of_plan: Option<Vec<Cow<'_, str>>> = nodes.and_then(|nodes| {
        let tools = nodes.iter().flat_map(|node| {
            let own = node.get("tool").and_then(Value::as_str).map(Cow::from);
            std::iter::once(own).chain(tools_of_others(node))
        });
        tools.collect()
    });
    let named = params.get("tools").and_then(Value::as_array);
    let tools = of_plan.or_else(|| named?.iter().map(|tool| tool.as_str().map(Cow::from)).collect());
    match tools {
        Some(tools) if !tools.iter().any(|tool| tool == SUB_AGENT_TOOL) => {
            tools.iter().flat_map(|tool| terms.labels(tool)).collect()
        }
        _ => terms.all_labels(),
    }
}

/// Tools that a node of a written plan may call beside its own: for tests, as fallback, and for the undo; `None` stands for a value that
/// is no name.
fn tools_of_others(node: &Value) -> Vec<Option<Cow<'_, str>>> {
    let mut tools = Vec::new();
    for instead in [node.get("fallback"), node.get("undo")].into_iter().flatten() {
        let tool = instead.get("tool").map(|tool| tool.as_str().map(Cow::from));
        let model =
            instead.get("model").map(|model| model.as_str().map(|model| Cow::from(model_tool(model))));
        tools.extend(tool.into_iter().chain(model).chain(tests_of_written(instead)));
    }
    tools.extend(tests_of_written(node));
    tools
}

fn tests_of_written(node: &Value) -> Option<Option<Cow<'_, str>>> {
    let rules = node.get("contract").and_then(Value::as_array)?;
    let is_test = |rule: &Value| rule.get("method").and_then(Value::as_str) == Some("test");
    rules.iter().any(is_test).then_some(Some(Cow::from(TEST_TOOL)))
}
