//! A system in memory, with the built-in tools, and plans as text.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "test support: each file uses its own part, and fails loudly"
)]

pub(crate) mod late;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ostler_actors::{Evaluating, Limits, Measures, Submission, System, SystemConfig};
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};
use ostler_kernel::plan::{Effect, Idempotency, Plan, PlanDraft};
use ostler_kernel::port::{
    AccountRow, ArtifactStore, BoxFuture, CallContext, Journal, JournalError, Judge, Position, Recorded,
    RunRow, Seq, StreamBatch, StreamId, StreamKind, Tool, ToolResult, ToolSpec,
};
use ostler_store::{MemoryArtifacts, MemoryJournal};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

/// Attempts at once in the whole system.
pub(crate) const SLOTS: usize = 64;

/// How long a shutdown waits for what acts.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// Waits until it is so, by the clock on the wall: time of the test may stand still.
pub(crate) async fn until(holds: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "it did not come to be so");
        tokio::task::yield_now().await;
    }
}

/// What comes of an act that needs a folder that somebody has just let go of: what ends with a system may hold on to it for a moment
/// longer.
pub(crate) async fn once_let_go<T, E>(act: impl Fn() -> Result<T, E>) -> T {
    let done = Mutex::new(None);
    until(async || {
        let mut done = done.lock().unwrap();
        *done = act().ok();
        done.is_some()
    })
    .await;
    done.into_inner().unwrap().unwrap()
}

/// How long something may take that comes at once, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A system over `journal` with the built-in tools and `more`.
pub(crate) async fn system(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>) -> System {
    within(journal, more, Limits::default()).await
}

/// The same, with limits.
pub(crate) async fn within(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>, limits: Limits) -> System {
    over(journal, Arc::new(MemoryArtifacts::default()), more, limits).await
}

/// The same, with so many slots.
pub(crate) async fn with_slots(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>, slots: usize) -> System {
    wide(slots as u32, journal, Arc::new(MemoryArtifacts::default()), more, Limits::default()).await
}

/// A system in memory whose runs somebody judges.
pub(crate) async fn judged_by(judge: impl Judge) -> System {
    let evaluation = Evaluating { judge: Some(Arc::new(judge)), ..Evaluating::default() };
    let (journal, artifacts) = (Arc::new(MemoryJournal::default()), Arc::new(MemoryArtifacts::default()));
    evaluating(SLOTS as u32, journal, artifacts, Vec::new(), Limits::default(), evaluation).await
}

/// The same, over a store of one's own.
pub(crate) async fn over(
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn ArtifactStore>,
    more: Vec<Arc<dyn Tool>>,
    limits: Limits,
) -> System {
    wide(SLOTS as u32, journal, artifacts, more, limits).await
}

/// The same, with so many slots.
pub(crate) async fn wide(
    slots: u32,
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn ArtifactStore>,
    more: Vec<Arc<dyn Tool>>,
    limits: Limits,
) -> System {
    evaluating(slots, journal, artifacts, more, limits, Evaluating::default()).await
}

async fn evaluating(
    slots: u32,
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn ArtifactStore>,
    more: Vec<Arc<dyn Tool>>,
    limits: Limits,
    evaluation: Evaluating,
) -> System {
    let mut tools = builtin(&ToolConfig::default(), None);
    tools.retain(|tool| more.iter().all(|other| other.spec().name != tool.spec().name));
    tools.extend(more);
    let granted = || Scope { tools: tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect() };
    let gate = GatePolicy {
        scopes: ["default", "other"].map(|scope| (scope.to_owned(), granted())).into(),
        ceiling: 2,
        ..GatePolicy::default()
    };
    let config = SystemConfig {
        journal,
        artifacts,
        tools,
        gate,
        slots,
        run_slots: 4,
        drain: DRAIN,
        clients: Vec::new(),
        measures: Measures::default(),
        evaluation,
    };
    System::start_within(config, limits).await.unwrap()
}

/// A tool whose calls go on until they are told to end, and then give `{}`, unless told otherwise.
pub(crate) struct Hold {
    spec: ToolSpec,
    class: CallClass,
    started: Semaphore,
    go: Semaphore,
    stopped: Semaphore,
    gives: Mutex<Value>,
}

impl Hold {
    pub(crate) fn new(name: &str, effect: Effect, idem: Idempotency) -> Arc<Hold> {
        Hold::of_version("1", name, effect, idem)
    }

    pub(crate) fn of_version(version: &str, name: &str, effect: Effect, idem: Idempotency) -> Arc<Hold> {
        let params = json!({"type": "object", "properties": {"argv": {"type": "array"}}});
        let (name, version, description) = (name.to_owned(), version.to_owned(), "holds".to_owned());
        Arc::new(Hold {
            spec: ToolSpec { name, version, description, params, result: json!({"type": "object"}) },
            class: CallClass { impact: u8::from(effect.acts()), effect, idem },
            started: Semaphore::new(0),
            go: Semaphore::new(0),
            stopped: Semaphore::new(0),
            gives: Mutex::new(json!({})),
        })
    }

    /// Waits until one more call has started.
    pub(crate) async fn started(&self) {
        self.started.acquire().await.unwrap().forget();
    }

    /// Whether a call has started that nobody waited for.
    pub(crate) fn has_started(&self) -> bool {
        self.started.available_permits() > 0
    }

    /// Waits until one more call was stopped before its end.
    pub(crate) async fn stopped(&self) {
        self.stopped.acquire().await.unwrap().forget();
    }

    /// What calls give from now on, instead of `{}`.
    pub(crate) fn gives(&self, value: Value) {
        *self.gives.lock().unwrap() = value;
    }

    /// Lets this many calls end.
    pub(crate) fn go(&self, calls: usize) {
        self.go.add_permits(calls);
    }
}

struct Stops<'a>(Option<&'a Semaphore>);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        if let Some(stopped) = self.0 {
            stopped.add_permits(1);
        }
    }
}

impl Tool for Hold {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        self.class
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let mut stops = Stops(Some(&self.stopped));
            self.started.add_permits(1);
            self.go.acquire().await.unwrap().forget();
            stops.0 = None;
            Ok(self.gives.lock().unwrap().clone())
        })
    }
}

/// What a process leaves behind that dies now.
pub(crate) fn left_by(journal: &MemoryJournal) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    let rows = journal.runs(false).unwrap();
    let runs = rows
        .iter()
        .flat_map(|row| [StreamId::run(&row.client, row.run), StreamId::attempts(&row.client, row.run)]);
    for stream in runs.chain(journal.clients().unwrap()) {
        for record in journal.read(stream, Seq(0), usize::MAX).unwrap() {
            let (expected, events) = (Seq(record.seq.0 - 1), vec![record.event]);
            left.append(vec![StreamBatch { stream, expected, at_ms: record.at_ms, events }]).unwrap();
        }
    }
    left
}

pub(crate) async fn memory() -> System {
    system(Arc::new(MemoryJournal::default()), Vec::new()).await
}

pub(crate) fn plan(system: &System, plan: Value) -> Plan {
    let draft: PlanDraft = serde_json::from_value(plan).unwrap();
    draft.validate(&system.settings()).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

pub(crate) async fn submit(system: &System, source: Value) -> RunId {
    let plan = plan(system, source);
    system.submit(Submission { intent: 2, ..Submission::plan(plan) }).await.unwrap()
}

pub(crate) async fn states(system: &System, run: RunId) -> String {
    let view = system.view(run, None).await.unwrap();
    let rows = view.run.instances().map(|(node, instance)| format!("{} {}", node.id, instance.state()));
    rows.collect::<Vec<_>>().join(", ")
}

pub(crate) async fn value(system: &System, run: RunId, node: &str) -> Value {
    let artifact = system.artifact(run, &NodeId::from(node)).await.unwrap();
    serde_json::from_slice(&artifact.content).unwrap()
}

/// A journal that remembers how many records of which streams were read.
pub(crate) struct Watched {
    journal: Arc<MemoryJournal>,
    read: Mutex<BTreeMap<StreamId, usize>>,
    /// Records of the largest append.
    largest: AtomicUsize,
    /// What is done after each append, before whoever appended hears of it.
    after: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What is done after a stream was read to its end, before whoever read it hears of it.
    at_end: OnceLock<Box<dyn Fn(StreamId, Seq) + Send + Sync>>,
}

impl Watched {
    pub(crate) fn over(journal: Arc<MemoryJournal>) -> Arc<Watched> {
        Arc::new(Watched {
            journal,
            read: Mutex::default(),
            largest: AtomicUsize::new(0),
            after: OnceLock::new(),
            at_end: OnceLock::new(),
        })
    }

    /// The runs among these that were read since this was asked last.
    pub(crate) fn read_of(&self, runs: &[RunId]) -> Vec<RunId> {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        let stream = |run: &RunId| StreamId::run(&self.journal.run(*run).unwrap().unwrap().client, *run);
        runs.iter().copied().filter(|run| read.contains_key(&stream(run))).collect()
    }

    /// From now on does this after each append, before whoever appended hears of it.
    pub(crate) fn after_append(&self, act: impl Fn() + Send + Sync + 'static) {
        assert!(self.after.set(Box::new(act)).is_ok(), "one thing is done");
    }

    /// From now on does this whenever a stream was read to its end, which is told, before whoever read it hears of it.
    pub(crate) fn at_end(&self, act: impl Fn(StreamId, Seq) + Send + Sync + 'static) {
        assert!(self.at_end.set(Box::new(act)).is_ok(), "one thing is done");
    }

    /// Records of the largest append so far.
    pub(crate) fn largest(&self) -> usize {
        self.largest.load(Ordering::SeqCst)
    }
}

impl Watched {
    /// Records that were read of a run since its streams were asked about last.
    pub(crate) fn records_of(&self, run: RunId) -> usize {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        let client = self.journal.run(run).unwrap().unwrap().client;
        read.get(&StreamId::run(&client, run)).copied().unwrap_or(0)
    }
}

impl Journal for Watched {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let records = batches.iter().map(|batch| batch.events.len()).sum();
        self.largest.fetch_max(records, Ordering::SeqCst);
        let position = self.journal.append(batches)?;
        self.after.get().into_iter().for_each(|act| act());
        Ok(position)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        self.journal.durable(position)
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let records = self.journal.read(stream, after, limit)?;
        *self.read.lock().unwrap().entry(stream).or_default() += records.len();
        if records.is_empty() {
            self.at_end.get().into_iter().for_each(|act| act(stream, after));
        }
        Ok(records)
    }

    fn changed(&self, stream: StreamId, after: Seq) -> BoxFuture<'_, ()> {
        self.journal.changed(stream, after)
    }

    fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, JournalError> {
        self.journal.runs(open_only)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRow>, JournalError> {
        self.journal.run(run)
    }

    fn accounts(&self) -> Result<Vec<AccountRow>, JournalError> {
        self.journal.accounts()
    }

    fn streams(&self, kind: StreamKind) -> Result<Vec<StreamId>, JournalError> {
        self.journal.streams(kind)
    }

    fn account(
        &self,
        client: &ClientId,
        agent: Option<&AgentId>,
    ) -> Result<Option<AccountRow>, JournalError> {
        self.journal.account(client, agent)
    }
}
