//! From a granted slot to a started attempt: inputs, gate, intent, effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::{Accounts, AttemptIntent, AttemptResult, Event, GateDecision, HumanRequestKind};
use ostler_kernel::gate::{Denial, Permit};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::json;
use ostler_kernel::lineage::{self, Inputs, Sigma};
use ostler_kernel::plan::{Approval, Effect, Idempotency, Kind, Node, ParamRef};
use ostler_kernel::port::{Position, Tool};
use ostler_kernel::run::{Category, Input, NodeState, Standing};
use ostler_scheduler::JobHandle;
use ractor::ActorProcessingErr;
use serde_json::{Map, Value, json};

use super::drive::{Drive, resolve};
use crate::approval;
use crate::attempt::{self, Caller, Work};
use crate::effects::{Effects, failed};
use crate::scheduler::{Granted, SchedulerMessage};

/// An attempt that starts as soon as its intent is appended (durable, if it acts on the world).
pub(super) struct Launch {
    node: Node,
    attempt: u32,
    job: JobHandle,
    acts: bool,
    work: Work,
}

/// Why a granted node does not start.
enum Refusal {
    /// A failure like any other.
    Failed(Category, String),
    /// The gate said no. What the plan gets to see is the same sentence for every reason.
    Denied(Denial),
}

impl Refusal {
    fn unapproved() -> Refusal {
        let what = "what was approved is not what would be done now: tools or the policy have changed";
        Refusal::Failed(Category::Transient, what.to_owned())
    }
}

impl Drive {
    /// Starts what was granted; gives back what is not wanted any more.
    pub(super) async fn granted(&mut self, grants: Vec<Granted>) -> Result<(), ActorProcessingErr> {
        for Granted { handle, job, accounts } in grants {
            self.take_from_queue(&job.node);
            let wanted = self.run.instance(&job.node).filter(|instance| !instance.is_draining());
            let state = wanted.map(|instance| instance.state());
            let mine = job.run == self.opened.run && !self.services.is_stopping();
            match state {
                Some(NodeState::Ready) if mine => {
                    let events = self.within(|run, cx| run.start(cx, &job.node, None));
                    self.note(events);
                    self.begin_attempt(&job.node, handle, accounts).await?;
                }
                // Its process died; it may be done again, under the same attempt.
                Some(NodeState::Running) if mine => {
                    self.begin_attempt(&job.node, handle, accounts).await?;
                }
                _ => {
                    self.give_back(handle);
                    self.end_unwanted(&job.node);
                }
            }
        }
        Ok(())
    }

    /// An attempt that was lost with its process, and stopped before it could be done again: what it did is not
    /// known, and nobody wants it done again.
    pub(super) fn end_unwanted(&mut self, node: &NodeId) {
        let Some(instance) = self.run.instance(node) else { return };
        let attempt = instance.attempts;
        let key = self.key(node, attempt);
        if instance.is_draining() && !self.services.effects.knows(&key) {
            let outcome = failed(Category::Crash, "its process ended".to_owned());
            let result = AttemptResult::unpaid(node.clone(), attempt, outcome);
            self.decide(Input::Result(Box::new(result)));
        }
    }

    fn give_back(&self, job: JobHandle) {
        self.services.links.tell_scheduler(SchedulerMessage::Settle { job, cost: 1, ended: None });
    }

    async fn begin_attempt(
        &mut self,
        id: &NodeId,
        job: JobHandle,
        accounts: Accounts,
    ) -> Result<(), ActorProcessingErr> {
        let node = self.run.node(id).expect("a node that was started exists").clone();
        let attempt = self.run.instance(id).map_or(0, |instance| instance.attempts);
        let prepared = self.prepare(&node).await?.and_then(|prepared| {
            if self.is_approved(&node, &prepared.work) { Ok(prepared) } else { Err(Refusal::unapproved()) }
        });
        match prepared {
            Ok(prepared) => {
                let Prepared { work, refs } = prepared;
                let acts = acts(node.effect) || work.acts();
                self.intend(&node, attempt, &refs, Some(accounts));
                self.launches.push(Launch { node, attempt, job, acts, work });
            }
            Err(refusal) => {
                self.give_back(job);
                self.refuse(id, attempt, refusal);
            }
        }
        Ok(())
    }

    /// Starts a node that is nothing but a wait. It passes the gate like any other.
    pub(super) async fn launch_timer(&mut self, node: &Node) -> Result<(), ActorProcessingErr> {
        let prepared = self.prepare(node).await?;
        let wait = match &prepared {
            Ok(Prepared { work: Work::Tool { tool, permit }, .. }) => tool.timer_ms(permit.params()),
            _ => None,
        };
        let due = wait.map(|ms| self.services.clock.now().saturating_add_unsigned(ms));
        let events = self.within(|run, cx| run.start(cx, &node.id, due));
        self.note(events);
        let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
        match prepared {
            Ok(Prepared { refs, .. }) if due.is_some() => {
                self.intend(node, attempt, &refs, None);
            }
            Ok(_) => {
                let what = format!("{} does not say how long to wait", node.id);
                self.refuse(&node.id, attempt, Refusal::Failed(Category::Structural, what));
            }
            Err(refusal) => self.refuse(&node.id, attempt, refusal),
        }
        Ok(())
    }

    /// Whether a person who was asked beforehand said yes to exactly this work. It is asked for again before an
    /// attempt starts; only one that its process did not live to end can come here with something else.
    fn is_approved(&self, node: &Node, work: &Work) -> bool {
        let Work::Tool { permit, .. } = work else { return true };
        let approved = self.run.instance(&node.id).and_then(|instance| instance.shown);
        node.approval != Approval::Before || {
            let shown = approval::by_permit(&self.services, node, HumanRequestKind::Before, permit);
            approved == Some(shown.digest())
        }
    }

    fn refuse(&mut self, id: &NodeId, attempt: u32, refusal: Refusal) {
        let (category, message) = match refusal {
            Refusal::Failed(category, message) => (category, message),
            Refusal::Denied(denial) => {
                let seen = denial.for_model().to_owned();
                self.pending.push(Event::GateDecision(GateDecision {
                    node: id.clone(),
                    attempt,
                    code: denial.code.as_str().to_owned(),
                    detail: denial.operator,
                }));
                (Category::GateDenied, seen)
            }
        };
        let outcome = failed(category, message);
        self.decide(Input::Result(Box::new(AttemptResult::unpaid(id.clone(), attempt, outcome))));
    }

    /// What the attempt is given, and leave to make it.
    async fn prepare(&self, node: &Node) -> Result<Result<Prepared, Refusal>, ActorProcessingErr> {
        if node.kind == Kind::Aggregator {
            return self.prepare_aggregator(node).await;
        }
        let mut sources: BTreeMap<NodeId, Arc<Value>> = BTreeMap::new();
        for reference in node.param_refs.values() {
            let winner = reference.from.as_str() == ParamRef::WINNER;
            let from = if winner { self.run.winner(&node.id) } else { Some(&reference.from) };
            if let Some(from) = from
                && !sources.contains_key(from)
            {
                sources.insert(from.clone(), self.value(from).await?);
            }
        }
        let missing = Arc::new(Value::Null);
        let value = |from: &NodeId| Arc::clone(sources.get(from).unwrap_or(&missing));
        let params = match resolve(&self.run, node, &value) {
            Ok(params) => params,
            Err(error) => return Ok(Err(Refusal::Failed(Category::ParamMissing, error.to_string()))),
        };
        let refs = match digests(node.param_refs.keys().filter_map(|name| Some((name, params.get(name)?)))) {
            Ok(refs) => refs,
            Err(error) => return Ok(Err(Refusal::Failed(Category::Structural, error))),
        };
        Ok(self.gate(node, params).map(|(tool, permit)| Prepared { work: Work::Tool { tool, permit }, refs }))
    }

    /// An aggregator sees every dependency, whatever became of it.
    async fn prepare_aggregator(&self, node: &Node) -> Result<Result<Prepared, Refusal>, ActorProcessingErr> {
        let mut values = Map::new();
        for dep in &node.deps {
            let Some(instance) = self.run.instance(&dep.n) else { continue };
            let mut seen = json!({"state": instance.state().as_str()});
            if instance.standing == Standing::Executed {
                seen["result"] = (*self.value(&dep.n).await?).clone();
            }
            values.insert(dep.n.to_string(), seen);
        }
        let template = node.params.get("template").and_then(Value::as_str);
        let refs = digests(values.iter());
        Ok(match (template, refs) {
            (Some(template), Ok(refs)) => {
                Ok(Prepared { work: Work::Render { template: template.to_owned(), values }, refs })
            }
            (None, _) => {
                let what = format!("aggregator {} has no text as params.template", node.id);
                Err(Refusal::Failed(Category::Structural, what))
            }
            (_, Err(error)) => Err(Refusal::Failed(Category::Structural, error)),
        })
    }

    fn gate(&self, node: &Node, params: Map<String, Value>) -> Result<(Arc<dyn Tool>, Permit), Refusal> {
        let name = node.tool.as_deref().unwrap_or_default();
        let toolbox = &self.services.toolbox;
        let phase = self.run.instance(&node.id).map_or(0, |instance| instance.phase);
        let key = lineage::idempotency_key(self.opened.run, &node.id, 1, u64::from(phase));
        toolbox
            .gate(&self.services.gate, &self.caller(), name, params, node.impact, key)
            .map_err(Refusal::Denied)
    }

    pub(super) fn caller(&self) -> Caller {
        Caller::of(&self.opened)
    }

    /// Records what is about to happen.
    fn intend(
        &mut self,
        node: &Node,
        attempt: u32,
        refs: &BTreeMap<String, Digest>,
        accounts: Option<Accounts>,
    ) {
        let phase = self.run.instance(&node.id).map_or(0, |instance| instance.phase);
        let provenance: BTreeSet<String> = std::iter::once("plan".to_owned())
            .chain(node.param_refs.values().filter_map(|reference| {
                let source = self.run.node(&reference.from)?;
                Some(format!("tool:{}", source.tool.as_deref().unwrap_or(source.id.as_str())))
            }))
            .collect();
        let intent = AttemptIntent {
            node: node.id.clone(),
            generation: 1,
            phase,
            attempt,
            reuse: self.identity(node, refs),
            idempotency_key: lineage::idempotency_key(self.opened.run, &node.id, 1, u64::from(phase)),
            intent: self.opened.intent,
            policy_epoch: self.opened.policy_epoch,
            provenance: provenance.into_iter().collect(),
            accounts,
        };
        self.note(vec![Event::AttemptIntent(Box::new(intent))]);
    }

    /// Identity of the work: what runs, on what.
    fn identity(&self, node: &Node, refs: &BTreeMap<String, Digest>) -> Digest {
        let version = node.tool.as_deref().and_then(|tool| self.services.toolbox.version(tool));
        let kind = if node.kind == Kind::Aggregator { "aggregator" } else { "tool" };
        let sigma = Sigma { kind, tool: node.tool.as_deref(), tool_version: version, ..Sigma::default() };
        let effects = self.receipts(node);
        let inputs = Inputs { effects: &effects, params: &node.params, refs, world: None };
        let digest = |document: Result<json::Json, json::JsonError>| {
            document.expect("plans and results were canonical when they came in")
        };
        let sigma = lineage::sigma(&digest(sigma.document()));
        lineage::reuse(sigma, lineage::x(&digest(inputs.document())))
    }

    /// Receipts of the effects this node comes after, with their number.
    fn receipts(&self, node: &Node) -> BTreeMap<Digest, u64> {
        let mut receipts = BTreeMap::new();
        let acting = node.deps.iter().filter_map(|dep| self.run.node(&dep.n));
        for source in acting.filter(|source| acts(source.effect)) {
            let output = self.run.instance(&source.id).and_then(|instance| instance.output.as_ref());
            if let (Some(&(reuse, key)), Some(output)) = (self.reuse.get(&source.id), output) {
                let key = (source.idem != Idempotency::Natural).then_some(key);
                *receipts.entry(lineage::receipt(reuse, output.artifact, key)).or_default() += 1;
            }
        }
        receipts
    }

    /// Starts what was appended. What acts on the world waits until its intent is durable.
    pub(super) fn launch(&mut self, position: Option<Position>) {
        for Launch { node, attempt, job, acts, work } in std::mem::take(&mut self.launches) {
            let key = self.key(&node.id, attempt);
            let (services, caller) = (Arc::clone(&self.services), self.caller());
            let body = async move {
                if let (true, Some(position)) = (acts, position)
                    && let Err(error) = services.journal.durable(position).await
                {
                    services.halt(&error.to_string());
                    return failed(Category::Transient, format!("not started: {error}"));
                }
                attempt::perform(&services, &caller, &node, work).await
            };
            Effects::spawn(&self.services, key, job, self.me.clone(), acts, body);
        }
    }
}

/// What a node is about to do.
struct Prepared {
    work: Work,
    /// What it was given by reference.
    refs: BTreeMap<String, Digest>,
}

fn acts(effect: Effect) -> bool {
    matches!(effect, Effect::Write | Effect::External)
}

fn digests<'a>(
    values: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Result<BTreeMap<String, Digest>, String> {
    let digest = |(name, value): (&String, &Value)| {
        let canonical = json::canonical(value).map_err(|error| format!("parameter {name}: {error}"))?;
        Ok((name.clone(), lineage::value(&canonical)))
    };
    values.map(digest).collect()
}
