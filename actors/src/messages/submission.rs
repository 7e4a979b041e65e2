//! A submission, and why it may be refused.

use std::path::PathBuf;
use std::sync::Arc;

use ostler_kernel::event::RunOpened;
use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, RunId};
use ostler_kernel::json::JsonError;
use ostler_kernel::plan::Plan;
use ostler_kernel::policy::GoalTerms;
use ostler_kernel::port::JournalError;
use ostler_kernel::run::OpeningTerms;

use crate::base::error::RunError;

/// A plan to run, and its terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The validated plan. Submitting the same `Arc` again reuses its canonical text.
    pub plan: Arc<Plan>,
    /// The client that pays; ignored if `agent` is named: then the agent's client pays.
    pub client: ClientId,
    /// The agent; `None`: one of the run's own.
    pub agent: Option<AgentId>,
    /// Highest allowed impact, 0 to 2.
    pub intent: u8,
    /// Name of the scope.
    pub scope: String,
    /// The folder that the tools may touch.
    pub workspace: PathBuf,
    /// Id of the run, from [`new_run_id`](crate::new_run_id), which makes the submission idempotent: a repetition with
    /// the same terms returns the run that was opened before. `None`: a new id.
    pub run: Option<RunId>,
    /// What the run may spend, and what it is given of earlier runs. An idempotent repetition may have other terms of reuse and
    /// another exposure.
    pub terms: OpeningTerms,
    /// Terms of a goal run, whose plan is its [`opening_plan`](ostler_kernel::policy::opening_plan); `None`: a plan file.
    pub goal: Option<Arc<GoalTerms>>,
}

impl Submission {
    /// A submission for client [`CLIENT_DEFAULT`], with intent 1, scope [`SCOPE_DEFAULT`] and the current folder.
    pub fn plan(plan: impl Into<Arc<Plan>>) -> Submission {
        Submission {
            plan: plan.into(),
            client: CLIENT_DEFAULT.into(),
            agent: None,
            intent: 1,
            scope: SCOPE_DEFAULT.to_owned(),
            workspace: PathBuf::from("."),
            run: None,
            terms: OpeningTerms::default(),
            goal: None,
        }
    }

    /// A submission of `plan` in the place of an earlier run: of its client, agent, scope and folder.
    pub(crate) fn continuing(
        opened: &RunOpened,
        plan: impl Into<Arc<Plan>>,
        terms: OpeningTerms,
    ) -> Submission {
        let is_named = opened.agent.as_str() != opened.run.to_string();
        Submission {
            client: opened.client.clone(),
            agent: is_named.then(|| opened.agent.clone()),
            intent: opened.intent,
            scope: opened.scope.clone(),
            workspace: opened.workspace.clone().into(),
            terms,
            ..Submission::plan(plan)
        }
    }
}

/// A term of a submission; a repeated submission must have the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// [`Submission::plan`].
    Plan,
    /// [`Submission::client`].
    Client,
    /// [`Submission::agent`].
    Agent,
    /// [`Submission::intent`].
    Intent,
    /// [`Submission::scope`].
    Scope,
    /// [`Submission::workspace`].
    Workspace,
    /// The budget and the limits of calls in [`Submission::terms`].
    Budget,
    /// [`Submission::goal`].
    Goal,
}

impl Term {
    /// The field's name in [`Submission`].
    pub fn as_str(&self) -> &'static str {
        match self {
            Term::Plan => "plan",
            Term::Client => "client",
            Term::Agent => "agent",
            Term::Intent => "intent",
            Term::Scope => "scope",
            Term::Workspace => "workspace",
            Term::Budget => "budget",
            Term::Goal => "goal",
        }
    }

    /// The terms that differ from the ones of the opening record. The policy may have changed since, and the seed is drawn
    /// anew.
    pub(crate) fn between(then: &RunOpened, now: &RunOpened) -> Vec<Term> {
        let RunOpened { run: _, client, agent, plan, intent, scope, workspace, policy_epoch: _, seed: _ } =
            now;
        let terms = [
            (Term::Plan, then.plan != *plan),
            (Term::Client, then.client != *client),
            (Term::Agent, then.agent != *agent),
            (Term::Intent, then.intent != *intent),
            (Term::Scope, then.scope != *scope),
            (Term::Workspace, then.workspace != *workspace),
        ];
        terms.into_iter().filter_map(|(term, differs)| differs.then_some(term)).collect()
    }
}

/// The reason why a submission was refused.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Canonical JSON cannot represent the plan.
    #[error("the plan cannot be written down: {0}")]
    Plan(#[from] JsonError),
    /// The client's name is malformed.
    #[error("client name {0:?} is not {NAME_RULE}")]
    Client(String),
    /// The system has the maximal number of clients.
    #[error("there are {0} clients, which is as many as can be: name one of them")]
    TooManyClients(usize),
    /// The intent is not 0, 1 or 2.
    #[error("intent {0} is not 0, 1 or 2")]
    Intent(u8),
    /// The intent exceeds the limit of the caller's token.
    #[error("{0}")]
    AboveToken(String),
    /// The scope does not exist.
    #[error("no scope {scope:?}: there is {known}")]
    Scope {
        /// The requested scope.
        scope: String,
        /// The existing scopes.
        known: String,
    },
    /// The agent's input schema refuses the plan.
    #[error("agent {agent} does not take what this plan begins with: {what}")]
    Input {
        /// The agent.
        agent: AgentId,
        /// The schema's complaint.
        what: String,
    },
    /// The workspace cannot be used.
    #[error("workspace {folder}: {why}")]
    Workspace {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        why: String,
    },
    /// A run of the id exists, with other terms.
    #[error(
        "run {run} was opened before, with another {}: submit what was submitted then, or take a new id",
        differs.iter().map(Term::as_str).collect::<Vec<_>>().join(", ")
    )]
    Taken {
        /// The run.
        run: RunId,
        /// The terms that differ; at least one.
        differs: Vec<Term>,
    },
    /// A run of the id exists, and its records cannot be read.
    #[error(transparent)]
    Unreadable(Box<RunError>),
    /// The journal refused the opening record.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
