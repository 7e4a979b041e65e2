//! Requests of operators to a run, and questions of a run to people.

use ostler_kernel::agent::InvalidState;
use ostler_kernel::event::{HumanRequestKind, RunOpened};
use ostler_kernel::gate::Denial;
use ostler_kernel::grant::{Grant, GrantTerms, GrantedCall};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::ledger::{Amounts, CallLimits};
use ostler_kernel::lineage;
use ostler_kernel::plan::{Node, Rule};
use ostler_kernel::run::{ApprovalRequest, NodeStatus, Operation, Run, RunInput};
use serde_json::Value;
use tokio::time::Instant;

use super::driver::RunDriver;
use super::launch::Refusal;
use super::services::RunServices;
use crate::attempts::approval_request::{self, Shown};
use crate::base::error::RunError;
use crate::base::long_work::with_bytes;
use crate::messages::agent::{AskReply, PlannedChange, Request};

impl RunDriver {
    /// Decides on a request, after [`RunDriver::look_again`]. The reply is sent once the decision is durable.
    pub(super) fn ask(&mut self, request: Request, reply: AskReply) {
        // Deadlines that have passed take effect before the request.
        self.fire_due_timers();
        if !matches!(request, Request::Operate(Operation::CancelPlan(_))) {
            self.cancel_after_deadline();
        }
        let input = match request {
            // A suspension was requested after the caller checked the state.
            Request::Operate(Operation::Interject(_)) if self.is_suspending() => {
                Err(InvalidState::SUSPENDED.into())
            }
            Request::Operate(operation) => {
                match self.run.check_operation(&operation, &self.services.kernel.settings_of(&self.run)) {
                    Ok(()) => Ok(RunInput::Operator(operation)),
                    Err(error) => Err(error.into()),
                }
            }
            Request::Answer(request) => self
                .left_of_calls()
                .and_then(|left| request.into_input(&self.run, self.services.journal.now(), left)),
            Request::CheckYes { node, request, shown } => {
                let checked = self.run.check_answer(&node, request, shown, self.services.journal.now());
                self.writer.answers.push((reply, checked.map_err(RunError::from)));
                return;
            }
            Request::WaitAnswer(request) => {
                let broken = |rules: &[Rule], value: &Value| self.services.gatekeeper.broken(rules, value);
                Ok(request.into_input(&self.run, self.services.journal.now(), &broken))
            }
            Request::Planned(change) => self.planned(change),
            Request::Resolve(request) => request.into_input(&self.run),
            Request::Checkpoint => {
                self.services.active_runs.note_resting(self.opened.run, true);
                self.pause.suspend_waiters.push(reply);
                return;
            }
            Request::GoOn => {
                self.services.active_runs.note_resting(self.opened.run, false);
                for waiting in self.pause.suspend_waiters.drain(..) {
                    let _ = waiting.send(Err(RunError::Said("the run was resumed meanwhile".to_owned())));
                }
                self.reoffer();
                self.writer.answers.push((reply, Ok(())));
                return;
            }
        };
        // The reason of a refusal may be an earlier request of this turn: the caller must find its record.
        let answer = input.map(|input| self.decide(input));
        self.writer.answers.push((reply, answer));
    }

    /// What the account of the run's calls has left.
    fn left_of_calls(&self) -> Result<CallLimits, RunError> {
        let payer = self.payer();
        let Some(account) = payer.account else { return Ok(CallLimits::NONE) };
        Ok(self.services.call_accounts.view(account, &payer.client)?.left())
    }

    /// An answer of the planner, if the run still waits for one.
    fn planned(&self, change: PlannedChange) -> Result<RunInput, RunError> {
        match change {
            PlannedChange::Patch(node, ..) if self.run.node(&node).is_none() => {
                Err(RunError::UnknownNode(node))
            }
            PlannedChange::Patch(node, number, patch)
                if self.run.open_patch_request(&node) == Some(number) =>
            {
                Ok(RunInput::Patched(node, patch))
            }
            PlannedChange::Replan(number, delta) if self.run.open_replan_request() == Some(number) => {
                Ok(RunInput::Replanned(delta))
            }
            PlannedChange::Patch(..) | PlannedChange::Replan(..) => Err(RunError::NotAsked),
        }
    }

    /// Asks the question of a ready node, again if its approval was given for another call. A call that the gate denies is denied
    /// at once. Returns whether it asked or denied.
    pub(super) async fn ask_person(&mut self, id: &NodeId) -> bool {
        let (Some(node), Some(ask)) = (self.run.node(id), self.run.approval_kind(id)) else { return false };
        let begun = Instant::now();
        // Boxed: otherwise this rare future enlarges the future of every message.
        let mut shown = Box::pin(shown_now(&self.services, &self.opened, &self.run, node, ask)).await;
        self.in_flight.inline.count_look(begun);
        if let (HumanRequestKind::Before, Some(denial)) = (ask, shown.denial) {
            return self.deny(id, denial);
        }
        let is_void = self.in_flight.unapproved.remove(id);
        // A person's own yes also holds for what has been written.
        let bytes = self.run.input_bytes(node);
        let is_approved = self.run.is_approved(id, || with_bytes(bytes, || shown.request.digest()));
        let granted = if is_void || is_approved { None } else { self.granted(&shown.request) };
        if let Some(grant) = &granted {
            shown.request = shown.request.under(grant);
        }
        let digest = self.keep_shown(&shown.request, bytes).await;
        let events = self.within(|run, cx| match is_void {
            true => run.ask_once_more(cx, id, Some(digest)),
            false => run.ask(cx, id, Some(digest)),
        });
        let asked = !events.is_empty();
        self.apply_effects(events);
        let is_open = self.run.instance(id).is_some_and(|instance| {
            matches!(instance.status, NodeStatus::WaitingHuman { ask: HumanRequestKind::Before, .. })
        });
        if let Some(grant) = granted.filter(|_| is_open) {
            self.answer_by_grant(id, &grant.terms);
        }
        asked
    }

    /// The digest of a document, which is kept: should it change, the next question tells what did, also in a repetition of the run.
    /// Without it, for lack of space, that question only shows what is there by then.
    async fn keep_shown(&mut self, request: &ApprovalRequest, bytes: u64) -> Digest {
        let (document, digest) = with_bytes(bytes, || {
            let document = request.document();
            let digest = lineage::artifact(&document.media, &document.content);
            (document, digest)
        });
        let _ = self.services.results.artifacts.put(document).await;
        digest
    }

    /// The grant that covers a call before its start.
    pub(super) fn granted(&self, shown: &ApprovalRequest) -> Option<Grant> {
        // The operator who granted the words of a call has not seen that strangers may have chosen them.
        if !shown.holds.is_empty() || shown.ask != HumanRequestKind::Before {
            return None;
        }
        let tool = shown.tool.as_deref().filter(|_| shown.refusal.is_none() && shown.tests.is_empty())?;
        let (client, workspace) = (&self.opened.client, self.opened.workspace.as_str());
        let call = GrantedCall { client, workspace, tool, params: &shown.params };
        self.services.grants.covering(&call, &shown.files, self.services.journal.now())
    }

    /// Answers a question with yes by a grant. The records keep the question, and name the grant as author of the answer.
    fn answer_by_grant(&mut self, id: &NodeId, terms: &GrantTerms) {
        let request = self.run.instance(id).map_or(0, |instance| instance.requests);
        let (node, by, raise) = (id.clone(), terms.answers_as(), Amounts::default());
        self.decide(RunInput::HumanAnswer {
            node,
            request,
            approve: true,
            by,
            note: terms.to_string(),
            raise,
        });
    }

    /// Ends the attempt of a ready node with a denial. Returns whether the node was still ready.
    fn deny(&mut self, id: &NodeId, denial: Denial) -> bool {
        let events = self.within(|run, cx| run.start_denied(cx, id));
        if events.is_empty() {
            return false;
        }
        self.apply_effects(events);
        let attempt = self.run.instance(id).map_or(0, |instance| instance.attempts);
        self.refuse(id, attempt, Refusal::Denied(denial));
        true
    }

    /// Notes all open questions of a run that is driven from now on: tools, the policy or files may have changed.
    pub(super) fn doubt_questions(&mut self) {
        let waiting = self.run.instances().filter_map(|(node, instance)| match instance.status {
            NodeStatus::WaitingHuman { ask, .. } => Some((node.id.clone(), ask)),
            _ => None,
        });
        self.in_flight.doubted = waiting.collect();
    }

    /// Repeats noted questions with a changed digest, as many as fit into the turn. Returns whether there was any.
    pub(super) async fn ask_anew(&mut self) -> bool {
        let mut is_any = false;
        while !self.in_flight.inline.is_full()
            && let Some((id, ask)) = self.in_flight.doubted.pop()
        {
            is_any = true;
            let status = self.run.instance(&id).map(|instance| &instance.status);
            let is_open = matches!(status, Some(NodeStatus::WaitingHuman { ask: now, .. }) if *now == ask);
            if let Some(node) = self.run.node(&id).cloned().filter(|_| is_open) {
                let begun = Instant::now();
                self.ask_anew_about(&node, ask).await;
                self.in_flight.inline.count_look(begun);
            }
        }
        is_any
    }

    /// Looks once more at the work that a yes would allow, and asks anew if the question would show something else by now: a person may
    /// have looked at files that are others than those asked about. Only a yes that would be accepted is worth the look.
    pub(super) async fn look_again(&mut self, request: &Request) {
        let Some((node, number, shown)) = request.yes_to() else { return };
        // Expired questions are not asked again.
        self.fire_due_timers();
        if self.run.check_answer(node, number, shown, self.services.journal.now()).is_err() {
            return;
        }
        let status = self.run.instance(node).map(|instance| &instance.status);
        if let Some(&NodeStatus::WaitingHuman { ask, .. }) = status
            && let Some(node) = self.run.node(node).cloned()
        {
            self.ask_anew_about(&node, ask).await;
        }
    }

    /// Repeats the open question of a node if its digest has changed.
    async fn ask_anew_about(&mut self, node: &Node, ask: HumanRequestKind) {
        if !matches!(ask, HumanRequestKind::Before | HumanRequestKind::Node) {
            return;
        }
        let shown = shown_now(&self.services, &self.opened, &self.run, node, ask).await;
        let digest = self.keep_shown(&shown.request, self.run.input_bytes(node)).await;
        // The look may have lasted until the deadline.
        self.fire_due_timers();
        let events = self.within(|run, cx| run.ask_again(cx, &node.id, Some(digest)));
        self.apply_effects(events);
    }
}

/// The request of a node as a person would be shown now. Takes parts of the driver, because a future that holds the driver is not `Send`.
async fn shown_now(
    services: &RunServices,
    opened: &RunOpened,
    run: &Run,
    node: &Node,
    ask: HumanRequestKind,
) -> Shown {
    approval_request::shown(&services.gatekeeper, &services.results, opened, run, node, ask, None).await
}
