//! Shared parts of the case studies: analysts, reviewers and scores.

pub(crate) mod analyst;
pub(crate) mod arguments;
pub(crate) mod gates;
pub(crate) mod model;
pub(crate) mod scores;

/// Any error ends an example with a message.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Destination of an example's output.
pub(crate) type Out<'a> = &'a mut (dyn std::io::Write + Send);
