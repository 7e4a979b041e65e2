//! Opening goal runs.

use std::path::PathBuf;
use std::sync::Arc;

use ostler_kernel::event::CallTerms;
use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, RunId};
use ostler_kernel::plan::{Diagnostic, MODEL_DEFAULT, model_tool, nearest};
use ostler_kernel::policy::{
    Aggregator, EARLIER_RUNS_MAX, EarlierRun, GOAL_BYTES_MAX, GoalModels, GoalTerms, Mode, bounded_earlier,
    goal_plan,
};
use ostler_kernel::run::{OpeningTerms, RunStatus};

use crate::api::earlier::Earlier;
use crate::api::system::System;
use crate::base::error::{RunError, meant};
use crate::messages::submission::{Submission, SubmitError};

/// A goal to reach, and its terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// The goal with its mode, models, tools and limits. Templates, earlier runs and the time of opening are filled in.
    pub terms: GoalTerms,
    /// Earlier runs with answers and results that the goal may use, the oldest first.
    pub on: Vec<RunId>,
    /// Client that pays for the run; ignored if `agent` is named, because the agent's client pays.
    pub client: ClientId,
    /// Agent that drives the run; `None`: an agent for this run alone.
    pub agent: Option<AgentId>,
    /// Highest allowed impact, 0 to 2.
    pub intent: u8,
    /// Name of the scope.
    pub scope: String,
    /// Folder that the tools may touch.
    pub workspace: PathBuf,
    /// Id of the run; see [`Submission::run`].
    pub run: Option<RunId>,
    /// Budget of the run in credits; `None`: limited only by the client's credits.
    pub budget: Option<u64>,
    /// Limits of the run's model calls; `None`: only the client's limits.
    pub calls: Option<CallTerms>,
}

impl Goal {
    /// A goal in the words of a user, for client [`CLIENT_DEFAULT`], with intent 1, scope [`SCOPE_DEFAULT`], the current folder,
    /// the mode `auto` and the model `default`. The plan starts without a question to a person.
    pub fn new(goal: &str) -> Goal {
        Goal {
            terms: GoalTerms {
                aggregator: Aggregator::Executor,
                ..GoalTerms::new(goal.trim(), Mode::Auto, MODEL_DEFAULT)
            },
            on: Vec::new(),
            client: CLIENT_DEFAULT.into(),
            agent: None,
            intent: 1,
            scope: SCOPE_DEFAULT.to_owned(),
            workspace: PathBuf::from("."),
            run: None,
            budget: None,
            calls: None,
        }
    }
}

/// The reason why a goal was refused.
#[derive(Debug, thiserror::Error)]
pub enum GoalError {
    /// The goal is empty or too long.
    #[error("a goal has 1 to {GOAL_BYTES_MAX} bytes, this has {0}")]
    Length(usize),
    /// The system has no such model.
    #[error("there is no model {0:?}; configure [models.{0}]")]
    Model(String),
    /// The system has no such tool.
    #[error("there is no tool {unknown:?}; {}", meant(.nearest.as_deref()))]
    Tool {
        /// The tool.
        unknown: String,
        /// A tool with a similar name.
        nearest: Option<String>,
    },
    /// The agent does not exist.
    #[error("no agent {0}")]
    Agent(AgentId),
    /// The goal names more earlier runs than [`EARLIER_RUNS_MAX`].
    #[error("a goal may use at most {EARLIER_RUNS_MAX} earlier runs, not {0}")]
    TooManyEarlier(usize),
    /// An earlier run belongs to another client.
    #[error("run {run} is of client {owner}, and the goal of client {client}; name a run of {client}")]
    OtherClient {
        /// The earlier run.
        run: RunId,
        /// Client of the earlier run.
        owner: String,
        /// The client of the goal.
        client: ClientId,
    },
    /// An earlier run is not over.
    #[error(
        "run {run} is {status}, so its results are not final; `ostler resume {run}` continues it, `ostler cancel {run}` ends it"
    )]
    Unfinished {
        /// The earlier run.
        run: RunId,
        /// Status of the earlier run.
        status: RunStatus,
    },
    /// An earlier run cannot be read.
    #[error(transparent)]
    Earlier(#[from] RunError),
    /// The opening plan of the goal is not valid in this system.
    #[error("the goal cannot be planned: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Plan(Vec<Diagnostic>),
    /// The run cannot be opened.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Most pairs of letters compared in the search for a tool with a similar name.
const PAIRS_MAX: usize = 1_000_000;

impl System {
    /// Opens a run for a goal, and drives the run. Durable on return; dropping the future may or may not have opened the run.
    ///
    /// # Errors
    ///
    /// See [`GoalError`]; no run is opened.
    pub async fn goal(&self, goal: Goal) -> Result<RunId, GoalError> {
        let Goal { terms, on, client, agent, intent, scope, workspace, run, budget, calls } = goal;
        let client = match &agent {
            Some(agent) => self.agent(agent).await.ok_or_else(|| GoalError::Agent(agent.clone()))?.client,
            None => client,
        };
        let terms = self.with_known(terms)?;
        let on = self.earlier_runs(&on, &client).await?;
        let templates = self.templates_for(&terms.goal).await;
        let terms = terms.on(on).offering(templates);
        let plan = self.judge_opening(goal_plan(&terms)).await.map_err(GoalError::Plan)?;
        let goal = Some(Arc::new(terms));
        let submission = Submission {
            client,
            agent,
            intent,
            scope,
            workspace,
            run,
            terms: OpeningTerms { budget, calls, ..OpeningTerms::default() },
            goal,
            ..Submission::plan(plan)
        };
        Ok(self.submit(submission).await?)
    }

    /// Names every model of the terms, and checks that all models and tools exist.
    fn with_known(&self, mut terms: GoalTerms) -> Result<GoalTerms, GoalError> {
        if terms.goal.is_empty() || terms.goal.len() > GOAL_BYTES_MAX {
            return Err(GoalError::Length(terms.goal.len()));
        }
        let GoalModels { planner, executor } = &mut terms.models;
        for model in [planner, executor] {
            let model = model.get_or_insert_with(|| MODEL_DEFAULT.to_owned());
            if !self.has_tool(&model_tool(model)) {
                return Err(GoalError::Model(model.clone()));
            }
        }
        if let Some(unknown) = terms.tools.iter().flatten().find(|tool| !self.has_tool(tool)) {
            return Err(GoalError::Tool { unknown: unknown.clone(), nearest: self.similar_tool(unknown) });
        }
        Ok(terms)
    }

    /// The tool whose name is most like an unknown one.
    pub(crate) fn similar_tool(&self, unknown: &str) -> Option<String> {
        nearest(unknown, self.tool_names(), &mut PAIRS_MAX.clone()).map(str::to_owned)
    }

    /// Reads the earlier runs of a goal: all ended, and all of the goal's client.
    async fn earlier_runs(&self, on: &[RunId], client: &ClientId) -> Result<Vec<EarlierRun>, GoalError> {
        if on.len() > EARLIER_RUNS_MAX {
            return Err(GoalError::TooManyEarlier(on.len()));
        }
        let mut runs: Vec<EarlierRun> = Vec::new();
        for &run in on {
            let Earlier { told, client: owner, status } = self.earlier(run).await?;
            if owner != client.as_str() {
                return Err(GoalError::OtherClient { run, owner, client: client.clone() });
            }
            if !status.is_over() {
                return Err(GoalError::Unfinished { run, status });
            }
            if !runs.iter().any(|known| known.run == run) {
                runs.push(told);
            }
        }
        Ok(bounded_earlier(runs))
    }
}
