//! The authority of an attempt's tool calls.

use std::path::Path;
use std::sync::Arc;

use ostler_kernel::event::RunOpened;

/// The authority of an attempt: client, agent, scope, intent and workspace.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) intent: u8,
    pub(crate) scope: String,
    pub(crate) workspace: Arc<Path>,
}

impl Caller {
    pub(crate) fn of(opened: &RunOpened) -> Caller {
        let workspace = Path::new(&opened.workspace).into();
        Caller { intent: opened.intent, scope: opened.scope.clone(), workspace }
    }
}
