//! Open approval requests and the answers to them.

use std::fmt;
use std::str::FromStr;

use ostler_kernel::agent::LifecycleMessage;
use ostler_kernel::event::{ApprovalKept, HumanRequestKind, Output, Parent, RunOpened};
use ostler_kernel::id::{ClientId, Digest, NodeId, RunId, Ticks};
use ostler_kernel::ledger::{CallLimits, Shortfall};
use ostler_kernel::policy::Role;
use ostler_kernel::port::{JournalError, NamedFile};
use ostler_kernel::run::{ApprovalRequest, NodeStatus, ShownChange, shown_changes};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::attempts::approval_request::shown;
use crate::base::error::RunError;
use crate::messages::agent::Request;
use crate::messages::answer::{Answer, AnswerRequest};
use crate::run::services::RunServices;

/// Id of a question: run, node and number, written as `RUN:NODE:NUMBER`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApprovalId {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
    /// Number of the question among the ones of the node, from 1.
    pub request: u32,
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.run, self.node, self.request)
    }
}

/// A text that is no approval id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no question: expected RUN:NODE:NUMBER")]
pub struct ApprovalIdError(String);

impl FromStr for ApprovalId {
    type Err = ApprovalIdError;

    fn from_str(text: &str) -> Result<ApprovalId, ApprovalIdError> {
        let mut parts = text.split(':');
        let id = (|| {
            let run = parts.next()?.parse().ok()?;
            let node = NodeId::from(parts.next()?);
            let request = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(ApprovalId { run, node, request })
        })();
        id.ok_or_else(|| ApprovalIdError(text.chars().take(120).collect()))
    }
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// The id.
    pub id: ApprovalId,
    /// Id of the run's plan.
    pub plan: String,
    /// The client that pays for the run.
    pub client: ClientId,
    /// The attempt that opened the run.
    pub parent: Option<Parent>,
    /// Model file of a goal run, as the command line named the file; `None` for a configured model.
    pub model_file: Option<String>,
    /// Digest of what the question showed when it was asked; an answer holds for the digest alone.
    pub digest: Option<Digest>,
    /// Role of the node in a goal run; `None` for work, and for every node of another run.
    pub role: Option<Role>,
    /// The shown call; after an action also the result.
    pub shown: ApprovalRequest,
    /// The folder of the call; `None` without one.
    pub workspace: Option<String>,
    /// The files that the question was last asked about, if they were others.
    pub files_before: Vec<NamedFile>,
    /// Other parts of the question that differ from when it was last asked, or from the repeated run.
    pub changes: Vec<ShownChange>,
    /// The approval that a person gave in the repeated run. It does not hold here, else the question would not be open.
    pub earlier: Option<ApprovalKept>,
    /// `human_approval` nodes above the effect that another run was answered: the question stands in their place.
    pub guards: Vec<NodeId>,
    /// The result that an approval would publish.
    pub result: Option<Output>,
    /// The call of a model that the budget does not allow.
    pub shortfall: Option<Box<Shortfall>>,
    /// The question would show something else by now, because tools, the policy or files have changed; it is repeated
    /// when the run resumes, and in place of a yes.
    pub is_outdated: bool,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub asked: Ticks,
    /// When silence cancels the node.
    pub deadline: Option<Ticks>,
    /// Nodes that cannot start before the answer; the first hundred.
    pub holds_up: Vec<NodeId>,
}

/// A page of the open questions of all runs.
#[derive(Debug, Clone, Default)]
pub struct ApprovalPage {
    /// The questions by id, oldest run first.
    pub approvals: Vec<Approval>,
    /// Runs on the page with unreadable questions, and the reason.
    pub unreadable: Vec<(RunId, RunError)>,
    /// True if further pages follow.
    pub has_more: bool,
}

/// Bytes of parameters of the questions on one page. The question that exceeds them is the last one there.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Which questions of a run are read. A question may hold a parameter of megabytes, and there may be thousands.
struct Wanted<'a> {
    /// Questions up to this one are left out.
    after: Option<&'a ApprovalId>,
    /// Every other question is left out.
    only: Option<&'a ApprovalId>,
    /// Most questions.
    count: usize,
    /// Bytes of parameters behind which no further question is read.
    bytes: usize,
}

impl Wanted<'_> {
    const ALL: Wanted<'static> = Wanted { after: None, only: None, count: usize::MAX, bytes: usize::MAX };

    fn has(&self, id: &ApprovalId) -> bool {
        self.after.is_none_or(|after| id > after) && self.only.is_none_or(|only| id == only)
    }

    /// Counts a question. Returns whether there is room for another one.
    fn take(&mut self, question: &Approval) -> bool {
        let params = serde_json::to_vec(&question.shown.params).map_or(0, |text| text.len());
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(params);
        self.count > 0 && self.bytes > 0
    }
}

/// Reads the questions of a run; the second value is true if there are more of those that are wanted.
async fn open(
    services: &RunServices,
    view: &RunView,
    wanted: &mut Wanted<'_>,
) -> Result<(Vec<Approval>, bool), JournalError> {
    let (mut found, mut has_room) = (Vec::new(), wanted.count > 0 && wanted.bytes > 0);
    for (node, instance) in view.run.instances() {
        let NodeStatus::WaitingHuman { ask, deadline } = instance.status else { continue };
        if matches!(ask, HumanRequestKind::InDoubt | HumanRequestKind::Wait) {
            continue; // an attempt in doubt is resolved, a wait is answered with a value
        }
        let id = ApprovalId { run: view.opened.run, node: node.id.clone(), request: instance.requests };
        if !wanted.has(&id) {
            continue;
        }
        if !has_room {
            return Ok((found, true));
        }
        let (gatekeeper, results) = (&services.gatekeeper, &services.results);
        let shown = shown(gatekeeper, results, &view.opened, &view.run, node, ask).await.request;
        let result = instance.output.clone().filter(|_| ask == HumanRequestKind::After);
        let shortfall = instance.shortfall.clone().filter(|_| ask == HumanRequestKind::Budget);
        let shows_call = result.is_none() && shortfall.is_none();
        let is_outdated = shows_call && instance.shown.as_deref() != Some(&shown.digest());
        let before = if is_outdated { &instance.shown } else { &instance.shown_before };
        let earlier = view.run.kept_approval(&node.id, ask).cloned();
        let earlier_shown = earlier.as_ref().map(|earlier| earlier.shown);
        let before = match before.as_deref().copied().or(earlier_shown).filter(|_| shows_call) {
            // Not kept any more, or asked by a version that kept none.
            Some(before) => services.results.artifacts.get(before).await.ok(),
            None => None,
        };
        let files_before = before.as_ref().map(ApprovalRequest::files_of).unwrap_or_default();
        let changes = match (&before, earlier.as_ref().and_then(|earlier| earlier.output.as_ref()), &result) {
            (Some(before), ..) => shown.changes_since(before),
            (None, Some(was), Some(now)) => changed_result(services, was, now).await,
            _ => Vec::new(),
        };
        let question = Approval {
            id,
            plan: view.run.plan().id.clone(),
            client: view.opened.client.clone(),
            parent: view.run.terms().parent.clone(),
            model_file: view.run.goal().and_then(|goal| goal.terms().model_file.clone()),
            digest: instance.asked_digest(),
            workspace: workspace(services, &view.opened, &shown),
            role: view.run.goal().and_then(|goal| goal.role(&node.id)),
            shown,
            files_before,
            changes,
            earlier,
            guards: view.run.guards_elsewhere(&node.id),
            result,
            shortfall,
            is_outdated,
            asked: instance.since,
            deadline: deadline.into_iter().chain(view.over_by).min(),
            holds_up: view.run.downstream(&node.id),
        };
        has_room = wanted.take(&question);
        found.push(question);
    }
    Ok((found, false))
}

/// Differences of a result from the approved one; none if one of them cannot be read.
async fn changed_result(services: &RunServices, was: &Output, now: &Output) -> Vec<ShownChange> {
    let (was, now) = (services.results.load(was).await, services.results.load(now).await);
    was.ok().zip(now.ok()).map_or_else(Vec::new, |(was, now)| shown_changes("result", &was, &now))
}

/// The workspace, if the shown call has paths or runs programs.
fn workspace(services: &RunServices, opened: &RunOpened, shown: &ApprovalRequest) -> Option<String> {
    let takes_paths = shown.tool.as_deref().is_some_and(|tool| services.gatekeeper.toolbox.takes_paths(tool));
    (takes_paths || !shown.tests.is_empty()).then(|| opened.workspace.clone())
}

impl System {
    /// The open questions of a run, by node.
    pub async fn approvals(&self, run: RunId) -> Result<Vec<Approval>, RunError> {
        let view = self.view(run, None).await?;
        Ok(open(&self.services, &view, &mut Wanted { ..Wanted::ALL }).await?.0)
    }

    /// An open question; `None` if there is none of this id.
    ///
    /// # Errors
    ///
    /// The run is unknown, or cannot be read.
    pub async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, RunError> {
        let view = self.view(id.run, None).await?;
        let mut only = Wanted { only: Some(id), ..Wanted::ALL };
        Ok(open(&self.services, &view, &mut only).await?.0.pop())
    }

    /// Up to `limit` (at least one) open questions of a run after `after`. A page of large questions has fewer.
    ///
    /// # Errors
    ///
    /// The run is unknown, or cannot be read.
    pub async fn approval_page_of(
        &self,
        run: RunId,
        after: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<ApprovalPage, RunError> {
        let view = self.view(run, None).await?;
        let mut wanted = Wanted { after, only: None, count: limit.max(1), bytes: PAGE_BYTES_MAX };
        let (approvals, has_more) = open(&self.services, &view, &mut wanted).await?;
        Ok(ApprovalPage { approvals, unreadable: Vec::new(), has_more })
    }

    /// The open questions of all runs, oldest run first. An unreadable run hides no questions of others.
    pub async fn all_approvals(&self) -> Result<ApprovalPage, RunError> {
        self.page(Wanted { ..Wanted::ALL }).await
    }

    /// Returns up to `limit` (at least one) questions after `after`; a page of large questions has fewer. Skips runs of other pages, and
    /// driven runs without a question.
    pub async fn approval_page(
        &self,
        after: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<ApprovalPage, RunError> {
        self.page(Wanted { after, only: None, count: limit.max(1), bytes: PAGE_BYTES_MAX }).await
    }

    async fn page(&self, mut wanted: Wanted<'_>) -> Result<ApprovalPage, RunError> {
        let mut rows = self.runs(true)?;
        rows.retain(|row| wanted.after.is_none_or(|after| row.run >= after.run));
        rows.sort_by_key(|row| row.run);
        let (mut page, mut quiet) = (ApprovalPage::default(), None);
        for row in rows {
            if let Some(position) = self.services.active_runs.quiet(row.run) {
                quiet = quiet.max(Some(position));
                continue;
            }
            let found = match self.view(row.run, None).await {
                Ok(view) => open(&self.services, &view, &mut wanted).await.map_err(RunError::from),
                Err(error) => Err(error),
            };
            match found {
                Ok((found, has_more)) => {
                    page.approvals.extend(found);
                    page.has_more = has_more;
                }
                Err(error) => page.unreadable.push((row.run, error)),
            }
            if page.has_more {
                // Unreadable runs after the last question go to the next page.
                let last = page.approvals.last().map(|last| last.id.run);
                page.unreadable.retain(|(run, _)| last.is_some_and(|last| *run < last));
                break;
            }
        }
        // The end of a question is shown only once it is durable.
        if let Some(position) = quiet {
            self.services.journal.durable(position).await?;
        }
        Ok(page)
    }

    /// Answers a question with the digest `shown`; the run goes on. Durable on return.
    ///
    /// An approval of a call looks once more at what the question shows, such as the files that the call names. If that
    /// is something else by now, the question is asked anew in place of the answer.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] if the run has no open question or is suspended (use [`System::resume`] first);
    /// otherwise an [`ostler_kernel::run::AnswerError`] if the question is closed or shows something else. Nothing has
    /// changed then, but for a question that is asked anew.
    pub async fn answer(&self, id: &ApprovalId, shown: Digest, answer: Answer) -> Result<(), RunError> {
        answer.check()?;
        self.finish_retractions().await?;
        let ApprovalId { run, node, request } = id.clone();
        let message = if answer.approve { LifecycleMessage::Approve } else { LifecycleMessage::Reject };
        // A refused answer must not start a run that rests.
        let (view, now) = (self.view(run, None).await?, self.services.journal.now());
        self.lifecycle_by(&view).accepts(message)?;
        self.check_has_all(&view)?;
        view.run.check_answer(&node, request, shown, now)?;
        let left = self.call_account(&view)?.map_or(CallLimits::NONE, |account| account.left());
        view.run.check_raise(&node, answer.approve, answer.raise, left)?;
        let request = AnswerRequest { node, request, shown, answer };
        let answered = self.tell(run, Request::Answer(request)).await;
        self.or_refused(run, message, answered).await
    }

    /// Checks that a yes with the digest `shown` would be accepted now. As the yes does, it looks once more at what the
    /// question shows, and asks anew if that is something else by now.
    ///
    /// # Errors
    ///
    /// See [`System::answer`].
    pub async fn check_answer(&self, id: &ApprovalId, shown: Digest) -> Result<(), RunError> {
        let (ApprovalId { run, node, request }, message) = (id.clone(), LifecycleMessage::Approve);
        let view = self.view(run, None).await?;
        self.lifecycle_by(&view).accepts(message)?;
        self.check_has_all(&view)?;
        view.run.check_answer(&node, request, shown, self.services.journal.now())?;
        let checked = self.tell(run, Request::CheckYes { node, request, shown }).await;
        self.or_refused(run, message, checked).await
    }

    /// Loads the value of a result.
    pub async fn value(&self, output: &Output) -> Result<serde_json::Value, RunError> {
        Ok(self.services.results.load(output).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::answer::{BY_BYTES_MAX, NOTE_BYTES_MAX};

    #[test]
    fn a_question_is_named_by_run_node_and_number() {
        let name = "0190b5b8-7a5e-7c3f-8000-0123456789ab:a.b-c_1:12";
        let id: ApprovalId = name.parse().unwrap();
        assert_eq!((id.node.as_str(), id.request, id.to_string().as_str()), ("a.b-c_1", 12, name));
        for wrong in ["", "x", "0190b5b8-7a5e-7c3f-8000-0123456789ab:a", &format!("{name}:1"), &name[1..]] {
            assert!(wrong.parse::<ApprovalId>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_said_has_limits() {
        for (by, note, taken) in [
            ("ann", 0, true),
            ("ann", NOTE_BYTES_MAX, true),
            ("ann", NOTE_BYTES_MAX + 1, false),
            ("", 0, false),
            ("a\nb", 0, false),
            (&"x".repeat(BY_BYTES_MAX), 0, true),
            (&"x".repeat(BY_BYTES_MAX + 1), 0, false),
        ] {
            let answer = Answer::approve().by(by).note("x".repeat(note));
            assert_eq!(answer.check().is_ok(), taken, "{by:?}, {note}");
        }
    }
}
