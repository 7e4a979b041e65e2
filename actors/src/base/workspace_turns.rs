//! Turns of calls that may change the files of a workspace: a lock that is shared, or held alone.
//!
//! Calls that may write share a turn. A program call that was approved has one alone, from the last look at the files that it names to
//! its end: a step that writes meanwhile could exchange them between the look and the start, or before the test of the call.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_kernel::id::Digest;
use ostler_kernel::lineage;
use ostler_kernel::port::WorkspaceWrites;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::base::keys::AttemptKey;
use crate::base::lock::lock;

/// Longest wait of an approved call for calls that write: its approver expects it to begin.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Files and folders that programs of calls in a workspace may read besides, without links.
pub(crate) type Beside = Box<dyn Fn(&Path) -> Vec<PathBuf> + Send + Sync>;

/// The turns of all workspaces of the process.
pub(crate) struct WorkspaceTurns {
    turns: Mutex<Turns>,
    changed: Notify,
    /// Counts the calls that may have written.
    writes: Arc<dyn WorkspaceWrites>,
    /// Calls write in folders besides their workspace, so that all workspaces count as one.
    is_one: bool,
    beside: Beside,
}

#[derive(Debug, Default)]
struct Turns {
    last: u64,
    /// Turns that are held or waited for, in the order in which they were wanted.
    wanted: Vec<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    number: u64,
    /// Folder in which the call may write.
    writes: Arc<Path>,
    /// Folders that a call with a turn alone may read, and in which no other call may write meanwhile; none for a turn that others share.
    reads: Vec<PathBuf>,
    held: bool,
    call: AttemptKey,
}

impl Wanted {
    fn is_alone(&self) -> bool {
        !self.reads.is_empty()
    }

    /// True if the call may read what is written in a folder: one lies in the other.
    fn may_read(&self, written: &Path) -> bool {
        self.reads.iter().any(|read| read.starts_with(written) || written.starts_with(read))
    }

    /// True for turns of which one is alone and the other one could change what its call reads.
    fn excludes(&self, other: &Wanted) -> bool {
        self.may_read(&other.writes) || other.may_read(&self.writes)
    }

    /// True for another turn alone that comes before this one.
    fn is_ahead_of(&self, other: &Wanted) -> bool {
        self.number != other.number
            && self.is_alone()
            && (self.held || self.number < other.number)
            && self.excludes(other)
    }
}

/// A turn, until it is dropped.
pub(crate) struct Turn {
    turns: Arc<WorkspaceTurns>,
    number: u64,
    alone: bool,
    counts: bool,
}

impl Turn {
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Holds the turn, if no other one is in its way. Returns whether it is held.
    fn hold(&mut self) -> bool {
        let is_held = lock(&self.turns.turns).hold(self.number);
        if is_held && !self.alone {
            self.count();
        }
        is_held
    }

    /// Counts the call as one that writes. Turns that others share count from the beginning.
    pub(crate) fn count(&mut self) {
        let turns = lock(&self.turns.turns);
        if !std::mem::replace(&mut self.counts, true) {
            self.turns.writes.begin(&turns.wanted[turns.position(self.number)].writes);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = lock(&self.turns.turns);
        let at = turns.position(self.number);
        let Wanted { writes, .. } = turns.wanted.remove(at);
        if self.counts {
            // Before the next turn alone is held: its call looks at the count.
            self.turns.writes.end(&writes);
        }
        drop(turns);
        self.turns.changed.notify_waiters();
    }
}

impl WorkspaceTurns {
    /// `is_one`: calls write in folders besides their workspace.
    pub(crate) fn new(is_one: bool, beside: Beside, writes: Arc<dyn WorkspaceWrites>) -> WorkspaceTurns {
        WorkspaceTurns { turns: Mutex::default(), changed: Notify::new(), writes, is_one, beside }
    }

    /// A digest that is another one once a call has ended that may have written what a program in the workspace may read. Blocks as looks
    /// at folders do.
    pub(crate) fn written(&self, workspace: &Arc<Path>) -> Digest {
        let reads = self.reads(workspace);
        let counts: Vec<[u8; 8]> =
            reads.iter().map(|read| self.writes.ended_in(read).to_le_bytes()).collect();
        let parts =
            reads.iter().zip(&counts).flat_map(|(read, count)| [read.as_os_str().as_bytes(), &count[..]]);
        lineage::hash("ostler.written.1", &parts.collect::<Vec<&[u8]>>())
    }

    /// Waits for a turn alone. Another turn alone is waited for as long as it takes. Dropping the future gives the wait up.
    ///
    /// # Errors
    ///
    /// Another call has written for [`WAIT_MAX`].
    pub(crate) async fn alone(
        self: &Arc<WorkspaceTurns>,
        workspace: &Arc<Path>,
        call: &AttemptKey,
    ) -> Result<Turn, AttemptKey> {
        let mut turn = self.want(workspace, call, self.reads(workspace));
        while timeout(WAIT_MAX, self.wait(&mut turn)).await.is_err() {
            if let Some(writer) = lock(&self.turns).writer_before(turn.number) {
                return Err(writer);
            }
        }
        Ok(turn)
    }

    /// A turn alone, if there is one now.
    pub(crate) fn try_alone(
        self: &Arc<WorkspaceTurns>,
        workspace: &Arc<Path>,
        call: &AttemptKey,
    ) -> Option<Turn> {
        let mut turn = self.want(workspace, call, self.reads(workspace));
        turn.hold().then_some(turn)
    }

    /// A turn that others share, if there is one now. A turn alone that is waited for comes first.
    pub(crate) fn try_shared(
        self: &Arc<WorkspaceTurns>,
        workspace: &Arc<Path>,
        call: &AttemptKey,
    ) -> Option<Turn> {
        let mut turn = self.want(workspace, call, Vec::new());
        turn.hold().then_some(turn)
    }

    /// Waits for a turn that others share, behind turns alone that were wanted before. Dropping the future gives the wait up.
    pub(crate) async fn shared(self: &Arc<WorkspaceTurns>, workspace: &Arc<Path>, call: &AttemptKey) -> Turn {
        let mut turn = self.want(workspace, call, Vec::new());
        self.wait(&mut turn).await;
        turn
    }

    /// A new turn, which is not held. Without `reads`, others share it.
    fn want(
        self: &Arc<WorkspaceTurns>,
        workspace: &Arc<Path>,
        call: &AttemptKey,
        reads: Vec<PathBuf>,
    ) -> Turn {
        let (alone, writes) = (!reads.is_empty(), self.of(workspace));
        let mut turns = lock(&self.turns);
        turns.last += 1;
        let number = turns.last;
        turns.wanted.push(Wanted { number, writes, reads, held: false, call: call.clone() });
        Turn { turns: Arc::clone(self), number, alone, counts: false }
    }

    fn of(&self, workspace: &Arc<Path>) -> Arc<Path> {
        if self.is_one { Path::new("/").into() } else { Arc::clone(workspace) }
    }

    /// Files and folders that a program in a workspace may read, without links.
    fn reads(&self, workspace: &Arc<Path>) -> Vec<PathBuf> {
        let mut reads = (self.beside)(workspace);
        reads.push(self.of(workspace).to_path_buf());
        reads.sort();
        reads.dedup();
        reads
    }

    async fn wait(&self, turn: &mut Turn) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if turn.hold() {
                return;
            }
            changed.await;
        }
    }
}

impl Turns {
    /// The call with a held turn for which a turn alone waits, unless another turn alone comes first.
    fn writer_before(&self, number: u64) -> Option<AttemptKey> {
        let own = self.wanted.iter().find(|wanted| wanted.number == number)?;
        if self.wanted.iter().any(|other| other.is_ahead_of(own)) {
            return None;
        }
        // A shared turn that is not held waits for a turn alone itself.
        let mut writers = self.wanted.iter().filter(|other| other.held && other.excludes(own));
        writers.next().map(|writer| writer.call.clone())
    }

    fn position(&self, number: u64) -> usize {
        let position = self.wanted.iter().position(|wanted| wanted.number == number);
        position.expect("a turn is wanted until it is dropped")
    }

    /// Holds a turn, unless a held or earlier one excludes it. Returns whether it is held.
    fn hold(&mut self, number: u64) -> bool {
        let at = self.position(number);
        let own = &self.wanted[at];
        let is_free = !self.wanted.iter().any(|other| {
            other.number != number && (other.held || other.number < number) && other.excludes(own)
        });
        self.wanted[at].held |= is_free;
        self.wanted[at].held
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use ostler_kernel::id::RunId;
    use ostler_store::WriteCounts;

    use super::*;

    fn turns() -> WorkspaceTurns {
        WorkspaceTurns::new(false, Box::new(|_| Vec::new()), Arc::new(WriteCounts::default()))
    }

    fn workspace(path: &str) -> Arc<Path> {
        Path::new(path).into()
    }

    fn call(node: &str) -> AttemptKey {
        AttemptKey { run: RunId(uuid::Uuid::from_u128(1)), node: node.into(), attempt: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_alone_excludes_all_others_of_the_workspace() {
        let (turns, here) = (Arc::new(turns()), workspace("/w"));
        let first = turns.try_shared(&here, &call("a")).expect("nobody is alone");
        let second = turns.try_shared(&workspace("/w/sub"), &call("b")).expect("a turn is shared");
        assert!(turns.try_alone(&here, &call("c")).is_none());
        let elsewhere = turns.try_alone(&workspace("/w2"), &call("d")).expect("another workspace");
        let c = call("c");
        let mut alone = Box::pin(turns.alone(&here, &c));
        assert!(alone.as_mut().now_or_never().is_none(), "two others write");
        // A later call waits, so that others do not write for ever.
        let g = call("g");
        let mut third = Box::pin(turns.shared(&here, &g));
        assert!(third.as_mut().now_or_never().is_none());
        drop((first, second));
        let held = alone.now_or_never().expect("nobody else writes").unwrap();
        assert!(third.as_mut().now_or_never().is_none() && turns.try_shared(&here, &call("e")).is_none());
        assert!(turns.try_alone(&workspace("/w/sub/deep"), &call("f")).is_none());
        // A turn alone that comes later waits for the one that others share.
        let h = call("h");
        let mut later = Box::pin(turns.alone(&here, &h));
        assert!(later.as_mut().now_or_never().is_none());
        drop((held, elsewhere));
        assert!(later.as_mut().now_or_never().is_none());
        let third = third.now_or_never().expect("its turn has come");
        assert!(later.as_mut().now_or_never().is_none() && turns.try_shared(&here, &call("e")).is_none());
        drop(third);
        assert!(later.now_or_never().is_some_and(|came| came.is_ok()));
        assert!(turns.try_shared(&here, &call("e")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_alone_is_waited_for_up_to_the_limit_and_in_order() {
        let (turns, here) = (Arc::new(turns()), workspace("/w"));
        let writing = turns.try_shared(&here, &call("writer")).expect("nobody is alone");
        let told = turns.alone(&here, &call("a")).await.err();
        assert_eq!(told, Some(call("writer")), "the clock is past the limit");
        let [b, c] = ["b", "c"].map(call);
        let mut first = Box::pin(turns.alone(&here, &b));
        let mut second = Box::pin(turns.alone(&here, &c));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(writing);
        assert!(second.as_mut().now_or_never().is_none(), "the other one came first");
        let held = first.now_or_never().expect("its turn has come").unwrap();
        assert!(timeout(10 * WAIT_MAX, second.as_mut()).await.is_err(), "a turn alone may take long");
        drop(held);
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_waits_itself_is_no_writer() {
        let turns = Arc::new(turns());
        let alone = turns.try_alone(&workspace("/w/a"), &call("a")).expect("nobody writes");
        let ([around, beside], [s, b]) = ([workspace("/w"), workspace("/w/b")], ["s", "b"].map(call));
        let mut shared = Box::pin(turns.shared(&around, &s));
        assert!(shared.as_mut().now_or_never().is_none());
        let mut later = Box::pin(turns.alone(&beside, &b));
        assert!(timeout(10 * WAIT_MAX, later.as_mut()).await.is_err(), "a turn alone may take long");
        drop(alone);
        drop(shared.now_or_never().expect("its turn has come"));
        assert!(later.now_or_never().is_some_and(|came| came.is_ok()));
    }

    #[tokio::test]
    async fn where_calls_write_besides_their_workspace_all_are_one() {
        let turns =
            Arc::new(WorkspaceTurns::new(true, Box::new(|_| Vec::new()), Arc::new(WriteCounts::default())));
        let _writing = turns.try_shared(&workspace("/a"), &call("a")).expect("nobody is alone");
        assert!(turns.try_alone(&workspace("/b"), &call("b")).is_none());
    }

    #[tokio::test]
    async fn what_writes_where_calls_of_other_workspaces_read_counts_for_all() {
        let shown = |workspace: &Path| {
            let repository = (workspace == Path::new("/tree")).then_some("/main/.git");
            ["/projects", "/home/bin"].into_iter().chain(repository).map(PathBuf::from).collect()
        };
        let turns = Arc::new(WorkspaceTurns::new(false, Box::new(shown), Arc::new(WriteCounts::default())));
        for (writer, reader, expected) in [
            ("/projects/b", "/projects/a", false),
            ("/projects/b", "/a", false),
            ("/projects", "/a", false),
            ("/home", "/a", false),
            ("/b", "/a", true),
            ("/main", "/tree", false),
            ("/main", "/a", true),
        ] {
            let before = turns.written(&workspace(reader));
            let writing = turns.try_shared(&workspace(writer), &call("a")).expect("nobody is alone");
            assert_eq!(turns.try_alone(&workspace(reader), &call("b")).is_some(), expected, "{writer}");
            drop(writing);
            assert_eq!(turns.written(&workspace(reader)) == before, expected, "{writer}");
            let alone = turns.try_alone(&workspace(reader), &call("b")).expect("nobody writes");
            assert_eq!(turns.try_shared(&workspace(writer), &call("a")).is_some(), expected, "{writer}");
            drop(alone);
        }
    }

    #[tokio::test]
    async fn a_shared_turn_counts_as_a_write_at_its_end_and_a_turn_alone_if_it_is_told_to() {
        let (turns, here) = (Arc::new(turns()), workspace("/w"));
        let at_first = turns.written(&here);
        let mut alone = turns.try_alone(&here, &call("a")).expect("nobody writes");
        alone.count();
        drop(alone);
        let before = turns.written(&here);
        assert_ne!(before, at_first);
        drop(turns.try_alone(&here, &call("a")).expect("nobody writes"));
        let writing = turns.try_shared(&here, &call("b")).expect("nobody is alone");
        assert!(turns.try_alone(&here, &call("c")).is_none());
        assert_eq!(turns.written(&here), before);
        drop(writing);
        assert_ne!(turns.written(&here), before);
        let elsewhere = turns.written(&workspace("/w2"));
        drop(turns.try_shared(&here, &call("d")));
        assert_eq!(turns.written(&workspace("/w2")), elsewhere);
    }
}
