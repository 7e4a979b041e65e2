//! When a child is gone for good: a token that the child holds and a signal that others wait on.
//!
//! An actor runtime reports the end of an actor before its state is dropped, and the end of a
//! parent while its children still run. Here the end of a child is the drop of its last [`Token`],
//! which lives beside its state and, for a supervisor, in every child as well.

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
use crate::{Clock, places};

/// What is known about the end of one start of a child.
pub(crate) struct Completion {
    exit: OnceLock<Exit>,
    causes: OnceLock<Vec<Cause>>,
    asked: AtomicBool,
    ending: AtomicBool,
    /// Counted in the doubts of its supervisor.
    doubted: AtomicBool,
    gone: AtomicBool,
    changed: Notify,
    /// How many tokens there are.
    tokens: AtomicU64,
    report: Report,
    /// Keeps its supervisor from being gone.
    holds: AtomicBool,
}

impl Completion {
    /// Records how the child ended; the first record wins.
    pub(crate) fn record(&self, exit: Exit) {
        // A later cause is a consequence of the first one.
        let _ = self.exit.set(exit);
    }

    /// Records the chain of failures behind the exit, deepest first.
    pub(crate) fn record_causes(&self, causes: Vec<Cause>) {
        let _ = self.causes.set(causes);
    }

    /// How the child ended, if it said so.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.exit.get()
    }

    /// The chain of failures behind the exit, deepest first.
    pub(crate) fn causes(&self) -> &[Cause] {
        self.causes.get().map_or(&[], Vec::as_slice)
    }

    /// Marks that the supervisor wants the child to stop.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether the supervisor wants the child to stop.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Notes that the child may from here on be seen to have stopped before its state is dropped.
    pub(crate) fn doubt(&self) {
        // Only one at a time notes this: the child's task, and at last who drops the last token.
        if let Report::Parent { to, .. } = &self.report
            && !self.doubted.load(Ordering::Relaxed)
        {
            self.doubted.store(true, Ordering::Relaxed);
            to.doubts().0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that there is no doubt: the child has not ended, or its supervisor is told.
    pub(crate) fn trust(&self) {
        if let Report::Parent { to, .. } = &self.report
            && self.doubted.load(Ordering::Relaxed)
        {
            self.doubted.store(false, Ordering::Relaxed);
            to.doubts().0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Notes that the child ends: its hooks are over, and its state is dropped next.
    pub(crate) fn end(&self) {
        self.doubt();
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether the child ends or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Whether nothing of the child is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Completes once nothing of the child is left, its state included.
    pub(crate) async fn gone(&self) {
        self.until(|| self.is_gone()).await;
    }

    /// Completes once the supervisor wants the child to stop.
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

    /// Lets the supervisor end although this child cannot be killed.
    pub(crate) fn disown(&self) {
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

    /// Counts a further token; `false` if there is none any more.
    fn hold(&self) -> bool {
        let more = |count: u64| (count > 0).then_some(count + 1);
        self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts a token less.
    fn release(&self) {
        if self.tokens.fetch_sub(1, Ordering::Release) == 1 {
            // What the other holders did before they let go happens before the end.
            fence(Ordering::Acquire);
            self.finish();
        }
    }

    /// The last token is dropped.
    fn finish(&self) {
        if let Report::Parent { to, birth, .. } = &self.report {
            to.tell(*birth);
        }
        self.trust();
        // Who sees that the child is gone may rely on its supervisor having been told.
        self.gone.store(true, Ordering::Release);
        self.changed.notify_waiters();
        self.disown();
    }
}

/// Whom to tell when a child is gone.
pub(crate) enum Report {
    /// Nobody: the child is a root, and those who care wait on the completion.
    Root,
    /// Its supervisor or pool.
    Parent { to: Parent, birth: u64 },
}

/// What the children of one supervisor or pool share: where their ends are told, and whom they keep from being gone.
pub(crate) struct Family<M> {
    pub(crate) mailbox: UnboundedSender<M>,
    pub(crate) doubts: Doubts,
    /// The supervisor's own end; not a token, so that a handle does not keep it from being gone.
    pub(crate) completion: Arc<Completion>,
}

impl<M> Family<M> {
    pub(crate) fn new(mailbox: UnboundedSender<M>, token: &Token) -> Arc<Self> {
        Arc::new(Family { mailbox, doubts: Doubts::default(), completion: token.completion().clone() })
    }
}

/// Where the end of a child is told.
pub(crate) enum Parent {
    /// To a supervisor, which keeps it at this place.
    Tree(Arc<Family<TreeMessage>>, Place),
    /// To a pool, which keeps it at this place.
    Pool(Arc<Family<PoolMessage>>, places::Place),
}

impl Parent {
    /// Tells of an end. One that is gone already does not need to hear.
    fn tell(&self, birth: u64) {
        match self {
            Parent::Tree(to, place) => drop(to.mailbox.send(TreeMessage::Exited { place: *place, birth })),
            Parent::Pool(to, place) => drop(to.mailbox.send(PoolMessage::Exited { place: *place, birth })),
        }
    }

    fn doubts(&self) -> &Doubts {
        match self {
            Parent::Tree(family, _) => &family.doubts,
            Parent::Pool(family, _) => &family.doubts,
        }
    }

    fn completion(&self) -> &Completion {
        match self {
            Parent::Tree(family, _) => &family.completion,
            Parent::Pool(family, _) => &family.completion,
        }
    }
}

/// How many actors of one supervisor may have ended without its being told: those whose start or stop hook runs, and
/// those that end.
///
/// An actor is seen to have stopped before its state is dropped, so there may be calls about it before its supervisor hears
/// of its end: they are answered when it has. While nothing is in doubt, nobody looks for such ends.
#[derive(Default)]
pub(crate) struct Doubts(AtomicU64);

impl Doubts {
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Waits until the supervisor is told of all `ends`, but not for ever: others may keep the state of an actor that has ended.
pub(crate) async fn told(ends: &[Arc<Completion>], clock: &dyn Clock) {
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

/// Held by everything that belongs to one start of a child; the drop of the last is the child's end.
pub(crate) struct Token(Arc<Completion>);

impl Token {
    /// The first token of a root.
    pub(crate) fn root() -> Token {
        Token::first(Report::Root)
    }

    /// The first token of the start `birth` of a child; `None` if its supervisor is gone.
    pub(crate) fn child(to: Parent, birth: u64) -> Option<Token> {
        to.completion().hold().then(|| Token::first(Report::Parent { to, birth }))
    }

    fn first(report: Report) -> Token {
        Token(Arc::new(Completion {
            exit: OnceLock::new(),
            causes: OnceLock::new(),
            asked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            changed: Notify::new(),
            tokens: AtomicU64::new(1),
            holds: AtomicBool::new(matches!(report, Report::Parent { .. })),
            report,
        }))
    }

    /// What is known about the end of this child.
    pub(crate) fn completion(&self) -> &Arc<Completion> {
        &self.0
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        // There is one already, so the count cannot reach zero meanwhile.
        self.0.tokens.fetch_add(1, Ordering::Relaxed);
        Token(self.0.clone())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.release();
    }
}
