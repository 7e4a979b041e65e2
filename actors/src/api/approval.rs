//! Open approval requests, and the answers to them.

use std::fmt;
use std::str::FromStr;

use ostler_kernel::agent::LifecycleMessage;
use ostler_kernel::event::{ApprovalKept, Output, Parent};
use ostler_kernel::id::{ClientId, Digest, NodeId, RunId, Ticks};
use ostler_kernel::ledger::{CallLimits, Shortfall};
use ostler_kernel::policy::Role;
use ostler_kernel::port::NamedFile;
use ostler_kernel::run::{ApprovalRequest, ShownChange};

use crate::api::system::System;
use crate::base::error::RunError;
use crate::messages::agent::Request;
use crate::messages::answer::{Answer, AnswerRequest};

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
    /// False if the looks at files had no time left for this question of a page: the files shown are those that it was asked about, and
    /// whether they are outdated is not known. [`System::approval`] looks, and so does a yes.
    pub is_looked_at: bool,
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

impl System {
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
