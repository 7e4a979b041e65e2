//! The turn of an attempt among the calls that may write in its workspace.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::port::WorkspaceTurn;

use super::AttemptJournal;
use crate::base::attempt_end::structural;
use crate::base::keys::AttemptKey;
use crate::base::lock::lock;
use crate::base::workspace_turns::Turn;

/// A wait for a child run, until dropped.
pub(crate) struct ChildWait<'a>(&'a AttemptJournal);

impl Drop for ChildWait<'_> {
    fn drop(&mut self) {
        lock(&self.0.turn).waits -= 1;
    }
}

/// The turn of a call that may write, until dropped.
pub(crate) struct CallTurn<'a>(&'a AttemptJournal);

impl Drop for CallTurn<'_> {
    fn drop(&mut self) {
        let mut turn = lock(&self.0.turn);
        (turn.is_wanted, turn.is_alone, turn.was_alone) = (false, false, false);
        let held = turn.held.take();
        drop(turn);
        drop(held);
    }
}

impl WorkspaceTurn for AttemptJournal {
    fn hold(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        lock(&self.turn).held.clone().map(|turn| -> Arc<dyn Any + Send + Sync> { turn })
    }
}

impl AttemptJournal {
    /// Waits for a turn of a test, which may write. Meanwhile the attempt has no slot, and its clock stands still. Dropping the future
    /// takes no turn.
    pub(crate) async fn begin_test_turn(&self) -> CallTurn<'_> {
        lock(&self.turn).is_wanted = true;
        let turn = CallTurn(self);
        self.take_turn().await;
        turn
    }

    /// Begins with a turn; `is_alone`: that of an approved call. `writes`: the call may write by itself, also after child runs.
    pub(crate) fn hold_turn(&self, begun: Turn, writes: bool, is_alone: bool) -> CallTurn<'_> {
        let mut turn = lock(&self.turn);
        (turn.held, turn.is_wanted, turn.is_alone) = (Some(Arc::new(begun)), writes, is_alone);
        CallTurn(self)
    }

    /// Takes the turn alone again, if the call has given it back for a child run. Returns whether it has: others may have written
    /// meanwhile. Dropping the future takes no turn.
    ///
    /// # Errors
    ///
    /// Another call has been writing for too long.
    pub(crate) async fn hold_alone_again(&self) -> Result<bool, Failure> {
        let shared = {
            let mut turn = lock(&self.turn);
            if !std::mem::take(&mut turn.was_alone) {
                return Ok(false);
            }
            turn.held.take()
        };
        drop(shared);
        let (turns, workspace, key) =
            (&self.executor.gatekeeper.turns, &self.site.caller.workspace, self.key());
        let came = self.without_slot(turns.alone(workspace, &key)).await;
        let mut alone = came.map_err(|AttemptKey { run, node, .. }| {
            // For good: the call was made, and a retry would make it again.
            structural(format!(
                "its test was not run: {node} of run {run} has been writing in the workspace for a minute; run the test as a node of its own"
            ))
        })?;
        alone.count();
        lock(&self.turn).held = Some(Arc::new(alone));
        self.reclaim().await;
        Ok(true)
    }

    /// The turn, for what the call starts.
    pub(crate) fn workspace_turn(self: &Arc<AttemptJournal>) -> Arc<dyn WorkspaceTurn> {
        Arc::<AttemptJournal>::clone(self)
    }

    /// Gives the turn back while a child run is waited for, which may write, or ask a person who takes a day.
    pub(crate) fn begin_child_wait(&self) -> ChildWait<'_> {
        let mut turn = lock(&self.turn);
        turn.waits += 1;
        turn.was_alone |= std::mem::take(&mut turn.is_alone);
        let held = turn.held.take();
        drop(turn);
        drop(held);
        ChildWait(self)
    }

    /// Takes a turn again before the call goes on, unless it waits for another child run. Other calls may write too from now on.
    pub(crate) async fn end_child_wait(&self, wait: ChildWait<'_>) {
        drop(wait);
        let is_due = {
            let turn = lock(&self.turn);
            turn.is_wanted && turn.waits == 0 && turn.held.is_none()
        };
        if is_due {
            self.take_turn().await;
        }
    }

    async fn take_turn(&self) {
        let (turns, workspace, key) =
            (&self.executor.gatekeeper.turns, &self.site.caller.workspace, self.key());
        let turn = match turns.try_shared(workspace, &key) {
            Some(turn) => turn,
            None => {
                let turn = self.without_slot(turns.shared(workspace, &key)).await;
                self.reclaim().await;
                turn
            }
        };
        let mut state = lock(&self.turn);
        // Another step may wait for a child run by now, or have taken a turn.
        let surplus = match state.waits == 0 && state.held.is_none() {
            true => {
                state.held = Some(Arc::new(turn));
                None
            }
            false => Some(turn),
        };
        drop(state);
        drop(surplus);
    }

    /// Waits for a turn. An attempt with a slot may be the one that is waited for, and want a second slot.
    async fn without_slot<T>(&self, turn: impl Future<Output = T>) -> T {
        let waits = self.waits_for_run("");
        let still = self.waited.begin();
        let came = self.lending(pin!(turn)).await;
        drop((still, waits));
        self.sign();
        came
    }
}
