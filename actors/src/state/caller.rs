//! On whose behalf an attempt calls tools.

use std::path::Path;
use std::sync::Arc;

use ostler_kernel::event::RunOpened;

/// On whose behalf something is done.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) intent: u8,
    pub(crate) scope: String,
    pub(crate) workspace: Arc<Path>,
}

impl Caller {
    /// On behalf of whoever opened a run.
    pub(crate) fn of(opened: &RunOpened) -> Caller {
        let workspace = Path::new(&opened.workspace).into();
        Caller { intent: opened.intent, scope: opened.scope.clone(), workspace }
    }
}
