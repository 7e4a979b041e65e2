//! A plan: an immutable, versioned graph of nodes.
//!
//! [`PlanDraft`] is a plan as written. [`normalise`] fills in every default, [`validate()`] gives a [`Plan`] or
//! all faults, [`merge`] makes the next version of a running one.
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

mod advice;
mod policy_floor;
mod unreachable_path;
mod delta;
mod draft;
mod stats;
mod diagnostic;
mod graph;
mod packed_lists;
mod model;
mod suggest;
mod normalise;
mod pointer;
mod settings;
mod duration;
mod node_index;
mod validate;

pub use advice::{Advice, AdviceCode, advise};
pub use delta::{Change, Delta, MergedPlan, NodeProgress, Revision, apply_change, merge};
pub use draft::{DepDraft, Impact, NodeDraft, NodeFields, PlanDraft, PolicyDraft, RuleDraft};
pub use stats::PlanStats;
pub use diagnostic::{Diagnostic, DiagnosticCode, SAME_DIAGNOSTICS_MAX};
pub use graph::Graph;
pub use packed_lists::PackedLists;
pub use model::*;
pub use suggest::nearest;
pub use normalise::{PLAN_PATTERNS_BYTES_MAX, UncheckedPlan, normalise};
pub use pointer::{Origin, Pointer, pointer_steps};
pub use settings::{BadParam, RENDER_TOOL, Settings, TEST_TOOL, ToolDefaults, Tools};
pub use duration::{DURATION_RULE, HumanDuration};
pub use validate::{PLAN_EDGES_MAX, TIMEOUT_MS_MAX, validate};
