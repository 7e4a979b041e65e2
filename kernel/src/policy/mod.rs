//! Execution modes of goal runs: pure policies over the graph of a run.
//!
//! A goal run starts from a text. Version 1 of its plan is one node, whose model writes steps; further models watch results, ask
//! for more steps, or conclude. Everything a model writes is the result of a node, and its consequences are changes of the
//! plan, which the usual rules judge. A mode is two functions of a [`View`]: [`effects`] says what the answers given so far ask
//! for, [`extend`] what the mode itself wants. `Run::decide` asks them between the steps of nodes, so simulated and real runs
//! take the same walk.
//!
//! | file | content |
//! |---|---|
//! | `terms`, `role` | terms of a run; control nodes and their ids |
//! | `opening` | how goal runs open |
//! | `goal`, `call` | what a run remembers besides its nodes |
//! | `view`, `answer` | the view of a run; typed answers of models |
//! | `wish` | `effects` and `extend` |
//! | `graft` | from steps to nodes |
//! | `reflect`, `nreflect`, `orchestrator`, `react`, `sgh` | what a mode adds to the steps, and when it asks for more; auto is one turn, then reflect |
//! | `room` | budgets: what still fits |
//! | `forecast` | the calls of models that a plan leads to |
//! | `earlier` | what a goal may use of earlier runs |
//! | `context`, `taint` | what a role is shown; whether texts of strangers steered an author |
//! | `start`, `final_answer` | the start of a control node's attempt; the answer by model or template |
//! | `prompt`, `answer_schema` | what a model is told, and the form of its answer |
//! | `conversation` | turns of a model as messages, for providers that want their data back |
//! | `judge`, `schema`, `step_faults`, `fault` | faults of answers |
//! | `micro` | patches that a model writes |
//! | `interjection` | messages of operators |
//! | `learn`, `templates` | plans learnt from runs; those that planners are shown |
//! | `rank` | how much a text has to do with a goal, or with a search |
//! | `tool_search` | tools that a prompt does not list, found by words |
//! | `labels`, `undone` | how far the answer carries |

mod answer;
mod answer_schema;
mod call;
mod conditions;
mod context;
mod conversation;
mod earlier;
mod fault;
mod final_answer;
mod forecast;
mod goal;
mod graft;
mod interjection;
mod judge;
mod labels;
mod learn;
mod micro;
mod node_calls;
mod nreflect;
mod opening;
mod orchestrator;
mod prompt;
mod provenance;
mod rank;
mod react;
mod reflect;
mod role;
mod room;
mod schema;
mod sgh;
mod start;
mod step_faults;
mod taint;
mod templates;
mod terms;
mod tool_search;
mod undone;
mod view;
mod wish;

pub use answer::Decision;
pub use call::{ANSWER_TOKENS_RESERVED, Call, CallEnd, CallIntent, Signature};
pub(crate) use context::digest;
pub use context::{
    Context, FAILURE_TOKENS, FAULT_TOKENS, FaultyTry, Form, SHOWN_TOKENS_MAX, Shown, text_tokens,
};
pub use conversation::{TurnMarks, detach_marks, restore_marks};
pub use earlier::{
    EARLIER_RESULTS_MAX, EARLIER_RUNS_MAX, EARLIER_TEXT_BYTES_MAX, EarlierResult, EarlierRun,
    bounded as bounded_earlier, earlier_run, earlier_tokens,
};
pub use fault::{Fault, FaultCode};
pub use final_answer::{FinalAnswer, ReadResult, Source};
pub use forecast::{ExpectedCalls, forecast};
pub(crate) use goal::Accepted;
pub use goal::{Conclusion, Goal, opening_plan};
pub use interjection::{Decider, InterjectionError, OperatorAnswer, interjection};
pub(crate) use interjection::{ask_person, falls_back_to_person};
pub use judge::{Judged, describe, judge};
pub use labels::Label;
pub use learn::{LEARNT_PREFIX, LearnContext, LearnError, Learnt, learn};
pub use micro::{
    CALLS_PER_SIGNATURE_MAX, JudgedPatch, ask as ask_micro_planner, awaited_advice, judge_patch, normalised,
};
pub use opening::{GOAL_BYTES_MAX, goal_plan};
pub use prompt::{FaultyAnswer, ReadFaulty, prompt};
pub use provenance::{
    RULE_OF_TWO, ResultTerms, exposure, exposure_of_run, has_read_both_before_test,
    has_read_strangers_and_private, labels_of_tests, provenance,
};
pub use rank::{fit, shared_words, words};
pub use role::{ANSWER, Role};
pub use start::{Start, may_call, start};
pub use step_faults::STEPS_MAX;
pub use templates::{
    OfferedTemplate, TEMPLATE_BYTES_MAX, TEMPLATES_SHOWN_MAX, Template, TemplateRecord, UNREVIEWED_MARK,
    best_templates,
};
pub use terms::{
    Aggregator, BaseTokens, Budgets, ContextForm, DIGEST_TOKENS, GOAL_LIMIT, GoalModels, GoalTerms,
    GoalTools, Mode, NoTools, Reach, StepFields, ToolTerms, UnknownMode,
};
pub use tool_search::{FOUND_TOOLS_MAX, SEARCH_TOOL, SEARCHES_MAX, offer_tokens};
pub use view::View;
pub use wish::{Wish, effects, extend};
