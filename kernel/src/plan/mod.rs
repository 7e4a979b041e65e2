//! A plan: an immutable, versioned graph of nodes.
//!
//! [`PlanDraft`] is a plan as written. [`normalise`] fills in every default, [`validate()`] gives a [`Plan`] or
//! all faults, [`merge`] makes the next version of a running one.

mod advice;
mod delta;
mod draft;
mod facts;
mod fault;
mod graph;
mod model;
mod nearest;
mod normalise;
mod settings;
mod span;
mod table;
mod validate;

pub use advice::{Advice, AdviceCode, advise};
pub use delta::{Change, Delta, Merged, NodeStanding, Revision, apply_change, merge};
pub use draft::{DepDraft, Impact, NodeDraft, NodeFields, PlanDraft, PolicyDraft, RuleDraft};
pub use facts::Facts;
pub use fault::{Fault, FaultCode};
pub use graph::Graph;
pub use model::*;
pub use nearest::nearest;
pub use normalise::{Unchecked, normalise};
pub use settings::{Settings, ToolDefaults, Tools};
pub use span::Span;
pub use validate::validate;
