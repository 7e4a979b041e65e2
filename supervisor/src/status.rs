//! What a supervisor tells about its children.

use futures::future::{BoxFuture, join_all};

use crate::{ChildId, ChildRef, Exit, Kind, Restart};

/// Whether a child runs.
#[derive(Debug, Clone)]
pub enum ChildState {
    /// Its spec is kept, nothing runs.
    Down,
    /// It is being started for the first time (pools only).
    Starting,
    /// It failed to come up again; another try is due or running.
    Restarting,
    /// It runs.
    Running(ChildRef),
    /// It was asked to stop and is not gone yet (pools only).
    Stopping,
}

/// One child as listed by `which_children`.
#[derive(Debug, Clone)]
pub struct ChildStatus {
    /// Its id.
    pub id: ChildId,
    /// Whether it runs.
    pub state: ChildState,
    /// What it is.
    pub kind: Kind,
    /// When it is restarted.
    pub restart: Restart,
    /// How many times it was started, failed attempts included.
    pub generation: u64,
    /// How many times its supervisor has brought it up again.
    pub restarts: u64,
    /// How it ended last, if it did.
    pub last_exit: Option<Exit>,
}

/// A child and what is below it.
#[derive(Debug, Clone)]
pub struct Branch {
    /// The child.
    pub child: ChildStatus,
    /// How many children it has.
    pub width: usize,
    /// The children, or the first of them.
    pub branches: Vec<Branch>,
}

/// What is below `children`; at most `most` of each supervisor and pool. One that ends meanwhile has none.
pub(crate) fn grow(children: Vec<ChildStatus>, most: usize) -> BoxFuture<'static, Vec<Branch>> {
    Box::pin(join_all(children.into_iter().map(move |child| async move {
        let mut below = match &child.state {
            ChildState::Running(ChildRef::Supervisor(supervisor)) => supervisor.which_children().await,
            ChildState::Running(ChildRef::Pool(pool)) => pool.which_children().await,
            ChildState::Running(ChildRef::Actor(_))
            | ChildState::Down
            | ChildState::Starting
            | ChildState::Restarting
            | ChildState::Stopping => Vec::new(),
        };
        let width = below.len();
        below.truncate(most);
        Branch { child, width, branches: grow(below, most).await }
    })))
}

/// How many children there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All that are known, running or not.
    pub specs: u32,
    /// Those that run.
    pub active: u32,
    /// Those that are supervisors or pools, running or not.
    pub supervisors: u32,
    /// Those that are workers, running or not.
    pub workers: u32,
}

impl Counts {
    /// Counts one more child.
    pub(crate) fn add(&mut self, kind: Kind, active: bool) {
        self.specs += 1;
        self.active += u32::from(active);
        match kind {
            Kind::Supervisor => self.supervisors += 1,
            Kind::Worker => self.workers += 1,
        }
    }
}
