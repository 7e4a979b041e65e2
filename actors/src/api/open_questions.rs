//! Reads the open questions of runs, as they would be asked now.

use std::time::Duration;

use ostler_kernel::event::{HumanRequestKind, Output};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::Node;
use ostler_kernel::port::JournalError;
use ostler_kernel::run::{ApprovalRequest, NodeStatus, ShownChange, shown_changes};
use tokio::time::Instant;

use crate::api::approval::{Approval, ApprovalId, ApprovalPage};
use crate::api::system::System;
use crate::api::view::RunView;
use crate::attempts::approval_request::{Shown, bound_to, shown};
use crate::base::error::RunError;
use crate::base::long_work::with_bytes;
use crate::run::services::RunServices;

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
    /// When looks at files end; `None`: each has a limit of its own alone.
    looks_until: Option<Instant>,
}

impl Wanted<'_> {
    const ALL: Wanted<'static> =
        Wanted { after: None, only: None, count: usize::MAX, bytes: usize::MAX, looks_until: None };

    /// End of the look at the files of the next question. Each look gets half of the time that is left, so that a long one leaves time
    /// for the questions behind.
    fn look_until(&self) -> Option<Instant> {
        let now = Instant::now();
        self.looks_until.map(|until| now + until.saturating_duration_since(now) / 2)
    }

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
        let Now { shown, is_looked_at, has_files } =
            now(services, view, node, ask, wanted.look_until()).await;
        let result = instance.output.clone().filter(|_| ask == HumanRequestKind::After);
        let shortfall = instance.shortfall.clone().filter(|_| ask == HumanRequestKind::Budget);
        let shows_call = result.is_none() && shortfall.is_none();
        let digest = with_bytes(view.run.input_bytes(node), || shown.digest());
        let is_outdated = shows_call && has_files && instance.shown.as_deref() != Some(&digest);
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
            role: view.run.goal().and_then(|goal| goal.role(&node.id)),
            shown,
            files_before,
            changes,
            earlier,
            guards: view.run.guards_elsewhere(&node.id),
            result,
            shortfall,
            is_outdated,
            is_looked_at,
            asked: instance.since,
            deadline: deadline.into_iter().chain(view.over_by).min(),
            holds_up: view.run.downstream(&node.id),
        };
        has_room = wanted.take(&question);
        found.push(question);
    }
    Ok((found, false))
}

/// The present content of a question.
struct Now {
    shown: ApprovalRequest,
    is_looked_at: bool,
    /// False if the files are neither known as they are nor as they were.
    has_files: bool,
}

/// The request as it is now, with the files that the question was asked about if there is no time to look at them.
async fn now(
    services: &RunServices,
    view: &RunView,
    node: &Node,
    ask: HumanRequestKind,
    by: Option<Instant>,
) -> Now {
    let (gatekeeper, results) = (&services.gatekeeper, &services.results);
    let Shown { request, is_looked_at, .. } =
        shown(gatekeeper, results, &view.opened, &view.run, node, ask, by).await;
    if is_looked_at {
        return Now { shown: request, is_looked_at, has_files: true };
    }
    let asked = view.run.instance(&node.id).and_then(|instance| instance.shown.as_deref());
    let asked = match asked {
        // Not kept for lack of space.
        Some(asked) => results.artifacts.get(*asked).await.ok(),
        None => None,
    };
    let files = asked.as_ref().map(ApprovalRequest::files_of).unwrap_or_default();
    Now { shown: bound_to(request, files), is_looked_at, has_files: asked.is_some() }
}

/// Differences of a result from the approved one; none if one of them cannot be read.
async fn changed_result(services: &RunServices, was: &Output, now: &Output) -> Vec<ShownChange> {
    let (was, now) = (services.results.load(was).await, services.results.load(now).await);
    was.ok().zip(now.ok()).map_or_else(Vec::new, |(was, now)| shown_changes("result", &was, &now))
}

impl System {
    /// The open questions of a run, by node.
    pub async fn approvals(&self, run: RunId) -> Result<Vec<Approval>, RunError> {
        let view = self.view(run, None).await?;
        let mut all = Wanted { looks_until: Some(self.looks_until()), ..Wanted::ALL };
        Ok(open(&self.services, &view, &mut all).await?.0)
    }

    /// When the looks at the files of a page end that begins now.
    fn looks_until(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.services.limits.page_looks_ms)
    }

    /// An open question, with a look at its files; `None` if there is none of this id.
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
        let mut wanted = self.page_after(after, limit);
        let (approvals, has_more) = open(&self.services, &view, &mut wanted).await?;
        Ok(ApprovalPage { approvals, unreadable: Vec::new(), has_more })
    }

    /// The open questions of all runs, oldest run first. An unreadable run hides no questions of others.
    pub async fn all_approvals(&self) -> Result<ApprovalPage, RunError> {
        self.page(Wanted { looks_until: Some(self.looks_until()), ..Wanted::ALL }).await
    }

    /// Returns up to `limit` (at least one) questions after `after`; a page of large questions has fewer. Skips runs of other pages, and
    /// driven runs without a question.
    pub async fn approval_page(
        &self,
        after: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<ApprovalPage, RunError> {
        self.page(self.page_after(after, limit)).await
    }

    fn page_after<'a>(&self, after: Option<&'a ApprovalId>, limit: usize) -> Wanted<'a> {
        let looks_until = Some(self.looks_until());
        Wanted { after, only: None, count: limit.max(1), bytes: PAGE_BYTES_MAX, looks_until }
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
}
