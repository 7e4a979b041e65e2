//! Message enums of the actors and the mailboxes that deliver them.

pub(crate) mod mailboxes;
pub(crate) mod registry;
