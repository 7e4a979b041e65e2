//! How goal runs open: the terms that a caller leaves open, and the plan of version 1.

use super::goal::opening_plan;
use super::terms::GOAL_LIMIT;
use super::{
    Aggregator, BaseTokens, Budgets, ContextForm, EarlierRun, GoalModels, GoalTerms, Mode, OfferedTemplate,
    Role, earlier_tokens, text_tokens,
};
use crate::plan::{HumanDuration, PlanDraft, PolicyDraft};

/// Longest goal, in bytes.
pub const GOAL_BYTES_MAX: usize = 32 << 10;

/// Longest digest of a result in a prompt of a real run, in tokens.
const DIGEST_TOKENS: u64 = 256;

/// Tokens of instructions and schema in every prompt, as an estimate.
const BASE_TOKENS: u64 = 400;

/// Longest time of an attempt of a control node.
const CONTROL_TIMEOUT: HumanDuration = HumanDuration::Whole(180);

/// Longest wait for a person who approves a plan or a step.
const HUMAN_TIMEOUT: HumanDuration = HumanDuration::Whole(24 * 3_600);

/// Characters of a goal in lists.
const TITLE_CHARS_MAX: usize = 80;

impl GoalTerms {
    /// Terms of a real run: one model thinks for every role, all tools of the scope, the budgets of the mode, and no
    /// confirmation by a person.
    ///
    /// ```
    /// use ostler_kernel::policy::{GoalTerms, Mode, goal_plan};
    ///
    /// let terms = GoalTerms::new("count the notes", Mode::Auto, "default");
    /// assert_eq!(goal_plan(&terms).nodes.len(), 1);
    /// ```
    pub fn new(goal: &str, mode: Mode, model: &str) -> GoalTerms {
        let goal = goal.trim();
        let named = || Some(model.to_owned());
        GoalTerms {
            goal: goal.to_owned(),
            mode,
            aggregator: Aggregator::Executor,
            context: ContextForm::Bounded,
            digest_tokens: DIGEST_TOKENS,
            budgets: Budgets::of_mode(mode),
            base: BaseTokens { other: BASE_TOKENS + text_tokens(goal), ..BaseTokens::default() },
            control_timeout: CONTROL_TIMEOUT,
            human_timeout: HUMAN_TIMEOUT,
            opened_at: 0,
            models: GoalModels { planner: named(), executor: named() },
            model_file: None,
            tools: None,
            confirm: false,
            on: Vec::new(),
            templates: Vec::new(),
        }
    }

    /// The terms of a goal that may use results of these earlier runs.
    #[must_use]
    pub fn on(mut self, runs: Vec<EarlierRun>) -> GoalTerms {
        self.base.other += earlier_tokens(&runs);
        self.on = runs;
        self
    }

    /// The terms of a goal whose planner is shown these templates. Follows [`GoalTerms::on`].
    #[must_use]
    pub fn offering(mut self, templates: Vec<OfferedTemplate>) -> GoalTerms {
        let shown: u64 = templates.iter().map(|template| text_tokens(&template.text)).sum();
        self.base.roles = [(Role::Planner, self.base.other + shown)].into();
        self.templates = templates;
        self
    }
}

/// Version 1 of the plan of a goal run, with the limits of goal runs.
pub fn goal_plan(terms: &GoalTerms) -> PlanDraft {
    let limit = Some(GOAL_LIMIT);
    // Results of earlier runs take no room of the goal's own work.
    let results = terms.on.iter().map(|earlier| earlier.results.len() as u32).sum::<u32>();
    let policy = PolicyDraft {
        max_nodes: Some(GOAL_LIMIT + results),
        max_versions: limit,
        max_depth: Some(GOAL_LIMIT + results.min(1)),
        // Recovery ends with the micro-planner; replans are steps of the mode.
        max_replans: Some(0),
        ..PolicyDraft::default()
    };
    PlanDraft { title: Some(title(&terms.goal)), policy: Some(policy), ..opening_plan(terms) }
}

/// The first line of a goal, for lists.
fn title(goal: &str) -> String {
    let line = goal.trim().lines().next().unwrap_or_default();
    match line.chars().count() {
        0..=TITLE_CHARS_MAX => line.to_owned(),
        _ => line.chars().take(TITLE_CHARS_MAX - 1).chain(['…']).collect(),
    }
}
