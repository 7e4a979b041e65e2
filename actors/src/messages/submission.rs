//! What is submitted, and why a submission is refused.

use std::path::PathBuf;
use std::sync::Arc;

use ostler_kernel::event::RunOpened;
use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, RunId};
use ostler_kernel::json::JsonError;
use ostler_kernel::plan::Plan;
use ostler_kernel::port::JournalError;

use crate::base::error::RunError;

/// A plan to run, and on what terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The plan, validated. Who submits it again and again submits this again: its text is known then, and need not be looked for.
    pub plan: Arc<Plan>,
    /// Who pays. An agent's own client counts where one is named.
    pub client: ClientId,
    /// Who runs it; `None`: an agent of its own.
    pub agent: Option<AgentId>,
    /// The most impact it may have, 0..=2.
    pub intent: u8,
    /// The scope it acts in.
    pub scope: String,
    /// The folder its tools may touch.
    pub workspace: PathBuf,
    /// The id it is to have, from [`new_run_id`]: who submits once more because no answer came gets the run that was
    /// opened then, if it was, and if all else is the same. `None`: a new one.
    pub run: Option<RunId>,
    /// Credits that its attempts may cost, all together; `None`: as many as its client has.
    pub budget: Option<u64>,
}

impl Submission {
    /// A plan for client [`CLIENT_DEFAULT`], with intent 1, in the scope [`SCOPE_DEFAULT`] and the current folder.
    pub fn plan(plan: impl Into<Arc<Plan>>) -> Submission {
        Submission {
            plan: plan.into(),
            client: CLIENT_DEFAULT.into(),
            agent: None,
            intent: 1,
            scope: SCOPE_DEFAULT.to_owned(),
            workspace: PathBuf::from("."),
            run: None,
            budget: None,
        }
    }
}

/// What a submission says of a run: all of it must be the same where it is repeated.
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
    /// [`Submission::budget`].
    Budget,
}

impl Term {
    /// Its name in [`Submission`].
    pub fn as_str(&self) -> &'static str {
        match self {
            Term::Plan => "plan",
            Term::Client => "client",
            Term::Agent => "agent",
            Term::Intent => "intent",
            Term::Scope => "scope",
            Term::Workspace => "workspace",
            Term::Budget => "budget",
        }
    }

    /// What of a run is not as it was when it was opened. The policy may have changed since, and the seed is drawn anew.
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

/// Why a submission was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The plan holds something that canonical JSON cannot.
    #[error("the plan cannot be written down: {0}")]
    Plan(#[from] JsonError),
    /// The name of the client is no name.
    #[error("client name {0:?} is not {NAME_RULE}")]
    Client(String),
    /// There are as many clients as can be.
    #[error("there are {0} clients, which is as many as can be: name one of them")]
    TooManyClients(usize),
    /// More impact than there is.
    #[error("intent {0} is not 0, 1 or 2")]
    Intent(u8),
    /// There is no such scope, so no call could be made.
    #[error("no scope {scope:?}: there is {known}")]
    Scope {
        /// What was asked for.
        scope: String,
        /// What there is.
        known: String,
    },
    /// The agent takes something else.
    #[error("agent {agent} does not take what this plan begins with: {what}")]
    Input {
        /// Which agent.
        agent: AgentId,
        /// What is wrong.
        what: String,
    },
    /// The folder is not there.
    #[error("workspace {folder}: {why}")]
    Workspace {
        /// Which folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// There is a run of this id, opened on other terms.
    #[error(
        "run {run} was opened before, with another {}: submit what was submitted then, or take a new id",
        differs.iter().map(Term::as_str).collect::<Vec<_>>().join(", ")
    )]
    Taken {
        /// Which run.
        run: RunId,
        /// What is not as it was then; at least one.
        differs: Vec<Term>,
    },
    /// The run of this id was opened before, and its records cannot be read.
    #[error(transparent)]
    Unreadable(Box<RunError>),
    /// The journal did not take it.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
