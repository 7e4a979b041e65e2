//! A plan: an immutable, versioned graph of nodes.

mod graph;
mod model;

pub use graph::Graph;
pub use model::*;
