//! The turn of an attempt among the calls that may write in its workspace.

use std::pin::pin;

use super::AttemptJournal;
use crate::base::lock::lock;

/// An open question of a call, until dropped.
pub(super) struct OpenQuestion<'a>(&'a AttemptJournal);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        lock(&self.0.turn).questions -= 1;
    }
}

/// The turn of a call that may write, until dropped.
pub(crate) struct CallTurn<'a>(&'a AttemptJournal);

impl Drop for CallTurn<'_> {
    fn drop(&mut self) {
        let mut turn = lock(&self.0.turn);
        turn.is_wanted = false;
        let held = turn.held.take();
        drop(turn);
        drop(held);
    }
}

impl AttemptJournal {
    /// Waits for a turn of a call that may write. Meanwhile the attempt has no slot, and its clock stands still. Dropping the future
    /// takes no turn.
    pub(crate) async fn begin_turn(&self) -> CallTurn<'_> {
        lock(&self.turn).is_wanted = true;
        let turn = CallTurn(self);
        self.take_turn().await;
        turn
    }

    /// Gives the turn back while a person is asked, who may take a day.
    pub(super) fn open_question(&self) -> OpenQuestion<'_> {
        let mut turn = lock(&self.turn);
        turn.questions += 1;
        let held = turn.held.take();
        drop(turn);
        drop(held);
        OpenQuestion(self)
    }

    /// Takes the turn again before an answer reaches the call, unless another question is open.
    pub(super) async fn close_question(&self, question: OpenQuestion<'_>) {
        drop(question);
        let is_due = {
            let turn = lock(&self.turn);
            turn.is_wanted && turn.questions == 0 && turn.held.is_none()
        };
        if is_due {
            self.take_turn().await;
        }
    }

    async fn take_turn(&self) {
        let (turns, workspace, key) = (&self.executor.turns, &self.site.caller.workspace, self.key());
        loop {
            if let Some(turn) = turns.try_shared(workspace, &key) {
                lock(&self.turn).held = Some(turn);
                return;
            }
            // An attempt with a slot may be the one that is waited for, and want a second slot.
            let waits = self.waits_for_run("");
            let still = self.waited.begin();
            self.lending(pin!(turns.shared_is_free(workspace))).await;
            drop((still, waits));
            self.sign();
            self.reclaim().await;
        }
    }
}
