//! The authority of an attempt's tool calls.

use std::path::Path;
use std::sync::Arc;

use ostler_kernel::event::RunOpened;
use ostler_kernel::gate::Asker;
use ostler_kernel::id::{AgentId, ClientId};
use ostler_kernel::run::Run;

/// The authority of an attempt: client, agent, scope, intent and workspace.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: ClientId,
    pub(crate) agent: AgentId,
    pub(crate) intent: u8,
    pub(crate) scope: String,
    pub(crate) workspace: Arc<Path>,
}

impl Caller {
    /// The authority of a run; that of an undo, if the person who asked for the undo gave it another intent.
    pub(crate) fn of(opened: &RunOpened, run: &Run) -> Caller {
        let workspace = Path::new(&opened.workspace).into();
        let (client, agent) = (opened.client.clone(), opened.agent.clone());
        Caller {
            client,
            agent,
            intent: run.undo_intent().unwrap_or(opened.intent),
            scope: opened.scope.clone(),
            workspace,
        }
    }

    /// The names under which the clearance authority is asked: the client as tenant, the agent as user.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker { tenant: self.client.as_str(), user: self.agent.as_str() }
    }
}
