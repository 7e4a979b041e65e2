//! Formatting of results for terminals, pipes and programs. Nothing here sends a request.

pub(crate) mod approval;
mod approval_changes;
mod approval_steps;
pub(crate) mod cells;
pub(crate) mod changes;
pub(crate) mod credits;
pub(crate) mod estimate;
pub(crate) mod findings;
pub(crate) mod graph;
pub(crate) mod hints;
pub(crate) mod invoice;
pub(crate) mod labels;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod printed;
pub(crate) mod screen;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod units;
