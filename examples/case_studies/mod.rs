//! What the case studies share: who does the thinking, who looks at what came of it, and how well it was done.

pub(crate) mod analyst;
pub(crate) mod asked;
pub(crate) mod gates;
pub(crate) mod scores;

/// Whatever goes wrong in an example ends it, in words.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Where an example tells what happens.
pub(crate) type Out<'a> = &'a mut (dyn std::io::Write + Send);
