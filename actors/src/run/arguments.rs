//! The arguments of the actor of an agent.

use std::sync::Arc;

use crate::base::keys::Owner;
use crate::run::services::RunServices;

#[derive(Clone)]
pub(crate) struct AgentArguments {
    pub(crate) owner: Arc<Owner>,
    pub(crate) services: Arc<RunServices>,
}
