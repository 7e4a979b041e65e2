//! Reuse of recorded results. The decision precedes the request for a slot; a result is recorded with the end of its node.

use std::sync::Arc;

use ostler_kernel::event::{
    Event, Outcome, RecordPlace, ResultRecorded, ReuseBasis, ReuseDecided, ReuseDecision, ReusedResult,
};
use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::lineage::{
    Difference, Evidence, Frontier, Manifest, OverrideState, Reason, Record, Reuse, frontier, judge,
    last_record_key, record_key,
};
use ostler_kernel::plan::{Effect, Freshness, Node};
use ostler_kernel::port::{JournalError, Seq, StreamId};
use ostler_kernel::run::{NodeStatus, RunInput, contract_text, repetition};

use super::driver::RunDriver;
use super::launch::Prepared;
use super::reuse_progress::Offered;
use crate::attempts::attempt::Work;
use crate::base::keys::AttemptKey;
use crate::storage::results::verifies;

/// Records read at once. The records for the nodes of a run mostly lie together, in one other run.
const READ_AHEAD: usize = 512;

/// Records before that of a result in which its calls are found, for a metric.
const CALLS_BEFORE: usize = 512;

/// Most records that a driver keeps in memory.
const RECORDS_KEPT_MAX: usize = 4_096;

/// Decisions between two yields to other tasks of the thread.
const DECISIONS_AT_ONCE: usize = 64;

impl RunDriver {
    /// Ends a ready node with a recorded result, if reuse is allowed. Otherwise records the reason for the execution. Returns
    /// whether the node ended.
    pub(super) async fn reuse(&mut self, node: &Node) -> bool {
        let Some(terms) = self.run.reuse_terms() else { return false };
        let looks_up = terms.looks_up(&node.id) || self.run.edit_of(&node.id).is_some();
        let is_first = self.run.instance(&node.id).is_some_and(|instance| instance.attempts == 0);
        if !is_first || !looks_up || self.in_flight.reuse.frontiers.contains_key(&node.id) {
            return false;
        }
        self.in_flight.reuse.decisions += 1;
        if self.in_flight.reuse.decisions.is_multiple_of(DECISIONS_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        let beyond = self.frontier_of(node);
        self.in_flight.reuse.frontiers.insert(node.id.clone(), Frontier::clone(&beyond));
        if let Some(edited) = Box::pin(self.edited(node)).await {
            self.decide(RunInput::Reused(Box::new(edited)));
            return true;
        }
        // Boxed: otherwise this future enlarges the future of every message.
        let Some(decided) = Box::pin(self.decide_reuse(node, &beyond)).await else { return false };
        let decided = self.or_kept(node, decided).await;
        match &decided.decision {
            ReuseDecision::Recomputed(_) => {
                self.apply_effects(vec![Event::ReuseDecided(Box::new(decided))]);
                return false;
            }
            ReuseDecision::Reused(result) => self.measure_tokens(result),
            ReuseDecision::Kept { .. } | ReuseDecision::Edited { .. } => {}
        }
        self.decide(RunInput::Reused(Box::new(decided)));
        true
    }

    /// The decision, unless the node keeps a result: its record may be gone, or a newer one have another result.
    async fn or_kept(&mut self, node: &Node, decided: ReuseDecided) -> ReuseDecided {
        let stands = match &decided.decision {
            ReuseDecision::Reused(result) => self.run.is_kept_as(&node.id, result.output.artifact),
            ReuseDecision::Recomputed(reason) => *reason == Reason::Retracted,
            ReuseDecision::Kept { .. } | ReuseDecision::Edited { .. } => true,
        };
        if stands {
            return decided;
        }
        Box::pin(self.kept(&node.id, false)).await.unwrap_or(decided)
    }

    /// Ends a ready node that keeps its result of the repeated run, before anybody is asked about the node. Returns whether
    /// the node ended.
    pub(super) async fn keep(&mut self, id: &NodeId) -> bool {
        let Some(node) = self.run.node(id).filter(|node| self.run.keeps_at_once(node)) else { return false };
        let acts = node.acts();
        // Boxed: otherwise this future enlarges the future of every message.
        let Some(decided) = Box::pin(self.kept(id, acts)).await else { return false };
        let is_ready = self.run.instance(id).is_some_and(|instance| instance.status == NodeStatus::Ready);
        if is_ready {
            self.decide(RunInput::Reused(Box::new(decided)));
        }
        is_ready
    }

    /// The kept result of a node. `None` without one, or if it is damaged since and may be made again.
    async fn kept(&mut self, id: &NodeId, acts: bool) -> Option<ReuseDecided> {
        let kept = self.run.kept_result(id)?.clone();
        if let (Some(output), false) = (&kept.output, acts) {
            let stored = self.services.results.load(output).await;
            if !verifies(output) || stored.is_err() {
                tracing::warn!(run = %self.opened.run, node = %id, from = %kept.from, "a kept result is damaged, and made again");
                return None;
            }
        }
        let decision = ReuseDecision::Kept { output: kept.output, from: kept.from };
        let reuse = self.run.kept_work(id).map(|work| work.reuse);
        Some(ReuseDecided { node: id.clone(), reuse, decision })
    }

    /// The edit of the node's result by a person, unless the edit is stale and its policy drops stale edits.
    async fn edited(&mut self, node: &Node) -> Option<ReuseDecided> {
        let edit = self.run.edit_of(&node.id)?.clone();
        let prepared = self.prepare(node, None).await.ok();
        let version = self.tool_version(node);
        let manifest = prepared.and_then(|prepared| {
            self.run.manifest(node, &prepared.refs, version, &self.opened.workspace).ok()
        });
        let reuse = manifest.map(|manifest| manifest.reuse());
        let stale = edit.base.zip(reuse).is_some_and(|(base, now)| base != now);
        // A repetition has asked before the run was opened (0059).
        if edit.stale.state(stale) == OverrideState::Dropped {
            return None;
        }
        let decision = ReuseDecision::Edited { output: edit.output, author: edit.author, stale };
        Some(ReuseDecided { node: node.id.clone(), reuse, decision })
    }

    /// The nearest executed ancestors of a node whose predecessors have ended.
    fn frontier_of(&self, node: &Node) -> Frontier {
        let none = Frontier::default();
        let frontiers = &self.in_flight.reuse.frontiers;
        frontier(node.deps.iter().map(|dep| {
            let executed = self.run.instance(&dep.n).is_some_and(|instance| instance.attempts > 0);
            (&dep.n, executed, frontiers.get(&dep.n).unwrap_or(&none))
        }))
    }

    /// Decides on reuse. `None`: the node takes no part in reuse, or its inputs fail; the attempt reports the failure.
    async fn decide_reuse(&mut self, node: &Node, beyond: &Frontier) -> Option<ReuseDecided> {
        let decided = |reuse, decision| Some(ReuseDecided { node: node.id.clone(), reuse, decision });
        if self.run.is_recorded(node) && node.fresh == Freshness::Etag {
            self.offer_recorded(node).await;
            return None;
        }
        if !self.run.is_reusable(node) {
            let only_effect = node.tool.is_some() && !repetition(node).allows_reuse();
            let reason = ReuseDecision::Recomputed(Reason::NotReusable);
            return if only_effect { decided(None, reason) } else { None };
        }
        if node.reach().effect == Effect::Read && self.run.follows_an_effect(node) {
            return decided(None, ReuseDecision::Recomputed(Reason::Changed(Difference::World)));
        }
        // Preparing asks the gate: a denied call reuses nothing, and the attempt reports the denial.
        let prepared = self.prepare(node, None).await.ok()?;
        let manifest =
            self.run.manifest(node, &prepared.refs, self.tool_version(node), &self.opened.workspace).ok()?;
        let work = manifest.reuse();
        let found = self.look_up(node, &prepared, &manifest, beyond).await;
        let decision = match found.unwrap_or_else(|error| {
            tracing::warn!(run = %self.opened.run, node = %node.id, %error, "no record could be looked up");
            Err(Reason::NoRecord)
        }) {
            Ok(result) => ReuseDecision::Reused(result),
            Err(reason) => ReuseDecision::Recomputed(reason),
        };
        decided(Some(work), decision)
    }

    /// The recorded result of the node's work, or the reason for an execution.
    async fn look_up(
        &mut self,
        node: &Node,
        prepared: &Prepared,
        manifest: &Manifest,
        beyond: &Frontier,
    ) -> Result<Result<ReusedResult, Reason>, JournalError> {
        let (client, work) = (&self.opened.client, manifest.reuse());
        let key = record_key(client, work);
        let last_key = last_record_key(client, &self.run.plan().id, &node.id);
        let last = self.record_at(self.services.journal.record(last_key)?)?;
        let own = last.clone().filter(|(_, _, last)| last.reuse == work);
        let found = match own {
            Some(own) => Some(own),
            None => self.record_at(self.services.journal.record(key)?)?,
        };
        // Nodes of one run that ask a model the same are independent draws.
        let is_draw = |from: &RecordPlace| node.calls_model() && from.run == self.opened.run;
        let Some((from, at, record)) = found.filter(|(from, _, _)| !is_draw(from)) else {
            let last = last.as_ref().map(|(_, _, last)| &last.manifest);
            let abridged = self.abridged(node, prepared, manifest);
            return Ok(Err(Reason::without_record(&abridged, last)));
        };
        let age = self.services.journal.now().saturating_sub(at).max(0);
        let contract = contract_text(node);
        let stored = self.services.results.load(&record.output).await.ok();
        // Asked last: a retraction may have come while the artifact was read.
        let evidence = Found {
            is_retracted: self.services.retractions.covers(from, record.manifest.sigma()),
            age,
            verifies: stored.is_some() && verifies(&record.output),
            satisfies: stored.is_some_and(|value| self.services.gatekeeper.satisfies(&node.contract, &value)),
        };
        let known = Record {
            artifact: record.output.artifact,
            run: from.run,
            receipt: work,
            sigma: record.manifest.sigma().clone(),
            contracts: [record.contract.clone()].into(),
        };
        let same_as_last = last.is_some_and(|(_, _, last)| last.reuse == work);
        let repetition = repetition(node);
        Ok(judge(&known, repetition, &contract, &evidence).map(|reuse| ReusedResult {
            basis: match reuse {
                Reuse::Known if repetition.has_world => ReuseBasis::Fresh { age, most: repetition.age_max },
                reuse => ReuseBasis::new(reuse, same_as_last, beyond),
            },
            from,
            output: record.output.clone(),
            sampled: node.calls_model(),
        }))
    }

    /// Counts the tokens of the calls that gave a reused answer.
    fn measure_tokens(&self, result: &ReusedResult) {
        if !(result.sampled && self.services.measures.is_on()) {
            return;
        }
        let RecordPlace { run, seq } = result.from;
        let Some((_, record)) = self.in_flight.reuse.records.get(&result.from) else { return };
        let stream = StreamId::run(&self.opened.client, run);
        let before = Seq(seq.saturating_sub(CALLS_BEFORE as u64 + 1));
        let Ok(read) = self.services.journal.read(stream, before, CALLS_BEFORE) else { return };
        let tokens = read.iter().map(|recorded| match &recorded.event {
            Event::ModelCalled { node, attempt, call }
                if *node == record.node && *attempt == record.attempt =>
            {
                call.input_tokens.saturating_add(call.output_tokens)
            }
            _ => 0,
        });
        self.services.measures.spared(tokens.fold(0, u64::saturating_add));
    }

    /// Keeps the record of equal work for the tool, which asks the source whether it was modified since.
    async fn offer_recorded(&mut self, node: &Node) {
        let Ok(prepared) = self.prepare(node, None).await else { return };
        let Ok(manifest) =
            self.run.manifest(node, &prepared.refs, self.tool_version(node), &self.opened.workspace)
        else {
            return;
        };
        let place = self.services.journal.record(record_key(&self.opened.client, manifest.reuse()));
        let Ok(Some((from, _, record))) = place.and_then(|place| self.record_at(place)) else { return };
        let Ok(value) = self.services.results.load(&record.output).await else { return };
        let is_retracted = self.services.retractions.covers(from, record.manifest.sigma());
        if !is_retracted
            && verifies(&record.output)
            && self.services.gatekeeper.satisfies(&node.contract, &value)
        {
            let offered = Offered { artifact: record.output.artifact, value: Some(Arc::new(value)) };
            self.in_flight.reuse.offered.insert(node.id.clone(), offered);
        }
    }

    /// The record at a place, and its time; `None` if the run of the record was deleted.
    fn record_at(
        &mut self,
        place: Option<RecordPlace>,
    ) -> Result<Option<(RecordPlace, Ticks, Arc<ResultRecorded>)>, JournalError> {
        let Some(place) = place else { return Ok(None) };
        if let Some((at, record)) = self.in_flight.reuse.records.get(&place) {
            return Ok(Some((place, *at, Arc::clone(record))));
        }
        if place.run == self.opened.run && place.seq > self.writer.seq.0 {
            return Ok(None);
        }
        let stream = StreamId::run(&self.opened.client, place.run);
        let read = self.services.journal.read(stream, Seq(place.seq.saturating_sub(1)), READ_AHEAD)?;
        let records = &mut self.in_flight.reuse.records;
        if records.len() + READ_AHEAD > RECORDS_KEPT_MAX {
            records.clear();
        }
        for recorded in read {
            if let Event::ResultRecorded(record) = recorded.event {
                let place = RecordPlace { run: place.run, seq: recorded.seq.0 };
                records.insert(place, (recorded.at_ms, Arc::from(record)));
            }
        }
        Ok(records.get(&place).map(|(at, record)| (place, *at, Arc::clone(record))))
    }

    /// The manifest as it is recorded: with digests of the fields of its inputs.
    fn abridged(&self, node: &Node, prepared: &Prepared, manifest: &Manifest) -> Manifest {
        match &prepared.work {
            Work::Tool { permit, .. } => manifest.with_fields(self.run.inputs_in(node, permit.params())),
            Work::Known(_) | Work::Render { .. } => manifest.abridged(),
        }
    }

    /// Keeps the manifest of an attempt for the record of the result.
    pub(super) fn keep_manifest(&mut self, node: &Node, prepared: &Prepared) {
        if !self.run.is_recorded(node) {
            return;
        }
        if let Ok(manifest) =
            self.run.manifest(node, &prepared.refs, self.tool_version(node), &self.opened.workspace)
        {
            let abridged = self.abridged(node, prepared, &manifest);
            self.in_flight.reuse.manifests.insert(node.id.clone(), (manifest.reuse(), abridged));
        }
    }

    /// Records whether the source of an offered read was modified, before the end of the read.
    pub(super) fn record_revalidation(&mut self, key: &AttemptKey, outcome: &Outcome) {
        let Some(offered) = self.in_flight.reuse.offered.remove(&key.node) else { return };
        let Outcome::Ok(output) = outcome else { return };
        let reason = match output.artifact == offered.artifact {
            true => Reason::NotModified,
            false => Reason::Changed(Difference::World),
        };
        let reuse = self.in_flight.reuse.manifests.get(&key.node).map(|(reuse, _)| *reuse);
        let decision = ReuseDecision::Recomputed(reason);
        let decided = ReuseDecided { node: key.node.clone(), reuse, decision };
        self.apply_effects(vec![Event::ReuseDecided(Box::new(decided))]);
    }

    /// Records the result of an ended node for reuse, in the same append as the end.
    pub(super) fn record_for_reuse(&mut self, key: &AttemptKey) {
        let Some((reuse, manifest)) = self.in_flight.reuse.manifests.remove(&key.node) else { return };
        let Some(node) = self.run.node(&key.node) else { return };
        let recorded = self.run.recorded_result(node, key.attempt, reuse, manifest);
        self.apply_effects(recorded.into_iter().collect());
    }
}

/// Checks of a record and its artifact.
struct Found {
    is_retracted: bool,
    age: Ticks,
    verifies: bool,
    satisfies: bool,
}

impl Evidence for Found {
    fn is_retracted(&self) -> bool {
        self.is_retracted
    }

    fn age(&self) -> Ticks {
        self.age
    }

    fn verifies(&self) -> bool {
        self.verifies
    }

    fn satisfies(&self) -> bool {
        self.satisfies
    }
}
