//! Turns of calls that may change the files of a workspace: a lock that is shared, or held alone.
//!
//! Calls that may write share a turn. A program call that was approved has one alone, from the last look at the files that it names to
//! its end: a step that writes meanwhile could exchange them between the look and the start, or before the test of the call.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::base::lock::lock;

/// Longest wait of a call for a turn alone. The waiting call holds a slot, which a call that writes may need to go on.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The turns of all workspaces of the process.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceTurns {
    turns: Mutex<Turns>,
    changed: Notify,
    /// Calls write in folders besides their workspace, so that all workspaces count as one.
    is_one: bool,
}

#[derive(Debug, Default)]
struct Turns {
    last: u64,
    /// Turns that are held, and those alone that are waited for, in the order in which they were wanted.
    wanted: Vec<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    number: u64,
    workspace: Arc<Path>,
    alone: bool,
    held: bool,
}

impl Wanted {
    /// True for workspaces of which one is the other, or lies in it.
    fn overlaps(&self, workspace: &Path) -> bool {
        self.workspace.starts_with(workspace) || workspace.starts_with(&self.workspace)
    }

    /// True for another turn alone that comes before this one of the same workspace.
    fn is_ahead_of(&self, other: &Wanted) -> bool {
        self.number != other.number
            && self.alone
            && (self.held || self.number < other.number)
            && self.overlaps(&other.workspace)
    }
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<WorkspaceTurns>,
    number: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.turns.turns).wanted.retain(|wanted| wanted.number != self.number);
        self.turns.changed.notify_waiters();
    }
}

impl WorkspaceTurns {
    /// `is_one`: calls write in folders besides their workspace.
    pub(crate) fn new(is_one: bool) -> WorkspaceTurns {
        WorkspaceTurns { is_one, ..WorkspaceTurns::default() }
    }

    /// Waits for a turn that others share. One alone that is waited for comes first.
    pub(crate) async fn shared(self: &Arc<WorkspaceTurns>, workspace: &Arc<Path>) -> Turn {
        self.wait(|| self.take_shared(workspace)).await
    }

    /// Waits for a turn alone; `None`: others wrote for too long. Another turn alone is waited for as long as it takes: it needs nothing
    /// of this attempt.
    pub(crate) async fn alone(self: &Arc<WorkspaceTurns>, workspace: &Arc<Path>) -> Option<Turn> {
        let turn = self.want(workspace, true, false);
        let has_come = || lock(&self.turns).hold(turn.number).then_some(());
        while timeout(WAIT_MAX, self.wait(has_come)).await.is_err() {
            if !lock(&self.turns).follows_another(turn.number) {
                return None;
            }
        }
        Some(turn)
    }

    /// A turn alone, if there is one now.
    pub(crate) fn try_alone(self: &Arc<WorkspaceTurns>, workspace: &Arc<Path>) -> Option<Turn> {
        let turn = self.want(workspace, true, false);
        let is_held = lock(&self.turns).hold(turn.number);
        is_held.then_some(turn)
    }

    fn take_shared(self: &Arc<WorkspaceTurns>, workspace: &Arc<Path>) -> Option<Turn> {
        let workspace = &self.of(workspace);
        let is_free = !lock(&self.turns).wanted.iter().any(|it| it.alone && it.overlaps(workspace));
        is_free.then(|| self.want(workspace, false, true))
    }

    fn want(self: &Arc<WorkspaceTurns>, workspace: &Arc<Path>, alone: bool, held: bool) -> Turn {
        let mut turns = lock(&self.turns);
        turns.last += 1;
        let number = turns.last;
        turns.wanted.push(Wanted { number, workspace: self.of(workspace), alone, held });
        Turn { turns: Arc::clone(self), number }
    }

    fn of(&self, workspace: &Arc<Path>) -> Arc<Path> {
        if self.is_one { Path::new("/").into() } else { Arc::clone(workspace) }
    }

    async fn wait<T>(&self, mut come: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(came) = come() {
                return came;
            }
            changed.await;
        }
    }
}

impl Turns {
    /// True if a turn alone waits for another one.
    fn follows_another(&self, number: u64) -> bool {
        let own = self.wanted.iter().find(|wanted| wanted.number == number);
        own.is_some_and(|own| self.wanted.iter().any(|other| other.is_ahead_of(own)))
    }

    /// Holds a turn alone, if no other one is in its way. Returns whether it is held.
    fn hold(&mut self, number: u64) -> bool {
        let at = self
            .wanted
            .iter()
            .position(|wanted| wanted.number == number)
            .expect("a turn is wanted until it is dropped");
        let workspace = Arc::clone(&self.wanted[at].workspace);
        let is_free = !self.wanted.iter().any(|other| {
            other.number != number && (other.held || other.number < number) && other.overlaps(&workspace)
        });
        self.wanted[at].held |= is_free;
        self.wanted[at].held
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn workspace(path: &str) -> Arc<Path> {
        Path::new(path).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_alone_excludes_all_others_of_the_workspace() {
        let (turns, here) = (Arc::new(WorkspaceTurns::default()), workspace("/w"));
        let first = turns.shared(&here).now_or_never().expect("nobody is alone");
        let second = turns.shared(&workspace("/w/sub")).now_or_never().expect("it is shared");
        assert!(turns.try_alone(&here).is_none());
        let elsewhere = turns.try_alone(&workspace("/w2")).expect("another workspace");
        let mut alone = Box::pin(turns.alone(&here));
        assert!(alone.as_mut().now_or_never().is_none(), "two others write");
        // Whoever comes later waits, so that others do not write for ever.
        let mut third = Box::pin(turns.shared(&here));
        assert!(third.as_mut().now_or_never().is_none());
        drop((first, second));
        let held = alone.now_or_never().flatten().expect("nobody else writes");
        assert!(third.as_mut().now_or_never().is_none(), "one is alone");
        assert!(turns.try_alone(&workspace("/w/sub/deep")).is_none());
        drop((held, elsewhere));
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_alone_is_waited_for_up_to_the_limit_and_in_order() {
        let (turns, here) = (Arc::new(WorkspaceTurns::default()), workspace("/w"));
        let writing = turns.shared(&here).await;
        assert!(turns.alone(&here).await.is_none(), "the clock is past the limit");
        let mut first = Box::pin(turns.alone(&here));
        let mut second = Box::pin(turns.alone(&here));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(writing);
        assert!(second.as_mut().now_or_never().is_none(), "the other one came first");
        let held = first.now_or_never().flatten().expect("it is its turn");
        assert!(timeout(10 * WAIT_MAX, second.as_mut()).await.is_err(), "a turn alone may take long");
        drop(held);
        assert!(second.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn where_calls_write_besides_their_workspace_all_are_one() {
        let turns = Arc::new(WorkspaceTurns::new(true));
        let _writing = turns.shared(&workspace("/a")).await;
        assert!(turns.try_alone(&workspace("/b")).is_none());
    }
}
