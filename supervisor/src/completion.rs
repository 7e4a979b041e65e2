//! The end of a child: a token for the child, and a signal for others.
//!
//! An actor runtime reports an actor's end before the state is dropped, and a parent's end while children still run.
//! Here a child has ended when the last [`Token`] is dropped; tokens live beside the child's state and, for a
//! supervisor, in every child.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::child::KILL_GRACE;
use crate::clock::pass;
use crate::exit::{Cause, Exit};
use crate::pool_task::PoolMessage;
use crate::strategy::Place;
use crate::tree::TreeMessage;
use crate::{Clock, child_slab};

pub(crate) struct Completion {
    exit: OnceLock<Exit>,
    causes: OnceLock<Vec<Cause>>,
    asked: AtomicBool,
    ending: AtomicBool,
    counted_unnoticed: AtomicBool,
    gone: AtomicBool,
    changed: Notify,
    tokens: AtomicU64,
    report: Report,
    holds: AtomicBool,
}

impl Completion {
    /// Records the exit; the first record wins.
    pub(crate) fn record(&self, exit: Exit) {
        // A later cause is a consequence of the first.
        let _ = self.exit.set(exit);
    }

    pub(crate) fn record_causes(&self, causes: Vec<Cause>) {
        let _ = self.causes.set(causes);
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.exit.get()
    }

    pub(crate) fn causes(&self) -> &[Cause] {
        self.causes.get().map_or(&[], Vec::as_slice)
    }

    /// Notes that the supervisor has asked the child to stop.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// True if the supervisor has asked the child to stop.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Notes that the child may look stopped before its state is dropped.
    pub(crate) fn mark_unnoticed(&self) {
        // One caller at a time: the child's task, and at last the one that drops the last token.
        if let Report::Parent { to, .. } = &self.report
            && !self.counted_unnoticed.load(Ordering::Relaxed)
        {
            self.counted_unnoticed.store(true, Ordering::Relaxed);
            to.unnoticed_ends().0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes the doubt: the child has not ended, or its supervisor knows.
    pub(crate) fn clear_unnoticed(&self) {
        if let Report::Parent { to, .. } = &self.report
            && self.counted_unnoticed.load(Ordering::Relaxed)
        {
            self.counted_unnoticed.store(false, Ordering::Relaxed);
            to.unnoticed_ends().0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Notes that the hooks are over, and the state is dropped next.
    pub(crate) fn end(&self) {
        self.mark_unnoticed();
        self.ending.store(true, Ordering::Relaxed);
    }

    /// True if the child is ending or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// True if nothing of the child is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Completes once nothing of the child is left, its state included.
    pub(crate) async fn gone(&self) {
        self.until(|| self.is_gone()).await;
    }

    /// Completes once the supervisor has asked the child to stop.
    pub(crate) async fn when_asked(&self) {
        self.until(|| self.asked()).await;
    }

    async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if reached() {
                return;
            }
            changed.await;
        }
    }

    /// Lets the supervisor end although the child cannot be killed.
    pub(crate) fn abandon(&self) {
        if let Report::Parent { to, .. } = &self.report
            && self.holds.swap(false, Ordering::AcqRel)
        {
            to.completion().release();
        }
    }

    /// A further token, unless the child is gone.
    pub(crate) fn token(self: &Arc<Self>) -> Option<Token> {
        self.hold().then(|| Token(self.clone()))
    }

    /// Adds a token; `false` if the child is gone.
    fn hold(&self) -> bool {
        let more = |count: u64| (count > 0).then_some(count + 1);
        self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self) {
        if self.tokens.fetch_sub(1, Ordering::Release) == 1 {
            // The work of the other holders happens before the end.
            fence(Ordering::Acquire);
            self.finish();
        }
    }

    fn finish(&self) {
        if let Report::Parent { to, incarnation, .. } = &self.report {
            to.tell(*incarnation);
        }
        self.clear_unnoticed();
        // A caller that sees the child gone may rely on the earlier report to its supervisor.
        self.gone.store(true, Ordering::Release);
        self.changed.notify_waiters();
        self.abandon();
    }
}

pub(crate) enum Report {
    /// None: the child is a root, and callers wait on the completion.
    Root,
    /// The supervisor or pool.
    Parent { to: Parent, incarnation: u64 },
}

/// State shared by the children of one supervisor or pool: the receiver of their ends, and the parent they keep alive.
pub(crate) struct ParentLink<M> {
    pub(crate) mailbox: UnboundedSender<M>,
    pub(crate) unnoticed_ends: UnnoticedEnds,
    /// The parent's own completion; not a token, so that a handle does not keep the parent alive.
    pub(crate) completion: Arc<Completion>,
}

impl<M> ParentLink<M> {
    pub(crate) fn new(mailbox: UnboundedSender<M>, token: &Token) -> Arc<Self> {
        Arc::new(ParentLink {
            mailbox,
            unnoticed_ends: UnnoticedEnds::default(),
            completion: token.completion().clone(),
        })
    }
}

pub(crate) enum Parent {
    /// A supervisor, and the child's place in it.
    Tree(Arc<ParentLink<TreeMessage>>, Place),
    /// A pool, and the child's slot in it.
    Pool(Arc<ParentLink<PoolMessage>>, child_slab::Slot),
}

impl Parent {
    /// Reports an end. A parent that is gone needs no report.
    fn tell(&self, incarnation: u64) {
        match self {
            Parent::Tree(to, place) => {
                drop(to.mailbox.send(TreeMessage::Exited { place: *place, incarnation }))
            }
            Parent::Pool(to, slot) => drop(to.mailbox.send(PoolMessage::Exited { slot: *slot, incarnation })),
        }
    }

    fn unnoticed_ends(&self) -> &UnnoticedEnds {
        match self {
            Parent::Tree(parent_link, _) => &parent_link.unnoticed_ends,
            Parent::Pool(parent_link, _) => &parent_link.unnoticed_ends,
        }
    }

    fn completion(&self) -> &Completion {
        match self {
            Parent::Tree(parent_link, _) => &parent_link.completion,
            Parent::Pool(parent_link, _) => &parent_link.completion,
        }
    }
}

/// Number of a supervisor's actors that may have ended unnoticed: in a start or stop hook, or ending.
///
/// An actor looks stopped before its state is dropped, so calls may arrive before the supervisor knows of the end; such
/// calls wait. Without doubts, no call looks for ends.
#[derive(Default)]
pub(crate) struct UnnoticedEnds(AtomicU64);

impl UnnoticedEnds {
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Waits until the supervisor knows of all `ends`, within a limit: others may hold the state of an ended actor.
pub(crate) async fn wait_handled(ends: &[Arc<Completion>], clock: &dyn Clock) {
    let all = async {
        for end in ends {
            end.gone().await;
        }
    };
    tokio::select! {
        biased;
        () = all => {}
        () = pass(clock, KILL_GRACE) => {}
    }
}

/// Held by everything that belongs to one start of a child; dropping the last is the child's end.
pub(crate) struct Token(Arc<Completion>);

impl Token {
    pub(crate) fn root() -> Token {
        Token::first(Report::Root)
    }

    /// The first token of start `incarnation` of a child; `None` if its supervisor is gone.
    pub(crate) fn child(to: Parent, incarnation: u64) -> Option<Token> {
        to.completion().hold().then(|| Token::first(Report::Parent { to, incarnation }))
    }

    fn first(report: Report) -> Token {
        Token(Arc::new(Completion {
            exit: OnceLock::new(),
            causes: OnceLock::new(),
            asked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            counted_unnoticed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            changed: Notify::new(),
            tokens: AtomicU64::new(1),
            holds: AtomicBool::new(matches!(report, Report::Parent { .. })),
            report,
        }))
    }

    pub(crate) fn completion(&self) -> &Arc<Completion> {
        &self.0
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        // One token exists, so the count cannot reach zero meanwhile.
        self.0.tokens.fetch_add(1, Ordering::Relaxed);
        Token(self.0.clone())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.release();
    }
}
