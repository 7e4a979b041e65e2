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
mod bind;
mod dead_end;
mod delta;
mod draft;
mod facts;
mod fault;
mod graph;
mod lists;
mod model;
mod nearest;
mod normalise;
mod pointer;
mod settings;
mod span;
mod table;
mod validate;

pub use advice::{Advice, AdviceCode, advise};
pub use delta::{Change, Delta, Merged, NodeStanding, Revision, apply_change, merge};
pub use draft::{DepDraft, Impact, NodeDraft, NodeFields, PlanDraft, PolicyDraft, RuleDraft};
pub use facts::Facts;
pub use fault::{Fault, FaultCode, SAME_FAULTS_MAX};
pub use graph::Graph;
pub use lists::Lists;
pub use model::*;
pub use nearest::nearest;
pub use normalise::{PLAN_PATTERNS_BYTES_MAX, Unchecked, normalise};
pub use pointer::{Origin, Pointer, pointer_steps};
pub use settings::{BadParam, RENDER_TOOL, Settings, TEST_TOOL, ToolDefaults, Tools};
pub use span::{SPAN_RULE, Span};
pub use validate::{PLAN_EDGES_MAX, TIMEOUT_MS_MAX, validate};
