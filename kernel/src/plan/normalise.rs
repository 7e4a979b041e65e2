//! Normalisation: fills in every default of a plan as written, before validation.
//!
//! The steps run in a fixed order, because later steps read earlier results. Per node: (1) in a real run,
//! fields left out are completed from the tool and the kind; (2) the kind is inferred from `tool` and
//! `model`; (3) absent fields take the values of [`Settings`]; (4) unless the plan is strict, each
//! `param_refs` source without a dependency gets a success edge, except in an `any_of`, which reads from
//! `$winner`; (5) a node with edges and no join gets `all_of`. Then, for the plan: nodes are sorted by id,
//! the exits become the outputs if none are declared, and the policy is layered: settings, plan, overrides.
//! Normalising a normalised plan changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::contract_rules::{PatternBudget, normalise_rules};
use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::draft::{NodeDraft, PlanDraft, PolicyDraft, RuleDraft};
use super::node_index::NodeIndex;
use super::pointer::{Origin, Pointer};
use super::{
    Dep, Freshness, Idempotency, Join, Kind, MODEL_DEFAULT, Method, Node, On, OnFailure, ParamRef, Plan,
    Policy, Rule, SUB_AGENT_TOOL, Settings, TEST_TOOL, ToolDefaults, for_each, freshness, guard, model_tool,
    policy_floor, undo,
};
use crate::contract;
use crate::gate::CallClass;
use crate::id::NodeId;
use crate::ledger::Usd;

/// A normalised plan before [`validate`](super::validate).
#[derive(Debug, Clone, PartialEq)]
pub struct UncheckedPlan {
    pub(super) plan: Plan,
    pub(super) origin: Origin,
    pub(super) index: NodeIndex,
    /// Diagnostics about parts that a [`Plan`] cannot hold, such as a rule without a method.
    pub(super) faults: Vec<Diagnostic>,
}

impl UncheckedPlan {
    /// The normalised plan. Ids may repeat and edges may lead nowhere, so the plan must not run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Positions of the nodes in the plan as written.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Fills in every default: absent fields take the values of [`Settings`], kinds are inferred, references add
/// edges, edges add joins, and the exits become the outputs unless outputs are declared.
pub fn normalise(draft: PlanDraft, settings: &Settings<'_>) -> UncheckedPlan {
    let (mut faults, mut room) = (Vec::new(), PatternBudget::default());
    let strict = draft.strict.unwrap_or(false);
    let root = Pointer::root();
    let deps = |node: &NodeDraft| node.deps.as_ref().map_or(0, Vec::len);
    let mut places: Vec<(usize, usize)> =
        draft.nodes.iter().enumerate().map(|(at, node)| (at, deps(node))).collect();
    let written = draft.nodes.into_iter().enumerate();
    let mut nodes: Vec<Node> = written
        .map(|(at, node)| {
            node.normalise(strict, settings, &|| root.key("nodes").item(at), &mut room, &mut faults)
        })
        .collect();
    // Both sorts are stable: of two nodes with one id, the later stays later and is the effective one.
    places.sort_by(|a, b| nodes[a.0].id.cmp(&nodes[b.0].id));
    nodes.sort_by(|a, b| a.id.cmp(&b.id));
    let index = NodeIndex::new(&nodes);
    let place = || root.key("contract");
    if draft.contract.as_ref().is_some_and(Vec::is_empty) {
        let (detail, help) = ("the contract of the plan is empty", "add a rule, or remove `contract`");
        faults.push(Diagnostic::new(DiagnosticCode::V08, Diagnostic::PLAN, detail, help).at(&place()));
    }
    let specs = settings.real_run.then_some(&mut room);
    let contract =
        normalise_rules(Diagnostic::PLAN, draft.contract.unwrap_or_default(), specs, &place, &mut faults);
    let mut policy = settings.policy.clone();
    let written = draft.policy.unwrap_or_default();
    if let Some(unknown) = settings.overrides.unknown_on_failure(&written) {
        let (detail, help) =
            (format!("policy.on_failure is {unknown}"), "set on_failure: keep, or on_failure: undo");
        let place = root.key("policy").key("on_failure");
        faults.push(Diagnostic::new(DiagnosticCode::V32, Diagnostic::PLAN, detail, help).at(&place));
    }
    written.overlay(&mut policy, settings);
    settings.overrides.overlay(&mut policy, settings);
    let plan = Plan {
        id: draft.id,
        title: draft.title,
        version: 1,
        outputs_declared: draft.outputs.is_some(),
        outputs: draft.outputs.unwrap_or_else(|| exits(&nodes, &index)),
        nodes,
        policy,
        contract,
        strict,
        derived: Default::default(),
    };
    UncheckedPlan { plan, origin: Origin::new(places), index, faults }
}

impl PlanDraft {
    /// Normalises and validates.
    ///
    /// # Errors
    ///
    /// Every diagnostic of the plan, sorted by code and node.
    pub fn validate(self, settings: &Settings<'_>) -> Result<Plan, Vec<Diagnostic>> {
        super::validate(normalise(self, settings), settings)
    }
}

impl NodeDraft {
    /// Fills in the defaults of one node. Parts that a [`Node`] cannot hold go to `faults`.
    pub(super) fn normalise(
        self,
        strict: bool,
        settings: &Settings<'_>,
        place: &dyn Fn() -> Pointer,
        room: &mut PatternBudget,
        faults: &mut Vec<Diagnostic>,
    ) -> Node {
        let mut draft = self;
        let said = draft.idem;
        draft.kind = Some(draft.inferred_kind());
        // A tool's own result schema needs no check, and many nodes share one.
        let authored = draft.contract.is_some() || draft.tool.is_none();
        if settings.real_run {
            draft.complete(settings);
        }
        let idem = draft.idem.unwrap_or_default();
        let retries = draft.retries.unwrap_or_else(|| settings.default_retries(draft.tool.as_deref(), idem));
        let kind = draft.inferred_kind();
        let default_timeout = settings.default_timeout(kind, draft.tool.as_deref());
        let mut node = Node {
            tests: None,
            kind,
            tool: draft.tool,
            model: draft.model,
            deps: draft.deps.unwrap_or_default().into_iter().map(|dep| dep.0).collect(),
            join: draft.join,
            dispatch: draft.dispatch.unwrap_or_default(),
            params: draft.params.unwrap_or_default().into(),
            param_refs: draft.param_refs.unwrap_or_default(),
            reads: draft.reads.unwrap_or_default(),
            contract: normalise_rules(
                &draft.id,
                draft.contract.unwrap_or_default(),
                (settings.real_run && authored).then_some(room),
                &|| place().key("contract"),
                faults,
            ),
            effect: draft.effect.unwrap_or_default(),
            impact: draft.impact.map_or(0, |impact| impact.get()),
            idem,
            timeout: draft.timeout.map_or(default_timeout, |span| span.ticks(settings.ticks_per_second)),
            heartbeat_timeout: draft.heartbeat_timeout.map(|span| span.ticks(settings.ticks_per_second)),
            retries,
            patches: draft.patches.unwrap_or(i64::from(draft.fallback.is_some())),
            approval: draft.approval.unwrap_or_default(),
            human_timeout: draft.human_timeout.map(|span| span.ticks(settings.ticks_per_second)),
            fallback: draft.fallback,
            when: draft
                .when
                .map_or_else(Vec::new, |when| guard::read(&draft.id, &when, &|| place().key("when"), faults)),
            for_each: draft
                .for_each
                .and_then(|list| for_each::read(&draft.id, &list, &|| place().key("for_each"), faults)),
            fresh: draft.fresh.map_or(Freshness::Always, |written| {
                freshness::read(&draft.id, &written, settings, &|| place().key("fresh"), faults)
            }),
            deadline: draft.deadline.map(|span| span.ticks(settings.ticks_per_second)),
            undo: draft.undo.and_then(|written| {
                undo::read(&draft.id, &written, settings, room, &|| place().key("undo"), faults)
            }),
            made: None,
            id: draft.id,
        };
        if settings.real_run {
            node.tests = tests_class(&node.contract, said, settings);
        }
        connect(&mut node, strict);
        node
    }

    fn inferred_kind(&self) -> Kind {
        self.kind.unwrap_or(match (&self.tool, &self.model) {
            (None, Some(_)) => Kind::Model,
            (_, _) => Kind::Tool,
        })
    }

    /// Names the tool of a sub-agent. Its models are a parameter: `model: m` and `params: {model: m}` mean the same.
    fn name_sub_agent(&mut self) {
        self.tool.get_or_insert_with(|| SUB_AGENT_TOOL.to_owned());
        if let Some(model) = self.model.take() {
            self.params.get_or_insert_default().entry("model").or_insert(model.into());
        }
    }

    /// Names the tool that calls the node's model. `model: m` and `params: {model: m}` mean the same.
    fn name_model(&mut self, kind: Kind) {
        if kind == Kind::Model && self.model.is_none() {
            let written = self.params.as_mut().and_then(|params| params.remove("model"));
            let written = written.and_then(|model| model.as_str().map(str::to_owned));
            self.model = Some(written.unwrap_or_else(|| MODEL_DEFAULT.to_owned()));
        }
        if let Some(model) = self.model.as_ref().filter(|_| kind.may_call_model()) {
            self.tool.get_or_insert_with(|| model_tool(model));
        }
    }

    /// Completes a node from its tool and kind, for a real run.
    fn complete(&mut self, settings: &Settings<'_>) {
        let kind = self.inferred_kind();
        match kind {
            Kind::SubAgent => self.name_sub_agent(),
            kind => self.name_model(kind),
        }
        let params = self.params.get_or_insert_default();
        let defaults = self.tool.as_ref().and_then(|tool| settings.tools?.defaults(tool, params));
        if let Some(defaults) = &defaults {
            self.effect.get_or_insert(defaults.effect);
            self.idem.get_or_insert(defaults.idem);
            // The impact in the plan is a lower bound: naming a tool harmless does not make the tool
            // harmless.
            let floor = self.impact.map_or(0, |impact| impact.get());
            self.impact = super::Impact::new(floor.max(defaults.impact)).or(self.impact);
        }
        if self.contract.is_none() {
            let result = match kind {
                Kind::Tool | Kind::SubAgent => defaults.and_then(|defaults| defaults.result_schema),
                Kind::Model if params.contains_key("tools") => Some(Arc::new(json!({"type": "object"}))),
                Kind::Model | Kind::Aggregator => {
                    Some(Arc::new(params.get("schema").cloned().unwrap_or_else(text_schema)))
                }
                Kind::HumanApproval => Some(Arc::new(json!({"type": "null"}))),
                Kind::Wait => Some(Arc::new(json!({}))),
                Kind::Reflection
                | Kind::Observer
                | Kind::MicroPlanner
                | Kind::Interjection
                | Kind::Collector
                | Kind::Earlier => None,
            };
            self.contract = result
                .map(|schema| vec![RuleDraft { method: Some(Method::Schema), p: None, spec: Some(schema) }]);
        }
    }
}

/// Result schema of an aggregator without a declared schema.
fn text_schema() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
}

/// Combined class of the tests among these rules. An author's `idem` covers the tests too.
pub(super) fn tests_class(
    rules: &[Rule],
    said: Option<Idempotency>,
    settings: &Settings<'_>,
) -> Option<CallClass> {
    let classes = contract::tests(rules).into_iter().filter_map(|test| {
        let ToolDefaults { effect, impact, idem, .. } =
            settings.tools?.defaults(TEST_TOOL, &test.params())?;
        Some(CallClass { impact, effect, idem: said.unwrap_or(idem) })
    });
    classes.reduce(CallClass::and)
}

/// Adds the edges that references need and, if the node has edges, a join. Idempotent.
pub(super) fn connect(node: &mut Node, strict: bool) {
    let refers = !node.param_refs.is_empty() || !node.when.is_empty() || node.for_each.is_some();
    if !strict && node.join != Some(Join::AnyOf) && refers {
        let mut named: BTreeSet<&NodeId> = node.deps.iter().map(|dep| &dep.n).collect();
        let guards = node.when.iter().map(|guard| &guard.from);
        let sources = node.param_refs.values().map(|reference| &reference.from).chain(guards);
        let missing: Vec<Dep> = sources
            .chain(node.for_each.iter().map(|list| &list.from))
            .filter(|&from| from.as_str() != ParamRef::WINNER && named.insert(from))
            .map(|from| Dep { n: from.clone(), on: On::Success })
            .collect();
        node.deps.extend(missing);
    }
    if !node.deps.is_empty() {
        node.join.get_or_insert(Join::AllOf);
    }
}

/// Nodes that no dependency of either kind names, ascending.
fn exits(nodes: &[Node], index: &NodeIndex) -> Vec<NodeId> {
    let mut named = vec![false; nodes.len()];
    for source in index.sources.items().iter().flatten() {
        named[*source] = true;
    }
    let mut exits: Vec<NodeId> =
        (0..nodes.len()).filter(|&at| !named[index.effective(at)]).map(|at| nodes[at].id.clone()).collect();
    exits.dedup();
    exits
}

fn read_on_failure(said: &Value) -> Option<OnFailure> {
    OnFailure::deserialize(said).ok()
}

impl PolicyDraft {
    /// The effective `on_failure` as written (the override's, otherwise the plan's), if its value is unknown.
    fn unknown_on_failure<'a>(&'a self, plan: &'a PolicyDraft) -> Option<&'a Value> {
        let said = self.on_failure.as_ref().or(plan.on_failure.as_ref());
        said.filter(|said| read_on_failure(said).is_none())
    }

    /// Overlays the present fields on `policy`.
    pub fn overlay(&self, policy: &mut Policy, settings: &Settings<'_>) {
        let PolicyDraft {
            slots,
            max_replans,
            max_versions,
            max_nodes,
            max_depth,
            max_attempts,
            backoff_base,
            backoff_cap,
            in_doubt,
            oversight,
            domain,
            recovery,
            usd,
            tokens,
            on_failure,
            max_kept,
        } = self;
        let put = |field: &mut u32, said: &Option<u32>| *field = said.unwrap_or(*field);
        put(&mut policy.slots, slots);
        put(&mut policy.max_replans, max_replans);
        put(&mut policy.max_versions, max_versions);
        put(&mut policy.max_nodes, max_nodes);
        put(&mut policy.max_depth, max_depth);
        put(&mut policy.max_kept, max_kept);
        policy.on_failure =
            on_failure.as_ref().map_or(policy.on_failure, |said| read_on_failure(said).unwrap_or_default());
        policy.max_attempts = max_attempts.unwrap_or(policy.max_attempts);
        policy.backoff_base =
            backoff_base.map_or(policy.backoff_base, |span| span.ticks(settings.ticks_per_second));
        policy.backoff_cap =
            backoff_cap.map_or(policy.backoff_cap, |span| span.ticks(settings.ticks_per_second));
        policy.calls.nano_usd = usd.map(|Usd(nano_usd)| nano_usd).or(policy.calls.nano_usd);
        policy.calls.tokens = tokens.or(policy.calls.tokens);
        policy.in_doubt = in_doubt.unwrap_or(policy.in_doubt);
        policy.oversight = oversight.or(policy.oversight);
        policy_floor::keep_domain_floor(&mut policy.recovery, domain.as_deref(), policy.domain.as_deref());
        policy.domain = domain.clone().or(policy.domain.take());
        recovery.iter().for_each(|recovery| policy_floor::raise_to(&mut policy.recovery, recovery));
    }
}
