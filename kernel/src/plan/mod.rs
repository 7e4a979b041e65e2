//! Plans: immutable, versioned graphs of nodes.
//!
//! [`PlanDraft`] is a plan as written. [`normalise`] fills in every default, [`validate()`] returns a
//! [`Plan`] or every diagnostic, and [`merge`] makes the next version of a running plan.
//!
//! ```
//! use ostler_kernel::plan::{PlanDraft, PolicyDraft, Settings};
//!
//! let settings = Settings::simulation(PolicyDraft::default(), None);
//! let draft: PlanDraft = serde_json::from_str(
//!     r#"{"id": "p", "nodes": [{"id": "a", "deps": ["b"], "contract": [{"method": "code"}]}]}"#,
//! )?;
//! let faults = draft.validate(&settings).unwrap_err();
//! assert_eq!((faults[0].code.as_str(), faults[0].node.as_str()), ("V03", "a"));
//! # Ok::<(), serde_json::Error>(())
//! ```

pub(crate) mod address;
mod advice;
mod alternatives;
mod compose;
mod contract_rules;
mod delta;
mod diagnostic;
mod draft;
mod duration;
mod edge;
mod effect;
mod for_each;
mod freshness;
mod graph;
mod guard;
mod kind;
mod model;
mod node;
mod node_index;
mod normalise;
mod packed_lists;
mod pointer;
mod policy;
mod policy_floor;
mod set_fields;
mod settings;
mod stats;
mod suggest;
mod undo;
mod unreachable_path;
mod validate;

pub use advice::{Advice, AdviceCode, advise};
pub use alternatives::{undoing, with_fallback};
pub use contract_rules::PLAN_PATTERNS_BYTES_MAX;
pub use delta::{Change, Delta, MergedPlan, NodeProgress, Revision, apply_change, merge};
pub use diagnostic::{Diagnostic, DiagnosticCode, SAME_DIAGNOSTICS_MAX};
pub use draft::{DepDraft, Impact, NodeDraft, NodeFields, PlanDraft, PolicyDraft, RuleDraft};
pub use duration::{DURATION_RULE, HumanDuration};
pub use edge::{Dep, Dispatch, Join, Method, On, ParamRef, Rule};
pub use effect::{Approval, Effect, Idempotency, InDoubt};
pub(crate) use for_each::read as read_list;
pub use for_each::{ForEach, OnChild, expand};
pub use freshness::Freshness;
pub use graph::Graph;
pub(crate) use guard::read as read_guards;
pub use guard::{GUARDS_MAX, Guard, Op};
pub use kind::Kind;
pub use model::Plan;
pub use node::{Made, Node};
pub use normalise::{UncheckedPlan, normalise};
pub use packed_lists::PackedLists;
pub use pointer::{Origin, Pointer, pointer_steps};
pub use policy::{KEPT_ANSWERS_MAX, OnFailure, Policy};
pub use settings::{
    BadParam, MODEL_DEFAULT, MODEL_TIMEOUT_MS, RENDER_TOOL, SUB_AGENT_TIMEOUT_MS, SUB_AGENT_TOOL, Settings,
    TEST_TOOL, ToolDefaults, Tools, model_of_tool, model_tool,
};
pub use stats::PlanStats;
pub use suggest::nearest;
pub use undo::Undo;
pub(crate) use undo::undo_round;
pub(crate) use validate::is_path;
pub use validate::{PLAN_EDGES_MAX, TIMEOUT_MS_MAX, validate};
