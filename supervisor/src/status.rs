//! State of children, as a supervisor reports it.

use futures::future::{BoxFuture, join_all};

use crate::{ChildId, ChildRef, Exit, Kind, Restart};

/// State of a child.
#[derive(Debug, Clone)]
pub enum ChildState {
    /// The spec is kept, nothing runs.
    Down,
    /// Being started for the first time (pools only).
    Starting,
    /// A restart failed; another try is due or running.
    Restarting,
    /// Running.
    Running(ChildRef),
    /// Asked to stop, and not gone yet (pools only).
    Stopping,
}

/// A child, as listed by `which_children`.
#[derive(Debug, Clone)]
pub struct ChildStatus {
    /// The id.
    pub id: ChildId,
    /// The state.
    pub state: ChildState,
    /// The kind.
    pub kind: Kind,
    /// Restart type.
    pub restart: Restart,
    /// Number of starts, failed ones included.
    pub generation: u64,
    /// Number of restarts.
    pub restarts: u64,
    /// Last exit.
    pub last_exit: Option<Exit>,
}

/// A child with its children.
#[derive(Debug, Clone)]
pub struct Branch {
    /// The child.
    pub child: ChildStatus,
    /// Number of its children.
    pub width: usize,
    /// The children, or the first of them.
    pub branches: Vec<Branch>,
}

/// The branches of `children`, with at most `most` children of each supervisor and pool. A supervisor that ends
/// meanwhile has none.
pub(crate) fn grow(children: Vec<ChildStatus>, most: usize) -> BoxFuture<'static, Vec<Branch>> {
    Box::pin(join_all(children.into_iter().map(move |child| async move {
        let mut child_sink = match &child.state {
            ChildState::Running(ChildRef::Supervisor(supervisor)) => supervisor.which_children().await,
            ChildState::Running(ChildRef::Pool(pool)) => pool.which_children().await,
            ChildState::Running(ChildRef::Actor(_))
            | ChildState::Down
            | ChildState::Starting
            | ChildState::Restarting
            | ChildState::Stopping => Vec::new(),
        };
        let width = child_sink.len();
        child_sink.truncate(most);
        Branch { child, width, branches: grow(child_sink, most).await }
    })))
}

/// Numbers of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All specs, running or not.
    pub specs: u32,
    /// Running children.
    pub active: u32,
    /// Supervisors and pools, running or not.
    pub supervisors: u32,
    /// Workers, running or not.
    pub workers: u32,
}

impl Counts {
    pub(crate) fn add(&mut self, kind: Kind, active: bool) {
        self.specs += 1;
        self.active += u32::from(active);
        match kind {
            Kind::Supervisor => self.supervisors += 1,
            Kind::Worker => self.workers += 1,
        }
    }
}
