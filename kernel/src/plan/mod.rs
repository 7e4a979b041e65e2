//! A plan: an immutable, versioned graph of nodes.
//!
//! `draft` is the form files and cases share, `normalise` fills in what it leaves out, `validate` turns the
//! result into a [`Plan`] or lists every fault; `delta` makes the next version; `advice` never refuses.

mod advice;
mod delta;
mod draft;
mod facts;
mod graph;
mod model;
mod normalise;
mod validate;

pub use advice::{Advice, advise};
pub use delta::{Change, ChangeContext, Delta, Merged, NodeStanding, merge};
pub use draft::{DepDraft, JoinDraft, NodeDraft, PlanDraft, PolicyDraft, RuleDraft, Span};
pub use facts::{Facts, facts};
pub use graph::Graph;
pub use model::*;
pub use normalise::{Settings, Tools, ToolDefaults, normalise};
pub use validate::{Fault, FaultCode, validate};
