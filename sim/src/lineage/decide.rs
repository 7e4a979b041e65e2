//! Decides every step of a revision once, with the rules of the kernel.

use std::collections::BTreeMap;

use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::lineage::{
    self, Decision, Edge, Evidence, Frontier, Manifest, Material, Outcome, OverrideState, Reason, Record,
    Reuse, frontier, held_by, judge,
};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::template::{fill, project};
use serde_json::Value;

use super::contract::passes;
use super::function::{Content, Scope};
use super::step::{Step, shape};
use super::world::{Bound, Decided, Identity, Published, RunName, World};
use crate::graph::CaseError;

/// Inputs of a step in this revision.
struct Work {
    manifest: Manifest,
    world: Option<String>,
    identity: Identity,
    values: BTreeMap<String, Value>,
    lineage: Digest,
}

impl World {
    /// Decides all steps; returns them in the order of the decisions.
    pub(super) fn decide_all(&mut self) -> Result<Vec<NodeId>, CaseError> {
        let steps = self.steps_in_order()?;
        let mut order = Vec::with_capacity(steps.len());
        for step in &steps {
            match &step.for_each {
                Some(for_each) => self.decide_list(step, for_each, &mut order)?,
                None => self.decide_into(step, &mut order)?,
            }
        }
        Ok(order)
    }

    /// Decides one step, the next in `order`.
    pub(super) fn decide_into(&mut self, step: &Step, order: &mut Vec<NodeId>) -> Result<(), CaseError> {
        let decided = match self.held(step)? {
            Some(decision) => self.undecided(step, decision)?,
            None => self.decide(step)?,
        };
        self.decided.insert(step.id.clone(), decided);
        order.push(step.id.clone());
        Ok(())
    }

    /// The decision that predecessors and guards impose on a step; `None` if it may be decided.
    pub(super) fn held(&mut self, step: &Step) -> Result<Option<Decision<RunName>>, CaseError> {
        let above = step.above();
        let by_predecessors =
            held_by(above.iter().filter_map(|&id| Some((id, &self.decided.get(id)?.decision))));
        let held = match by_predecessors {
            Some(held) => Some(held),
            None => self.guarded(step)?,
        };
        if held == Some(Decision::Skipped) && !step.effect.acts() {
            self.withdraw(&step.id);
        }
        Ok(held)
    }

    /// The decision of the first guard that does not hold, or cannot be judged.
    fn guarded(&self, step: &Step) -> Result<Option<Decision<RunName>>, CaseError> {
        for guard in &step.guards {
            match guard.holds(&self.published(&guard.from)?.content.value) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(Decision::Skipped)),
                Err(_) => return Ok(Some(Decision::GuardError)),
            }
        }
        Ok(None)
    }

    /// Takes the bound result from a step of the run; its generation stays.
    pub(super) fn withdraw(&mut self, id: &NodeId) {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.last = None;
        }
    }

    fn decide(&mut self, step: &Step) -> Result<Decided, CaseError> {
        let above = step.above();
        let beyond = frontier(above.iter().filter_map(|&id| {
            let decided = self.decided.get(id)?;
            Some((id, decided.executed, &decided.frontier))
        }));
        let work = match self.work(step)? {
            Ok(work) => work,
            Err(missing) => return self.undecided(step, Decision::ParamMissing(missing)),
        };
        if let Some(decided) = self.overridden(step, &work, &beyond) {
            return Ok(decided);
        }
        let last = self.instances.get(&step.id).and_then(|instance| instance.outcome_of(work.identity.reuse));
        if let Some(outcome) = last {
            return Ok(match outcome.bound.clone() {
                Some(bound) => self.bound(step, work, bound, beyond),
                None => self.unpublished(step, work, Decision::ContractFailed, false),
            });
        }
        if self.denied.contains(&step.id) {
            return Ok(self.unpublished(step, work, Decision::Denied, false));
        }
        match self.recorded(step, &work)? {
            Ok((reuse, bound)) => {
                self.set_outcome(step, &work, Some(bound.clone()));
                let (from, identity) = (bound.run.clone(), work.identity.reuse);
                let mut decided = self.bound(step, work, bound, beyond);
                if reuse == Reuse::Revalidated {
                    decided.decision = Decision::Revalidated { reuse: identity, from };
                }
                Ok(decided)
            }
            Err(reason) => self.execute(step, work, reason),
        }
    }

    /// A step whose decision needs no further examination.
    pub(super) fn undecided(&self, step: &Step, decision: Decision<RunName>) -> Result<Decided, CaseError> {
        Ok(Decided {
            decision,
            sigma: step.sigma_digest()?,
            identity: None,
            published: None,
            generation: self.generation(&step.id),
            acts: step.effect.acts(),
            executed: false,
            frontier: Frontier::default(),
        })
    }

    fn unpublished(&self, step: &Step, work: Work, decision: Decision<RunName>, executed: bool) -> Decided {
        Decided {
            decision,
            sigma: work.manifest.sigma_digest(),
            identity: Some(work.identity),
            published: None,
            generation: self.generation(&step.id),
            acts: step.effect.acts(),
            executed,
            frontier: Frontier::default(),
        }
    }

    fn generation(&self, id: &NodeId) -> u64 {
        self.instances.get(id).map_or(0, |instance| instance.generation)
    }

    /// Resolves the inputs of a step; the inner error names an unresolvable reference.
    fn work(&self, step: &Step) -> Result<Result<Work, String>, CaseError> {
        let (mut values, mut received) = (BTreeMap::new(), BTreeMap::new());
        for (name, reference) in &step.refs {
            let published = self.published(&reference.from)?;
            let path = reference.path.as_deref().unwrap_or_default();
            let Some(found) = project(&published.content.value, path) else { return Ok(Err(name.clone())) };
            let value = match &reference.template {
                Some(template) => Value::String(
                    fill(template, found, usize::MAX).map_err(|error| shape(format!("{name}: {error}")))?,
                ),
                None => found.clone(),
            };
            received.insert(name.clone(), lineage::value(&super::function::text_of(&value)?));
            values.insert(name.clone(), value);
        }
        let mut receipts = BTreeMap::new();
        for id in step.above() {
            if self.decided.get(id).is_some_and(|decided| decided.acts) {
                receipts.insert(id.clone(), self.published(id)?.receipt);
            }
        }
        let (manifest, world) = self.sampled_manifest(step, &received, &receipts)?;
        let identity = Identity { inputs: manifest.inputs_digest(), reuse: manifest.reuse(), received };
        let lineage = self.lineage(step, identity.reuse)?;
        Ok(Ok(Work { manifest, world, identity, values, lineage }))
    }

    /// The manifest with the token of the bound result, if the work is the bound work; otherwise with the current token.
    fn sampled_manifest(
        &self,
        step: &Step,
        refs: &BTreeMap<String, Digest>,
        receipts: &BTreeMap<NodeId, Digest>,
    ) -> Result<(Manifest, Option<String>), CaseError> {
        let sigma = step.sigma();
        let manifest = |world: Option<&str>| {
            Manifest::new(Material { sigma: &sigma, params: &step.params, refs, receipts, world })
                .map_err(|error| shape(format!("{}: {error}", step.id)))
        };
        if let Some(bound) = self.instances.get(&step.id).and_then(|instance| instance.sampled()) {
            let sampled = manifest(bound.world.as_deref())?;
            if sampled.reuse() == bound.reuse {
                return Ok((sampled, bound.world.clone()));
            }
        }
        let reads = step.effect == ostler_kernel::plan::Effect::Read;
        let world = self.source(step).and_then(|source| source.token.clone()).filter(|_| reads);
        Ok((manifest(world.as_deref())?, world))
    }

    fn source(&self, step: &Step) -> Option<&super::case::Source> {
        self.sources.get(step.text("world")?)
    }

    pub(super) fn published(&self, id: &NodeId) -> Result<&Published, CaseError> {
        let published = self.decided.get(id).and_then(|decided| decided.published.as_ref());
        published.ok_or_else(|| shape(format!("{id} published nothing")))
    }

    fn lineage(&self, step: &Step, reuse: Digest) -> Result<Digest, CaseError> {
        let mut edges = Vec::new();
        for (name, reference) in &step.refs {
            edges.push((Edge::Ref(name), self.published(&reference.from)?.lineage));
        }
        let referenced = |id: &NodeId| step.refs.values().any(|reference| reference.from == *id);
        for id in step.above().into_iter().filter(|id| !referenced(id)) {
            edges.push((Edge::Order, self.published(id)?.lineage));
        }
        Ok(lineage::lineage(reuse, &edges))
    }

    /// Decision for a step with a person's artifact; `None` without an artifact, or for a dropped one.
    fn overridden(&mut self, step: &Step, work: &Work, beyond: &Frontier) -> Option<Decided> {
        let edit = self.edits.get(&step.id)?.clone();
        let reuse = work.identity.reuse;
        let (decision, published) = match edit.pin.state(reuse) {
            OverrideState::Dropped => {
                self.edits.remove(&step.id);
                return None;
            }
            OverrideState::Asked => (Decision::Asked, None),
            OverrideState::Pinned { stale } => {
                let pin = edit.pin;
                let published = Published {
                    artifact: pin.artifact,
                    content: edit.content,
                    lineage: lineage::overridden(work.lineage, pin.artifact, &pin.author),
                    receipt: lineage::receipt(reuse, pin.artifact, None),
                    received: pin.received,
                };
                (Decision::Pinned { author: pin.author, stale }, Some(published))
            }
        };
        Some(Decided {
            decision,
            sigma: work.manifest.sigma_digest(),
            identity: Some(work.identity.clone()),
            published,
            generation: self.generation(&step.id),
            acts: step.effect.acts(),
            executed: false,
            frontier: Frontier::clone(beyond),
        })
    }

    /// Tests the newest record of the work.
    fn recorded(&mut self, step: &Step, work: &Work) -> Result<Result<(Reuse, Bound), Reason>, CaseError> {
        let key = (self.domain.clone(), work.identity.reuse);
        let Some(record) = self.records.get(&key) else {
            let last = self.manifests.get(&(self.domain.clone(), step.id.clone()));
            return Ok(Err(Reason::without_record(&work.manifest, last)));
        };
        let mut looked_up = LookedUp::new(self, step, record)?;
        looked_up.retracted |= self.undone.contains(&key);
        let contract = &step.contract.1;
        let reuse = match judge(record, step.repetition(work.world.as_deref()), contract, &looked_up) {
            Ok(reuse) => reuse,
            Err(reason) => return Ok(Err(reason)),
        };
        let content = looked_up.content.expect("a verified record has content");
        let (artifact, run, receipt) = (record.artifact, record.run.clone(), record.receipt);
        if let Some(record) = self.records.get_mut(&key) {
            record.contracts.insert(contract.clone());
        }
        Ok(Ok((reuse, Bound { content, artifact, run, receipt })))
    }

    fn set_outcome(&mut self, step: &Step, work: &Work, bound: Option<Bound>) {
        let outcome = Outcome { reuse: work.identity.reuse, world: work.world.clone(), bound };
        self.instances.entry(step.id.clone()).or_default().set(outcome);
    }

    /// Decides for a result that stands, or was just bound.
    fn bound(&mut self, step: &Step, work: Work, bound: Bound, beyond: Frontier) -> Decided {
        let key = (self.domain.clone(), step.id.clone());
        let reuse = work.identity.reuse;
        let same = self.manifests.get(&key).is_some_and(|manifest| manifest.reuse() == reuse);
        let decision = if same && !beyond.is_empty() {
            Decision::CutOff(Frontier::clone(&beyond))
        } else {
            Decision::Reused { reuse, from: bound.run.clone() }
        };
        self.publish(step, work, bound, decision, beyond)
    }

    fn publish(
        &mut self,
        step: &Step,
        work: Work,
        bound: Bound,
        decision: Decision<RunName>,
        beyond: Frontier,
    ) -> Decided {
        let executed = matches!(decision, Decision::Recomputed(_));
        let published = Published {
            artifact: bound.artifact,
            content: bound.content,
            lineage: work.lineage,
            receipt: bound.receipt,
            received: work.identity.received.clone(),
        };
        let sigma = work.manifest.sigma_digest();
        self.manifests.insert((self.domain.clone(), step.id.clone()), work.manifest);
        Decided {
            decision,
            sigma,
            identity: Some(work.identity),
            published: Some(published),
            generation: self.generation(&step.id),
            acts: step.effect.acts(),
            executed,
            frontier: beyond,
        }
    }

    fn execute(&mut self, step: &Step, work: Work, reason: Reason) -> Result<Decided, CaseError> {
        let Some(content) = self.output(step, &work)? else {
            self.set_outcome(step, &work, None);
            return Ok(self.unpublished(step, work, Decision::ContractFailed, true));
        };
        let reuse = work.identity.reuse;
        let artifact = content.digest();
        let generation = self.generation(&step.id) + 1;
        let key = (step.idem != Idempotency::Natural)
            .then(|| lineage::idempotency_key_of(&self.run, &step.id, generation, 0));
        let receipt = lineage::receipt(reuse, artifact, key);
        let record = Record {
            artifact,
            run: self.run.clone(),
            receipt,
            sigma: work.manifest.sigma().clone(),
            contracts: [step.contract.1.clone()].into(),
        };
        self.stored.insert(artifact, content.bytes.clone());
        self.undone.remove(&(self.domain.clone(), reuse));
        self.records.insert((self.domain.clone(), reuse), record);
        let bound = Bound { content, artifact, run: self.run.clone(), receipt };
        self.set_outcome(step, &work, Some(bound.clone()));
        Ok(self.publish(step, work, bound, Decision::Recomputed(reason), Frontier::default()))
    }

    /// Calls the function of the step; `None` if its output breaks the contract.
    fn output(&mut self, step: &Step, work: &Work) -> Result<Option<Content>, CaseError> {
        let name = step.function();
        let execution = self.executions.entry(name.to_owned()).or_default();
        *execution += 1;
        let execution = *execution;
        let function = self.functions.get(name).ok_or_else(|| shape(format!("no function {name:?}")))?;
        let nothing = Value::Null;
        let source = self.source(step).map_or(&nothing, |source| &source.value);
        let scope = Scope { node: &step.fields, refs: &work.values, source, execution };
        let Some(content) = function.value(&scope).ok().and_then(|value| Content::new(step.media(), &value))
        else {
            return Ok(None);
        };
        Ok(passes(&step.contract.0, &content).map_err(CaseError::shape)?.then_some(content))
    }
}

/// Facts about a record in the simulated store.
struct LookedUp {
    retracted: bool,
    /// The stored content, if the stored bytes match the digest.
    content: Option<Content>,
    satisfies: bool,
}

impl LookedUp {
    fn new(world: &World, step: &Step, record: &Record<RunName>) -> Result<LookedUp, CaseError> {
        let content = world.stored.get(&record.artifact).and_then(|bytes| {
            let verified = lineage::artifact(step.media(), bytes.as_bytes()) == record.artifact;
            let value = match step.media() {
                ostler_kernel::port::JSON => serde_json::from_str(bytes).ok()?,
                _ => Value::String(bytes.clone()),
            };
            verified.then(|| Content { media: step.media().to_owned(), bytes: bytes.clone(), value })
        });
        let satisfies = match &content {
            Some(content) => passes(&step.contract.0, content).map_err(CaseError::shape)?,
            None => false,
        };
        Ok(LookedUp { retracted: world.retractions.covers(&record.sigma), content, satisfies })
    }
}

impl Evidence for LookedUp {
    fn is_retracted(&self) -> bool {
        self.retracted
    }

    fn verifies(&self) -> bool {
        self.content.is_some()
    }

    fn satisfies(&self) -> bool {
        self.satisfies
    }
}
