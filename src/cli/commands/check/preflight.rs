//! Gate decisions that are known before a run. They are advice, because a run may get other bounds.

use std::collections::BTreeMap;
use std::path::Path;

use ostler::config::Config;
use ostler::finding::Finding;
use ostler::plan_file::PlanFile;
use ostler_kernel::contract;
use ostler_kernel::gate::{
    Call, Denial, DenialCode, Egress, EgressFault, GatePolicy, GatedTool, Provenance, Spent, preflight,
};
use ostler_kernel::json::{Json, Object};
use ostler_kernel::plan::{
    MODEL_DEFAULT, Node, Plan, Settings, TEST_TOOL, model_tool, undoing, with_fallback,
};
use serde_json::{Map, Value};

use crate::cli::arguments::bounds::Bounds;
use crate::cli::arguments::plan::with_settings;

const CODE: &str = "W06";

const NAMED_MAX: usize = 4;

/// Returns the calls that the gate would deny within these bounds.
pub(crate) fn refusals(
    file: &PlanFile,
    plan: &Plan,
    config: &Config,
    bounds: &Bounds,
    workspace: &Path,
) -> Vec<Finding> {
    let tools = crate::cli::arguments::plan::tools(config);
    let policy = config.gate(&tools);
    let gated = tools.into_iter().map(|tool| GatedTool::new(tool).expect("the built-in tools have schemas"));
    let tools = gated.map(|tool| (tool.name().to_owned(), tool)).collect();
    let gate = Gate {
        tools,
        policy,
        scope: &bounds.scope,
        workspace: workspace.to_str().unwrap_or_default(),
        judge: config.judge_model().unwrap_or_else(|| MODEL_DEFAULT.to_owned()),
    };
    let intent = bounds.intent.unwrap_or(gate.policy.default_intent);
    let parts = with_settings(config, |settings| Part::ALL.map(|part| (part, part.nodes(plan, settings))));
    let mut found = Vec::new();
    for (part, nodes) in &parts {
        found.extend(over_intent(file, *part, nodes, intent));
        for (of, node) in nodes {
            let Some(denial) = gate.denial(node) else { continue };
            // A fallback that changes nothing about it is told of with the node.
            if *part == Part::Fallback && gate.denial(of).as_ref() == Some(&denial) {
                continue;
            }
            let (param, fix) = param_and_fix(&gate, node, &denial);
            let what = format!("would be denied{}: {}", part.text(), denial.operator);
            let place = match param {
                Some(name) if *part == Part::Own => pointer(file, of, &format!("params/{name}")),
                _ => pointer(file, of, part.place()),
            };
            found.push(file.found(CODE, of.id.as_str(), &place, &what, &fix));
        }
    }
    found
}

/// The part of a node that makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Own,
    Fallback,
    Undo,
}

impl Part {
    const ALL: [Part; 3] = [Part::Own, Part::Fallback, Part::Undo];

    /// Each node that has this part, with the node that makes its call.
    fn nodes<'p>(self, plan: &'p Plan, settings: &Settings<'_>) -> Vec<(&'p Node, Node)> {
        let calling = |node: &Node| match self {
            Part::Own => Some(node.clone()),
            Part::Fallback => with_fallback(node, settings),
            Part::Undo => undoing(node, settings),
        };
        plan.nodes.iter().filter_map(|node| Some((node, calling(node)?))).collect()
    }

    fn text(self) -> &'static str {
        match self {
            Part::Own => "",
            Part::Fallback => " in its fallback",
            Part::Undo => " in its undo",
        }
    }

    fn place(self) -> &'static str {
        match self {
            Part::Own => "tool",
            Part::Fallback => "fallback",
            Part::Undo => "undo",
        }
    }
}

/// The parameter that is denied, if one is, and the fix.
fn param_and_fix<'n>(gate: &Gate<'_>, node: &'n Node, denial: &Denial) -> (Option<&'n str>, String) {
    let tool = node.tool.as_deref().and_then(|name| gate.tools.get(name));
    let url = tool.and_then(|tool| bad_url(tool, &node.params, &gate.policy.egress));
    let fix = fix(denial, gate.scope, url.as_ref().map(|(_, fault)| fault));
    let param = match denial.code {
        DenialCode::EgressForbidden => url.map(|(name, _)| name),
        // The parameter that the gate would deny by itself.
        DenialCode::PathEscape | DenialCode::ParamPolicy => node.params.iter().find_map(|(name, value)| {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            let denied = gate.judge(node.tool.as_deref()?, alone.into(), 0)?;
            (denied.code == denial.code).then_some(name.as_str())
        }),
        _ => None,
    };
    (param, fix)
}

struct Gate<'a> {
    tools: BTreeMap<String, GatedTool>,
    policy: GatePolicy,
    scope: &'a str,
    workspace: &'a str,
    /// Name of the model that judges results for rules which name none.
    judge: String,
}

impl Gate<'_> {
    fn judge(&self, name: &str, params: Object, floor: u8) -> Option<Denial> {
        let call = Call {
            tool: self.tools.get(name),
            name,
            params,
            floor,
            // Impact above the intent is reported once for the plan.
            intent: u8::MAX,
            scope: self.scope.into(),
            workspace: Some(self.workspace),
            provenance: Provenance::PLAN,
            spent: Spent::NOTHING,
        };
        preflight(&call, &self.policy)
    }

    /// Returns why the call of a node, of one of its tests or of a model that judges its result would be denied.
    fn denial(&self, node: &Node) -> Option<Denial> {
        let own = node.tool.as_deref().and_then(|tool| self.judge(tool, node.params.clone(), node.impact));
        own.or_else(|| {
            let mut tests = contract::tests(&node.contract).into_iter();
            tests.find_map(|test| self.judge(TEST_TOOL, test.params().into(), 0))
        })
        .or_else(|| {
            contract::model_questions(&node.contract).iter().find_map(|question| {
                let tool = model_tool(question.model.as_deref().unwrap_or(&self.judge));
                // A model that is not configured is a W08.
                self.tools.get(&tool)?;
                self.judge(&tool, question.params(&Json::null()).into(), 0)
            })
        })
    }
}

/// Reports the calls of one part with an impact above the intent.
fn over_intent(file: &PlanFile, part: Part, nodes: &[(&Node, Node)], intent: u8) -> Option<Finding> {
    let calls = nodes.iter().filter(|(_, node)| node.tool.is_some());
    let impacts = calls.map(|(of, node)| (*of, node.reach().impact));
    // What the node itself needs suffices for the rest of it.
    let is_over = |of: &Node, impact| impact > intent && (part == Part::Own || impact > of.reach().impact);
    let over: Vec<(&Node, u8)> = impacts.filter(|(of, impact)| is_over(of, *impact)).collect();
    let [(first, impact), others @ ..] = over.as_slice() else { return None };
    let most = over.iter().map(|(_, impact)| impact).max().unwrap_or(impact);
    let (others, part_text) = (others_text(others), part.text());
    let what = format!("would be denied{part_text}: impact {impact} is above --intent {intent}{others}");
    let fix = format!("if this is intended, run it with --intent {most}");
    Some(file.found(CODE, first.id.as_str(), &pointer(file, first, part.place()), &what, &fix))
}

/// JSON pointer to a part of a node in the plan file.
fn pointer(file: &PlanFile, node: &Node, part: &str) -> String {
    let nodes = file.draft().map(|draft| draft.nodes.as_slice()).unwrap_or_default();
    let at = nodes.iter().position(|written| written.id == node.id);
    at.map(|at| format!("/nodes/{at}/{part}")).unwrap_or_default()
}

fn others_text(others: &[(&Node, u8)]) -> String {
    let named: Vec<&str> = others.iter().take(NAMED_MAX).map(|(node, _)| node.id.as_str()).collect();
    match others.len() {
        0 => String::new(),
        many if many > NAMED_MAX => format!("; so would {} and {} more", named.join(", "), many - NAMED_MAX),
        _ => format!("; so would {}", named.join(", ")),
    }
}

/// Returns the first URL parameter that the egress rules deny, and the fault.
fn bad_url<'p>(
    tool: &GatedTool,
    params: &'p Map<String, Value>,
    egress: &Egress,
) -> Option<(&'p str, EgressFault)> {
    params.iter().filter(|(name, _)| tool.takes_url(name)).find_map(|(name, value)| {
        let fault = egress.judge(value.as_str()?).err()?;
        Some((name.as_str(), fault))
    })
}

fn fix(denial: &Denial, scope: &str, url: Option<&EgressFault>) -> String {
    match denial.code {
        DenialCode::ScopeUnresolved => format!("use a configured scope, or add [scopes.{scope}]"),
        DenialCode::OutOfScope => format!("add the tool to [scopes.{scope}], or use another --scope"),
        DenialCode::ImpactOverScopeCap => {
            format!("raise its cap in [scopes.{scope}], or use another --scope")
        }
        DenialCode::PathEscape => "use a path inside the workspace, or another --workspace".to_owned(),
        DenialCode::EgressForbidden => match url {
            Some(EgressFault::Ambiguous(_) | EgressFault::Scheme) => {
                "write it as https://HOST/PATH or https://HOST:PORT/PATH, with escapes such as %20 for a space"
                    .to_owned()
            }
            Some(EgressFault::NotListed { host, port } | EgressFault::NotPublic { host, port }) => {
                format!(
                    "if this is intended, list \"{host}:{port}\" in egress_allow of [tools.http] of the configuration"
                )
            }
            Some(EgressFault::OtherScheme { expected, .. }) => {
                format!("write it with {expected}://, or with another port")
            }
            Some(EgressFault::NotFound { .. }) | None => "list HOST:PORT in egress_allow of [tools.http] of the configuration".to_owned(),
        },
        DenialCode::PlanFieldForbidden => {
            "remove it; --intent and --scope set what a run may do".to_owned()
        }
        DenialCode::ParamSchema | DenialCode::ImpactOverIntent | DenialCode::ImpactOverTenantCeiling => {
            "`ostler help run` explains the bounds of a run".to_owned()
        }
        code => format!("`ostler help {code}` explains it"),
    }
}
