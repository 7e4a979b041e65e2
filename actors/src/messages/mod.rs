//! Messages of the actors, their mailboxes, and the types in messages.

pub(crate) mod agent;
pub(crate) mod answer;
pub(crate) mod clearance;
pub(crate) mod client_change;
pub(crate) mod evaluator;
pub(crate) mod grant;
pub(crate) mod mailboxes;
pub(crate) mod market;
pub(crate) mod registry;
pub(crate) mod resolution;
pub(crate) mod retraction;
pub(crate) mod scheduler;
pub(crate) mod slots;
pub(crate) mod submission;
pub(crate) mod turn;
pub(crate) mod verdict;
pub(crate) mod wait_answer;
