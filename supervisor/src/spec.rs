//! Specs of children, supervisors and pools, and their checks.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::mem::replace;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::Actor;

use crate::child::{ActorStart, ChildRef, PoolStart, Start, TreeStart};
use crate::observer::shielded;
use crate::{Clock, Intensity, SpecError, StableRef, SystemClock};

/// Longest child id in bytes.
pub const CHILD_ID_BYTES_MAX: usize = 256;
/// Largest number of children of one [`crate::Supervisor`], running or not.
pub const SUPERVISOR_CHILDREN_MAX: usize = 100_000;
/// Default largest number of children of a [`PoolSpec`].
pub const POOL_CHILDREN_DEFAULT: u32 = 1_000_000;
/// Default time for a worker to stop.
pub const SHUTDOWN_DEFAULT: Duration = Duration::from_secs(5);

/// Name of a child among its siblings. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildId(Arc<str>);

impl ChildId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ChildId {
    fn from(text: &str) -> Self {
        ChildId(text.into())
    }
}

impl From<String> for ChildId {
    fn from(text: String) -> Self {
        ChildId(text.into())
    }
}

impl From<&ChildId> for ChildId {
    fn from(id: &ChildId) -> Self {
        id.clone()
    }
}

impl AsRef<str> for ChildId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ChildId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for ChildId {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for ChildId {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Restart type: when a child that ended by itself is restarted (OTP's restart type).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Restart {
    /// Always.
    #[default]
    Permanent,
    /// Only after an abnormal exit; see [`crate::Exit::is_abnormal`].
    Transient,
    /// Never; the spec is forgotten at the end of the child.
    Temporary,
}

/// Shutdown of a child. A supervisor that is told to stop during a child's start gives the start as much time: a worker
/// may finish its start and is stopped then, a branch starts no more children and stops the running ones. A pool breaks
/// starts off at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Killed at once; the stop hook does not run.
    Brutal,
    /// Asked to stop, and killed after the long.
    Timeout(Duration),
    /// Asked to stop, without a limit.
    Infinity,
}

impl Shutdown {
    /// Time until the child is killed.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Shutdown::Brutal => Duration::ZERO,
            Shutdown::Timeout(limit) => limit,
            Shutdown::Infinity => Duration::MAX,
        }
    }
}

/// Which siblings are restarted together with a failed child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// None.
    #[default]
    OneForOne,
    /// All of them.
    OneForAll,
    /// The later ones.
    RestForOne,
}

/// True if the end of significant children ends their supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AutoShutdown {
    /// Never.
    #[default]
    Never,
    /// The first significant child to end for good ends it.
    AnySignificant,
    /// The last significant child to end for good ends it.
    AllSignificant,
}

/// Kind of a child: decides the default shutdown and the counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A leaf of the tree.
    Worker,
    /// A supervisor or a pool.
    Supervisor,
}

/// Called with each new reference of a child, before any later sibling starts.
pub(crate) type OnStart = Captured<dyn Fn(&ChildRef) + Send + Sync>;

/// Code of the embedding program in a spec. A panic during the drop is logged, and affects no other child.
pub(crate) struct Captured<T: ?Sized>(Option<Arc<T>>);

impl<T: ?Sized> Captured<T> {
    fn new(given: Arc<T>) -> Self {
        Captured(Some(given))
    }
}

impl<T: ?Sized> Deref for Captured<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl<T: ?Sized> Clone for Captured<T> {
    fn clone(&self) -> Self {
        Captured(self.0.clone())
    }
}

impl<T: ?Sized> Drop for Captured<T> {
    fn drop(&mut self) {
        shielded("drop of a spec", || drop(self.0.take()));
    }
}

/// Spec of a child: how to start, stop and restart it. Cheap to clone.
///
/// ```
/// # use ostler_supervisor::{ChildSpec, Restart};
/// # struct Counter;
/// # impl ractor::Actor for Counter {
/// #     type Msg = (); type State = (); type Arguments = u64;
/// #     async fn pre_start(&self, _: ractor::ActorRef<()>, _: u64)
/// #         -> Result<(), ractor::ActorProcessingErr> { Ok(()) }
/// # }
/// let spec = ChildSpec::actor("counter", || Counter, || 17).restart(Restart::Transient);
/// assert_eq!(spec.id, "counter");
/// ```
#[derive(Clone)]
pub struct ChildSpec {
    /// Name among its siblings.
    pub id: ChildId,
    /// Restart type. Default: permanent.
    pub restart: Restart,
    /// Shutdown. Default: five seconds for a worker, no limit for a supervisor.
    pub shutdown: Shutdown,
    /// The kind.
    pub kind: Kind,
    /// True if its end may end the supervisor; see [`AutoShutdown`]. Default: no.
    pub significant: bool,
    pub(crate) start: Captured<dyn Start>,
    pub(crate) on_start: Option<OnStart>,
}

impl ChildSpec {
    /// A worker. Both factories run at every start, in the supervisor's task (in a pool: the caller's), so keep them
    /// cheap; real initialisation belongs into `pre_start`.
    pub fn actor<A: Actor>(
        id: impl Into<ChildId>,
        actor: impl Fn() -> A + Send + Sync + 'static,
        args: impl Fn() -> A::Arguments + Send + Sync + 'static,
    ) -> Self {
        Self::new(id.into(), Kind::Worker, Arc::new(ActorStart { actor, args }))
    }

    /// A supervisor, started from a copy of `spec` each time: children added at run time are not restored.
    pub fn supervisor(id: impl Into<ChildId>, spec: SupervisorSpec) -> Self {
        Self::branch(id.into(), move || Some(spec.clone()))
    }

    /// A supervisor with a fresh spec at every start; `None` declines the start. The children of the last spec are kept
    /// until the next is made.
    pub fn supervisor_with(
        id: impl Into<ChildId>,
        init: impl Fn() -> Option<SupervisorSpec> + Send + Sync + 'static,
    ) -> Self {
        // A stable reference is valid while a spec is kept: these specs are, until the branch starts again or is
        // forgotten.
        let last = Mutex::new(Vec::new());
        Self::branch(id.into(), move || {
            let spec = init()?;
            let children = spec.children.clone();
            let before = replace(&mut *last.lock().unwrap_or_else(PoisonError::into_inner), children);
            drop(before);
            Some(spec)
        })
    }

    fn branch(id: ChildId, init: impl Fn() -> Option<SupervisorSpec> + Send + Sync + 'static) -> Self {
        Self::new(id, Kind::Supervisor, Arc::new(TreeStart { init }))
    }

    /// A dynamic pool, empty after every start.
    pub fn pool(id: impl Into<ChildId>, spec: PoolSpec) -> Self {
        Self::new(id.into(), Kind::Supervisor, Arc::new(PoolStart { spec }))
    }

    fn new(id: ChildId, kind: Kind, start: Arc<dyn Start>) -> Self {
        let shutdown = match kind {
            Kind::Worker => Shutdown::Timeout(SHUTDOWN_DEFAULT),
            Kind::Supervisor => Shutdown::Infinity,
        };
        let (restart, start) = (Restart::default(), Captured::new(start));
        ChildSpec { id, restart, shutdown, kind, significant: false, start, on_start: None }
    }

    /// Sets when it is restarted.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets how it is stopped.
    pub fn shutdown(mut self, shutdown: Shutdown) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Sets whether its end may end the supervisor.
    pub fn significant(mut self, significant: bool) -> Self {
        self.significant = significant;
        self
    }

    /// Calls `hook` with every new reference, once the child runs and before a later sibling starts: the place to
    /// refresh the references of dependants. The hook runs in the task of the factories and must not block; a panic is
    /// logged and otherwise ignored. Further hooks run after earlier ones.
    pub fn on_start(mut self, hook: impl Fn(&ChildRef) + Send + Sync + 'static) -> Self {
        self.on_start = Some(match self.on_start.take() {
            None => Captured::new(Arc::new(hook)),
            Some(earlier) => Captured::new(Arc::new(move |child: &ChildRef| {
                earlier(child);
                hook(child);
            })),
        });
        self
    }

    /// Points `stable` to the worker through all restarts, as long as the spec, a copy, or another spec with `stable`
    /// is kept: a supervisor drops the spec when it ends or forgets the worker. Ignored for a child with another
    /// message type.
    pub fn stable_ref<M: ractor::Message>(self, stable: &StableRef<M>) -> Self {
        let pointer = stable.pointer();
        self.on_start(move |child| {
            if let Some(worker) = child.takes::<M>() {
                pointer.point_to(worker);
            }
        })
    }

    /// Every fault of the spec under a supervisor with the rule.
    pub(crate) fn faults(&self, auto_shutdown: AutoShutdown) -> Vec<SpecError> {
        let id = || self.id.clone();
        let length = self.id.as_str().len();
        let mut faults = Vec::new();
        if length == 0 || length > CHILD_ID_BYTES_MAX {
            faults.push(SpecError::IdLength { length, max: CHILD_ID_BYTES_MAX });
        }
        if self.shutdown == Shutdown::Timeout(Duration::ZERO) {
            faults.push(SpecError::ShutdownZero { id: id() });
        }
        if self.significant && self.restart == Restart::Permanent {
            faults.push(SpecError::SignificantPermanent { id: id() });
        }
        if self.significant && auto_shutdown == AutoShutdown::Never {
            faults.push(SpecError::SignificantWithoutAutoShutdown { id: id() });
        }
        faults
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("id", &self.id)
            .field("restart", &self.restart)
            .field("shutdown", &self.shutdown)
            .field("kind", &self.kind)
            .field("significant", &self.significant)
            .finish_non_exhaustive()
    }
}

/// Ordered children and the rules of their supervisor.
#[derive(Clone)]
pub struct SupervisorSpec {
    /// Which siblings share a restart. Default: one for one.
    pub strategy: Strategy,
    /// Restart intensity. Default: one in five seconds.
    pub intensity: Intensity,
    /// True if significant children end the supervisor. Default: never.
    pub auto_shutdown: AutoShutdown,
    /// The children in start order.
    pub children: Vec<ChildSpec>,
    /// Clock of windows and shutdown limits. Default: [`SystemClock`].
    pub clock: Arc<dyn Clock>,
}

impl Default for SupervisorSpec {
    fn default() -> Self {
        SupervisorSpec {
            strategy: Strategy::default(),
            intensity: Intensity::default(),
            auto_shutdown: AutoShutdown::default(),
            children: Vec::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl SupervisorSpec {
    /// A supervisor with the strategy and the children, otherwise with defaults.
    pub fn new(strategy: Strategy, children: Vec<ChildSpec>) -> Self {
        SupervisorSpec { strategy, children, ..Self::default() }
    }

    /// Checks the spec without starting anything.
    ///
    /// # Errors
    /// Every fault.
    pub fn check(&self) -> Result<(), Vec<SpecError>> {
        let mut faults = period_fault(&self.intensity);
        if self.children.len() > SUPERVISOR_CHILDREN_MAX {
            let count = self.children.len();
            faults.push(SpecError::TooManyChildren { count, max: SUPERVISOR_CHILDREN_MAX });
        }
        let mut seen = HashSet::new();
        for child in &self.children {
            if !seen.insert(&child.id) {
                faults.push(SpecError::DuplicateId { id: child.id.clone() });
            }
            faults.extend(child.faults(self.auto_shutdown));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

impl fmt::Debug for SupervisorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorSpec")
            .field("strategy", &self.strategy)
            .field("intensity", &self.intensity)
            .field("auto_shutdown", &self.auto_shutdown)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

/// The rules of a dynamic pool: one for one, with children added at run time.
#[derive(Clone)]
pub struct PoolSpec {
    /// Largest number of children, those being started, restarted or stopped included. Default:
    /// [`POOL_CHILDREN_DEFAULT`].
    pub max_children: u32,
    /// Intensity of all restarts together; exceeding it ends the pool. Default: one in five seconds.
    pub intensity: Intensity,
    /// Intensity of one child's restarts. Exceeding it removes the child from the pool and tells the observer; nothing
    /// is charged to the pool. Default: none.
    pub child_intensity: Option<Intensity>,
    /// Clock of windows and shutdown limits. Default: [`SystemClock`].
    pub clock: Arc<dyn Clock>,
}

impl Default for PoolSpec {
    fn default() -> Self {
        PoolSpec {
            max_children: POOL_CHILDREN_DEFAULT,
            intensity: Intensity::default(),
            child_intensity: None,
            clock: Arc::new(SystemClock),
        }
    }
}

impl PoolSpec {
    /// Checks the spec without starting anything.
    ///
    /// # Errors
    /// Every fault.
    pub fn check(&self) -> Result<(), Vec<SpecError>> {
        let mut faults = period_fault(&self.intensity);
        faults.extend(self.child_intensity.iter().flat_map(period_fault));
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

impl fmt::Debug for PoolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSpec")
            .field("max_children", &self.max_children)
            .field("intensity", &self.intensity)
            .field("child_intensity", &self.child_intensity)
            .finish_non_exhaustive()
    }
}

fn period_fault(intensity: &Intensity) -> Vec<SpecError> {
    if intensity.period.is_zero() { vec![SpecError::PeriodZero] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_refused_outside_their_limits() {
        for (length, faults) in [(0, 1), (1, 0), (CHILD_ID_BYTES_MAX, 0), (CHILD_ID_BYTES_MAX + 1, 1)] {
            let spec = ChildSpec::pool("x".repeat(length), PoolSpec::default());
            assert_eq!(spec.faults(AutoShutdown::Never).len(), faults, "{length} bytes");
        }
    }

    #[test]
    fn a_supervisor_spec_is_refused_above_its_most_children() {
        for (count, fits) in [(SUPERVISOR_CHILDREN_MAX, true), (SUPERVISOR_CHILDREN_MAX + 1, false)] {
            let proto = ChildSpec::pool("x", PoolSpec::default());
            let children = (0..count).map(|n| ChildSpec { id: n.to_string().into(), ..proto.clone() });
            let spec = SupervisorSpec { children: children.collect(), ..SupervisorSpec::default() };
            assert_eq!(spec.check().is_ok(), fits, "{count} children");
        }
    }
}
