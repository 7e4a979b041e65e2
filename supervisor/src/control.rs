//! State shared by the handles of a supervisor or pool and its task.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;

use crate::child::{ChildHandle, ChildRef};
use crate::completion::{Completion, ParentLink};
use crate::tree::TreeMessage;
use crate::{Cause, ChildId, Exit};

/// Request to stop, in order of urgency; a request is never withdrawn or lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopRequest {
    /// Keep running.
    None,
    /// Stop in order.
    Stop,
    /// Kill at once, with all children.
    Kill,
}

/// Completes once the request has reached `level`; never if all handles are gone.
pub(crate) async fn stop_requested(stop_request: &watch::Receiver<StopRequest>, level: StopRequest) {
    let mut stop_request = stop_request.clone();
    if stop_request.wait_for(|now| *now >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Never completes once a kill is requested: the kill comes next instead of what would follow.
pub(crate) async fn unless_killed(stop_request: &watch::Receiver<StopRequest>) {
    if *stop_request.borrow() == StopRequest::Kill {
        std::future::pending::<()>().await;
    }
}

/// The part of a handle that works without the supervisor's task.
pub(crate) struct Control {
    pub(crate) stop_request: watch::Sender<StopRequest>,
    pub(crate) completion: Arc<Completion>,
}

impl Control {
    /// Raises the request to `level`.
    pub(crate) fn raise(&self, level: StopRequest) {
        self.stop_request.send_if_modified(|now| {
            let higher = *now < level;
            *now = (*now).max(level);
            higher
        });
    }

    /// Waits until the supervisor and everything below it is gone.
    pub(crate) async fn wait_exit(&self) -> Exit {
        self.completion.gone().await;
        self.completion.exit().cloned().unwrap_or(Exit::Cancelled)
    }

    pub(crate) fn causes(&self) -> Vec<Cause> {
        self.completion.causes().to_vec()
    }
}

pub(crate) struct Published {
    live: RwLock<HashMap<ChildId, ChildHandle>>,
    pub(crate) parent_link: Arc<ParentLink<TreeMessage>>,
}

impl Published {
    pub(crate) fn new(parent_link: Arc<ParentLink<TreeMessage>>) -> Self {
        Published { live: RwLock::default(), parent_link }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<ChildId, ChildHandle>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, id: ChildId, child: ChildHandle) {
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(id, child);
    }

    pub(crate) fn remove(&self, id: &ChildId) {
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// The running child `id`; `None` while it is down, restarting, or ended unnoticed.
    pub(crate) fn get(&self, id: &str) -> Option<ChildRef> {
        let live = self.read();
        let child = &live.get(id)?.child;
        child.is_live().then(|| child.clone())
    }

    /// Possibly visible ends, of `id` or of all, that the supervisor has not handled.
    pub(crate) fn unhandled_ends(&self, id: Option<&ChildId>) -> Vec<Arc<Completion>> {
        match id {
            Some(id) => self.read().get(id).and_then(ChildHandle::unhandled_end).into_iter().collect(),
            None if self.parent_link.unnoticed_ends.any() => {
                self.read().values().filter_map(ChildHandle::unhandled_end).collect()
            }
            None => Vec::new(),
        }
    }
}
