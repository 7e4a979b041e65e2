//! The tools that a goal run offers to its models.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::gate::{GatePolicy, GatedTool};
use ostler_kernel::plan::{ParamRef, SUB_AGENT_TOOL, model_of_tool};
use ostler_kernel::policy::{
    FOUND_TOOLS_MAX, GoalTerms, GoalTools, Reach, ToolTerms, fit, offer_tokens, shared_words, words,
};
use ostler_kernel::port::{Tool, ToolOffer};
use serde_json::{Map, Value};

use crate::state::toolbox::Toolbox;

/// Most tools in a prompt. Of more, those are offered whose names and descriptions share most words with the goal and with what an
/// earlier answer says is missing; models search for the others.
pub(crate) const OFFERED_TOOLS_MAX: usize = 50;

/// Patches of a step that the micro-planner may write.
const STEP_PATCHES: i64 = 1;

/// The tools of a run's scope. Models are none of them: a plan of steps does not call the model that writes it.
#[derive(Debug)]
pub(crate) struct RunTools {
    toolbox: Arc<Toolbox>,
    terms: BTreeMap<String, ToolTerms>,
    goal: String,
    offers: Vec<ToolOffer>,
    index_tokens: u64,
}

impl RunTools {
    /// The tools of `scope` that the terms of the goal leave.
    pub(crate) fn new(
        toolbox: &Arc<Toolbox>,
        policy: &GatePolicy,
        scope: &str,
        goal: &GoalTerms,
    ) -> RunTools {
        let in_scope = |name: &str| policy.grants(scope, name);
        let wanted =
            |name: &str| goal.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name));
        // An agent opens agents only if the user names the tool.
        let is_plain = |name: &str| name != SUB_AGENT_TOOL || goal.tools.is_some();
        let is_offered =
            |name: &str| model_of_tool(name).is_none() && is_plain(name) && in_scope(name) && wanted(name);
        let tools: Vec<&Arc<dyn Tool>> =
            toolbox.iter().filter(|tool| is_offered(&tool.spec().name)).collect();
        let gated = tools.iter().filter_map(|tool| toolbox.gated(&tool.spec().name));
        let terms = gated.map(|gated| (gated.name().to_owned(), terms(gated, policy))).collect();
        let offers = best_offers(tools, &words(&goal.goal));
        let index_tokens = offers.iter().map(offer_tokens).sum();
        RunTools { toolbox: Arc::clone(toolbox), terms, goal: goal.goal.clone(), offers, index_tokens }
    }

    /// The tools in the order of their names.
    fn in_scope(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.terms.keys().filter_map(|name| Some(self.toolbox.gated(name)?.tool()))
    }
}

impl GoalTools for RunTools {
    fn terms(&self, tool: &str) -> Option<&ToolTerms> {
        self.terms.get(tool)
    }

    fn reach(&self, tool: &str, literal: &Map<String, Value>, refs: &BTreeMap<String, ParamRef>) -> Reach {
        let known = literal.iter().filter(|(name, _)| !refs.contains_key(*name));
        let known = known.map(|(name, value)| (name.clone(), value.clone())).collect();
        let class = self.toolbox.class(tool, &known);
        Reach { effect: class.effect, impact: class.impact }
    }

    fn index_tokens(&self) -> u64 {
        self.index_tokens
    }

    fn offers(&self, missing: Option<&str>) -> Cow<'_, [ToolOffer]> {
        match missing {
            Some(missing) if self.terms.len() > OFFERED_TOOLS_MAX => {
                let wanted = words(&format!("{} {missing}", self.goal));
                Cow::Owned(best_offers(self.in_scope().collect(), &wanted))
            }
            Some(_) | None => Cow::Borrowed(&self.offers),
        }
    }

    fn left_out(&self) -> usize {
        self.terms.len() - self.offers.len()
    }

    fn search(&self, searched: &str) -> Vec<ToolOffer> {
        let wanted = words(searched);
        let rank = |tool: &Arc<dyn Tool>| fit(&wanted, &indexed(tool));
        let fitting = self.in_scope().map(|tool| (rank(tool), tool)).filter(|(rank, _)| *rank > 0);
        let mut fitting: Vec<(usize, &Arc<dyn Tool>)> = fitting.collect();
        // Stable: of equals, the first by name.
        fitting.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        fitting.into_iter().take(FOUND_TOOLS_MAX).map(|(_, tool)| offer(tool)).collect()
    }
}

/// Index entry of a tool: its name and its line.
fn indexed(tool: &Arc<dyn Tool>) -> String {
    format!("{} {}", tool.spec().name, tool.spec().description)
}

fn offer(tool: &Arc<dyn Tool>) -> ToolOffer {
    let spec = tool.spec();
    let (name, description) = (spec.name.clone(), spec.description.clone());
    ToolOffer { name, description, params: spec.params.clone() }
}

/// Offers in the order of their names, so that prompts of one system begin alike.
fn best_offers(mut tools: Vec<&Arc<dyn Tool>>, wanted: &[String]) -> Vec<ToolOffer> {
    if tools.len() > OFFERED_TOOLS_MAX {
        tools.sort_by_cached_key(|tool| std::cmp::Reverse(shared_words(wanted, &indexed(tool))));
        tools.truncate(OFFERED_TOOLS_MAX);
        tools.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
    }
    tools.into_iter().map(offer).collect()
}

fn terms(gated: &GatedTool, policy: &GatePolicy) -> ToolTerms {
    let tool = gated.tool();
    let schema = &tool.spec().params;
    let properties = schema["properties"].as_object();
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|known| known == name))
    };
    let params = properties
        .map(|properties| properties.keys().map(|name| (name.clone(), is_required(name))).collect());
    ToolTerms {
        trusted: policy.trusts(gated.name(), !tool.reads_strangers()),
        trusted_outside: policy.trusts(gated.name(), !tool.reads_strangers_outside()),
        sensitive: gated.sensitive().iter().cloned().collect(),
        workspace_use: tool.workspace_use(),
        params,
        patches: STEP_PATCHES,
        step: None,
    }
}
