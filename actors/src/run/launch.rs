//! Starts an attempt: resolve inputs, pass the gate, record the intent, spawn.

use std::sync::Arc;

use ostler_kernel::callback;
use ostler_kernel::event::{Accounts, AttemptRef, AttemptResult, Event, GateDecision};
use ostler_kernel::gate::{Denial, DenialCode, Permit};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::json::Object;
use ostler_kernel::plan::{Method, Node, model_of_tool};
use ostler_kernel::port::{ArtifactError, Position, Tool};
use ostler_kernel::run::{
    AttemptInput, FailureCategory, GENERATION, IntentContext, NodeInstance, RefDigests, RunInput,
};

use super::attempt_launch::Launch;
use super::driver::RunDriver;
use super::standing::{Standing, UNAPPROVED};
use crate::attempts::attempt::{self, BeginTurn, Work};
use crate::attempts::attempt_journal::{AttemptJournal, Site};
use crate::base::attempt_end::failed;
use crate::base::keys::AttemptKey;
use crate::base::long_work::with_bytes;
use crate::messages::clearance::Beginning;
use crate::messages::slots::Ticket;
use crate::state::call_accounts::Payer;
use crate::state::clearance::{Question, Stopped};
use crate::storage::results::Unreadable;

pub(super) enum Refusal {
    Failed(FailureCategory, String),
    /// The gate denied the call. The plan sees the same sentence for every reason.
    Denied(Denial),
    /// The clearance authority must be asked first.
    Unasked(Box<Question>),
}

impl Refusal {
    /// An input cannot be read: for good if it is missing or damaged, perhaps not after an error of the disk.
    pub(super) fn unreadable(unreadable: Unreadable) -> Refusal {
        let category = match &unreadable.error {
            ArtifactError::Missing(_) | ArtifactError::Damaged { .. } => FailureCategory::ParamMissing,
            ArtifactError::Io(_) | ArtifactError::Full(_) => FailureCategory::Transient,
        };
        Refusal::Failed(category, unreadable.to_string())
    }

    /// Hides tokens that the reason of a denial quotes.
    fn without(mut self, tokens: &[String]) -> Refusal {
        if let Refusal::Denied(denial) = &mut self {
            callback::hide_in(&mut denial.operator, tokens);
        }
        self
    }
}

impl RunDriver {
    /// Starts the attempt of a running node. `again`: the attempt was lost with its process.
    pub(super) async fn begin_attempt(&mut self, id: &NodeId, slot: Ticket, accounts: Accounts, again: bool) {
        let plan = Arc::clone(self.run.plan());
        let at = self.run.graph().position(id).expect("a node that was started exists");
        let node = &plan.nodes[at];
        let attempt = self.run.instance(id).map_or(0, |instance| instance.attempts);
        // A changed call is shown again before it is queued; here differ attempts that were lost, or that waited long for their slot.
        let key = self.key(id, attempt);
        let most = u64::try_from(node.timeout).unwrap_or(1);
        let affords = !self.has_budget() || self.services.run_budgets.may_start(&key, most);
        let afforded =
            if affords { self.prepare(node, Some(attempt)).await } else { Err(self.spent_budget()) };
        let mut approved = None;
        let prepared = match afforded {
            Ok(prepared) => match self.standing(node, &prepared.work).await {
                Standing::Approved(files) => {
                    approved = files;
                    Ok(prepared)
                }
                Standing::WantsTurn { alone } => {
                    self.services.gatekeeper.uncharge(self.opened.run, node, attempt);
                    return self.wait_for_turn(key, slot, again, alone);
                }
                Standing::Changed => {
                    self.services.gatekeeper.uncharge(self.opened.run, node, attempt);
                    self.release_slot(slot);
                    self.release_budget(&key);
                    return self.unapproved(id.clone(), UNAPPROVED.to_owned());
                }
            },
            Err(refusal) => Err(refusal),
        };
        let turn = self.in_flight.turn.take().map(|turn| BeginTurn { turn, approved });
        match prepared {
            Ok(Prepared { refs, .. }) if again && !self.is_same_work(node, &refs) => {
                self.release_slot(slot);
                self.release_budget(&key);
                let what = self.changed_since(node);
                self.decide(RunInput::WorkChanged { node: id.clone(), what });
            }
            Ok(prepared) => {
                let acts = prepared.work.acts(node);
                self.record_intent(node, &prepared, Some(accounts));
                self.keep_manifest(node, &prepared);
                let offered = self.in_flight.reuse.offered.get_mut(id);
                let mut work = Box::new(prepared.work);
                work.offer(offered.and_then(|offered| offered.value.take()));
                let calls_none = node.tests.is_none() && !node.is_judged_by(Method::Model);
                let is_quick = !acts && self.has_time() && calls_none && work.is_quick();
                let site = self.site(node, attempt, prepared.key);
                let log = Arc::new(AttemptJournal::new(&self.services.executor, site));
                if let Some(model) = node.tool.as_deref().and_then(model_of_tool) {
                    log.bill().turns.cover(model, slot.estimate.tokens);
                }
                let (services, caller) = (Arc::clone(&self.services), Arc::clone(&self.caller));
                let log_of_work = Arc::clone(&log);
                let body = Box::pin(async move {
                    attempt::perform(&services.executor, &caller, &plan.nodes[at], work, log_of_work, turn)
                        .await
                });
                let launch = Launch { key, slot, acts, log, body };
                if is_quick {
                    Box::pin(self.run_inline(launch)).await;
                } else {
                    self.in_flight.launches.push(launch);
                }
            }
            Err(Refusal::Unasked(question)) => {
                let turn = turn.map(|begun| begun.turn);
                self.ask_authority(key, *question, Beginning { slot, accounts, again, turn });
            }
            Err(refusal) => {
                self.release_slot(slot);
                self.release_budget(&key);
                self.refuse_attempt(&key, refusal).await;
            }
        }
    }

    /// The key of the last attempt of a node.
    pub(super) fn key_of_last(&self, node: &NodeId) -> AttemptKey {
        self.key(node, self.run.instance(node).map_or(0, |instance| instance.attempts))
    }

    pub(super) fn has_budget(&self) -> bool {
        self.run.terms().budget.is_some()
    }

    /// Returns the budget that was reserved for an attempt, less its cost.
    pub(super) fn release_budget(&self, key: &AttemptKey) {
        if self.has_budget() {
            self.services.run_budgets.ended(key, self.run.cost());
        }
    }

    pub(super) fn spent_budget(&self) -> Refusal {
        let budget = self.run.terms().budget.unwrap_or(0);
        let what = format!("the budget of the run, {budget} credits, is used up");
        Refusal::Failed(FailureCategory::ResourceExhaustion, what)
    }

    pub(super) fn tool_version(&self, node: &Node) -> Option<&str> {
        self.services.gatekeeper.toolbox.version(node.tool.as_deref()?)
    }

    fn is_same_work(&self, node: &Node, refs: &RefDigests) -> bool {
        self.run.is_same_work(&node.id, refs, self.services.gatekeeper.toolbox.executable_digest(node))
    }

    /// The reason why a lost attempt does not run again by itself.
    fn changed_since(&self, node: &Node) -> String {
        let tool = node.tool.as_deref().unwrap_or("what it does");
        let version = self.tool_version(node).map(|version| format!(", now version {version},"));
        format!("not done again: {tool}{} has changed since it was started", version.unwrap_or_default())
    }

    /// Starts a timer node. Its call passes the gate like any other.
    pub(super) async fn launch_timer(&mut self, node: &Node) {
        let next = self.run.instance(&node.id).map_or(0, |instance| instance.attempts) + 1;
        let prepared = self.prepare_timer(node, next).await;
        let wait = match &prepared {
            Ok(Prepared { work: Work::Tool { tool, permit, .. }, .. }) => tool.timer_ms(permit.params()),
            _ => None,
        };
        let due = wait.map(|ms| self.services.journal.now().saturating_add_unsigned(ms));
        let events = self.within(|run, cx| run.start(cx, &node.id, due));
        self.apply_effects(events);
        let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
        match prepared {
            Ok(prepared) if due.is_some() => self.record_intent(node, &prepared, None),
            Ok(_) => {
                let what = format!("{} does not say how long to wait", node.id);
                self.refuse(&node.id, attempt, Refusal::Failed(FailureCategory::Structural, what));
            }
            Err(refusal) => self.refuse(&node.id, attempt, refusal),
        }
    }

    /// Fails an attempt that never started. In place of an answer that would fail for good stands the template, which needs
    /// neither a call nor a credit.
    pub(super) async fn refuse_attempt(&mut self, key: &AttemptKey, refusal: Refusal) {
        match self.answer_unasked(key, &refusal).await {
            Some(result) => self.decide(RunInput::Result(result)),
            None => self.refuse(&key.node, key.attempt, refusal),
        }
    }

    /// The same for a node that is no answer.
    pub(super) fn refuse(&mut self, id: &NodeId, attempt: u32, refusal: Refusal) {
        let (category, message) = match refusal {
            Refusal::Failed(category, message) => (category, message),
            Refusal::Denied(denial) => self.denied(id, attempt, denial),
            Refusal::Unasked(_) => {
                let what = "the policy changed while the clearance authority was asked";
                self.denied(id, attempt, Denial::new(DenialCode::PolicyEpochStale, what))
            }
        };
        let outcome = failed(category, message);
        self.decide(RunInput::Result(Box::new(AttemptResult::without_cost(id.clone(), attempt, outcome))));
    }

    /// Records a denial; returns the failure that the plan sees.
    fn denied(&mut self, id: &NodeId, attempt: u32, denial: Denial) -> (FailureCategory, String) {
        let undoes = self.run.node(id).is_some_and(Node::is_undo);
        let denial = if undoes { denial.of_undo(self.opened.run) } else { denial };
        let seen = denial.for_model().to_owned();
        self.record_denial(id, attempt, &denial);
        self.writer.pending.push(Event::GateDecision(GateDecision {
            node: id.clone(),
            attempt,
            code: denial.code.as_str().to_owned(),
            detail: denial.operator,
        }));
        (FailureCategory::GateDenied, seen)
    }

    /// Resolves the inputs of an attempt and asks the gate for a permit. `charged`: the attempt that counts for the budgets of the gate;
    /// `None`: no attempt begins.
    pub(super) async fn prepare(&mut self, node: &Node, charged: Option<u32>) -> Result<Prepared, Refusal> {
        if let Some(prepared) = self.prepare_control(node, charged).await? {
            return Ok(prepared);
        }
        if let Some(earlier) = self.prepare_earlier(node).await? {
            return Ok(earlier);
        }
        let results = self.services.results.needed(&self.run, node).await.map_err(Refusal::unreadable)?;
        let callbacks = &self.services.gatekeeper.callbacks;
        let address = |wait: &NodeId| callbacks.address(self.opened.run, wait);
        let bytes = self.run.input_bytes(node);
        let given = with_bytes(bytes, || self.run.attempt_input(node, &results, &address));
        let (given, refs) = given.map_err(|error| Refusal::Failed(error.category(), error.to_string()))?;
        let key = self.run.idempotency_key(self.opened.run, &node.id);
        let work = match given {
            AttemptInput::Aggregate { template, values } => Work::Render { template, values },
            AttemptInput::Params(params) => {
                let tokens = callbacks.tokens(self.opened.run, &self.run, node);
                let (tool, permit) =
                    self.gate(node, params, key, charged).map_err(|refusal| refusal.without(&tokens))?;
                Work::Tool { tool, permit, tokens, recorded: None }
            }
        };
        Ok(Prepared { work, refs, key })
    }

    pub(super) fn gate(
        &self,
        node: &Node,
        params: Object,
        key: Digest,
        charged: Option<u32>,
    ) -> Result<(Arc<dyn Tool>, Permit), Refusal> {
        let answer =
            self.in_flight.answer.as_ref().filter(|(of, _)| *of == node.id).map(|(_, answer)| answer);
        let (run, gatekeeper) = ((self.opened.run, &self.run), &self.services.gatekeeper);
        let gated = gatekeeper.gate_node(&self.caller, run, (node, charged), params, key, answer);
        gated.map_err(|stopped| match stopped {
            Stopped::Denied(denial) => Refusal::Denied(denial),
            Stopped::Asks(question) => Refusal::Unasked(question),
        })
    }

    fn record_intent(&mut self, node: &Node, prepared: &Prepared, accounts: Option<Accounts>) {
        let services = &self.services;
        let sigma = services.gatekeeper.toolbox.executable_digest(node);
        let Prepared { refs, key, .. } = prepared;
        let intended = IntentContext { opened: &self.opened, refs, sigma, idempotency_key: *key, accounts };
        let now = services.journal.now();
        let verdict = match &prepared.work {
            Work::Tool { permit, .. } => {
                let verdict = self.allowed(node, permit);
                self.run.record_verdict(now, verdict)
            }
            Work::Known(_) | Work::Render { .. } => None,
        };
        let intent = self.run.record_intent(now, &node.id, intended);
        self.apply_effects(verdict.into_iter().chain(intent).collect());
    }

    /// The address of an attempt in the step log.
    fn site(&self, node: &Node, attempt: u32, key: Digest) -> Site {
        let patch_count = self.run.instance(&node.id).map_or(0, |instance| instance.patch_count);
        let run = self.opened.run;
        Site {
            run,
            stream: self.writer.stream.attempts_stream(),
            of: AttemptRef { node: node.id.clone(), generation: GENERATION, patch_count, attempt },
            key,
            heartbeat_ms: node.heartbeat_timeout.and_then(|span| u64::try_from(span).ok()),
            impact: node.reach().impact,
            caller: Arc::clone(&self.caller),
            payer: self.payer(),
            owner: Arc::clone(&self.arguments.owner),
        }
    }

    /// Who pays for the run's calls of models.
    pub(super) fn payer(&self) -> Payer {
        Payer::new(self.opened.run, &self.opened.client, self.run.call_terms())
    }

    /// Spawns the attempts with appended intents. An attempt that acts on the world waits until its intent is durable.
    pub(super) fn launch(&mut self, position: Option<Position>) {
        for Launch { key, slot, acts, log, body } in std::mem::take(&mut self.in_flight.launches) {
            let services = Arc::clone(&self.services);
            let body = async move {
                if let (true, Some(position)) = (acts, position)
                    && let Err(error) = services.journal.durable(position).await
                {
                    services.journal.not_durable(&error);
                    return None;
                }
                Some(body.await)
            };
            let held = (Arc::clone(&self.arguments.owner), slot);
            let waited = log.waited.clone();
            let called = move || log.take_model_calls();
            self.services.executor.spawn(key.clone(), held, self.me.clone(), (acts, waited), called, body);
            if self.run.instance(&key.node).is_some_and(NodeInstance::is_draining) {
                self.services.attempts.drains(&key);
            }
        }
    }
}

pub(super) struct Prepared {
    pub(super) work: Work,
    pub(super) refs: RefDigests,
    pub(super) key: Digest,
}
