//! State shared by the handles of a supervisor or pool and its task.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;

use crate::child::{ChildRef, Leash};
use crate::completion::{Completion, Family};
use crate::tree::TreeMessage;
use crate::{Cause, ChildId, Exit};

/// Urgency of a demanded end; only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Demand {
    /// Keep running.
    Run,
    /// Stop in order.
    Stop,
    /// Kill at once, with all children.
    Kill,
}

/// Completes once the demand has reached `level`; never if all handles are gone.
pub(crate) async fn demanded(demand: &watch::Receiver<Demand>, level: Demand) {
    let mut demand = demand.clone();
    if demand.wait_for(|now| *now >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Never completes once a kill is demanded: the kill comes next instead of what would follow.
pub(crate) async fn unless_killed(demand: &watch::Receiver<Demand>) {
    if *demand.borrow() == Demand::Kill {
        std::future::pending::<()>().await;
    }
}

/// The part of a handle that works without the supervisor's task.
pub(crate) struct Control {
    pub(crate) demand: watch::Sender<Demand>,
    pub(crate) completion: Arc<Completion>,
}

impl Control {
    /// Raises the demand to `level`.
    pub(crate) fn raise(&self, level: Demand) {
        self.demand.send_if_modified(|now| {
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
    live: RwLock<HashMap<ChildId, Leash>>,
    pub(crate) family: Arc<Family<TreeMessage>>,
}

impl Published {
    pub(crate) fn new(family: Arc<Family<TreeMessage>>) -> Self {
        Published { live: RwLock::default(), family }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<ChildId, Leash>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, id: ChildId, child: Leash) {
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
    pub(crate) fn untold(&self, id: Option<&ChildId>) -> Vec<Arc<Completion>> {
        match id {
            Some(id) => self.read().get(id).and_then(Leash::untold).into_iter().collect(),
            None if self.family.doubts.any() => self.read().values().filter_map(Leash::untold).collect(),
            None => Vec::new(),
        }
    }
}
