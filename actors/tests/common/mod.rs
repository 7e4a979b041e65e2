//! A system in memory with the built-in tools, and plans as text.

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
use ostler_kernel::event::{Event, GateVerdict};
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::{Effect, HumanDuration, Idempotency, Plan, PlanDraft, PolicyDraft};
use ostler_kernel::policy::{GOAL_LIMIT, GoalTerms, opening_plan};
use ostler_kernel::port::{
    ArtifactStore, BoxFuture, CallContext, Journal, JournalError, JournalLayer, Judge, Position, Recorded,
    Seq, StreamBatch, StreamId, StreamKind, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{Diagnoser, Planner, RuleDiagnoser, StaticPlanner};
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

/// Attempts at once in the whole system.
pub(crate) const SLOTS: usize = 64;

pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// Waits until `holds`, by real time: test time may stand still.
pub(crate) async fn until(holds: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "it did not come to be so");
        tokio::task::yield_now().await;
    }
}

/// Retries an act on a folder that was just released: a task of the ended system may hold it a moment longer.
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

/// Upper limit for immediate events on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A system over `journal` with the built-in tools and `more`.
pub(crate) async fn system(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>) -> System {
    within(journal, more, Limits::default()).await
}

/// Like [`system`], with limits.
pub(crate) async fn within(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>, limits: Limits) -> System {
    over(journal, Arc::new(MemoryArtifacts::default()), more, limits).await
}

pub(crate) async fn with_slots(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>, slots: usize) -> System {
    wide(slots as u32, journal, Arc::new(MemoryArtifacts::default()), more, Limits::default()).await
}

pub(crate) async fn judged_by(judge: impl Judge) -> System {
    let evaluation = Evaluating { judge: Some(Arc::new(judge)), ..Evaluating::default() };
    let (journal, artifacts) = (Arc::new(MemoryJournal::default()), Arc::new(MemoryArtifacts::default()));
    let planner = Arc::new(StaticPlanner);
    assembled(SLOTS as u32, journal, artifacts, Vec::new(), Limits::default(), evaluation, planner).await
}

pub(crate) async fn planned_by(journal: Arc<dyn Journal>, planner: impl Planner + 'static) -> System {
    let (artifacts, evaluation) = (Arc::new(MemoryArtifacts::default()), Evaluating::default());
    let planner = Arc::new(planner);
    assembled(SLOTS as u32, journal, artifacts, Vec::new(), Limits::default(), evaluation, planner).await
}

/// Like [`planned_by`], with failures diagnosed by `diagnoser`.
pub(crate) async fn diagnosed_by(
    journal: Arc<dyn Journal>,
    planner: impl Planner + 'static,
    diagnoser: impl Diagnoser + 'static,
) -> System {
    let artifacts = Arc::new(MemoryArtifacts::default());
    let (evaluation, limits) = (Evaluating::default(), Limits::default());
    let (planner, diagnoser): (Arc<dyn Planner>, Arc<dyn Diagnoser>) =
        (Arc::new(planner), Arc::new(diagnoser));
    let settings = config(journal, Vec::new());
    let config = SystemConfig { slots: SLOTS as u32, artifacts, evaluation, planner, diagnoser, ..settings };
    System::start_within(config, limits).await.unwrap()
}

pub(crate) async fn over(
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn ArtifactStore>,
    more: Vec<Arc<dyn Tool>>,
    limits: Limits,
) -> System {
    wide(SLOTS as u32, journal, artifacts, more, limits).await
}

pub(crate) async fn wide(
    slots: u32,
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn ArtifactStore>,
    more: Vec<Arc<dyn Tool>>,
    limits: Limits,
) -> System {
    let planner = Arc::new(StaticPlanner);
    assembled(slots, journal, artifacts, more, limits, Evaluating::default(), planner).await
}

async fn assembled(
    slots: u32,
    journal: Arc<dyn Journal>,
    artifacts: Arc<dyn ArtifactStore>,
    more: Vec<Arc<dyn Tool>>,
    limits: Limits,
    evaluation: Evaluating,
    planner: Arc<dyn Planner>,
) -> System {
    let config = SystemConfig { slots, artifacts, evaluation, planner, ..config(journal, more) };
    System::start_within(config, limits).await.unwrap()
}

/// Settings of a system over `journal` with the built-in tools and `more`.
pub(crate) fn config(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>) -> SystemConfig {
    let mut tools = builtin(&ToolConfig::default(), None);
    tools.retain(|tool| more.iter().all(|other| other.spec().name != tool.spec().name));
    tools.extend(more);
    let granted = || Scope { tools: tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect() };
    let scopes = ["default", "other"].map(|scope| (scope.to_owned(), granted()));
    let mut without_models = granted();
    without_models.tools.retain(|tool, _| !tool.starts_with("model."));
    let gate = GatePolicy {
        scopes: scopes.into_iter().chain([("without_models".to_owned(), without_models)]).collect(),
        ceiling: 2,
        ..GatePolicy::default()
    };
    SystemConfig {
        journal,
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools,
        gate,
        slots: SLOTS as u32,
        run_slots: 4,
        drain: DRAIN,
        clients: Vec::new(),
        models: Default::default(),
        measures: Measures::default(),
        evaluation: Evaluating::default(),
        planner: Arc::new(StaticPlanner),
        diagnoser: Arc::new(RuleDiagnoser),
    }
}

/// A tool with calls that run until released; they return `{}` by default.
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

    /// True if a call has started that no test waited for.
    pub(crate) fn has_started(&self) -> bool {
        self.started.available_permits() > 0
    }

    /// Waits until one more call was stopped before its end.
    pub(crate) async fn stopped(&self) {
        self.stopped.acquire().await.unwrap().forget();
    }

    /// Sets the result of later calls, instead of `{}`.
    pub(crate) fn gives(&self, value: Value) {
        *self.gives.lock().unwrap() = value;
    }

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

pub(crate) fn left_by(journal: &MemoryJournal) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    let rows = journal.runs(false).unwrap();
    let runs = rows
        .iter()
        .flat_map(|row| [StreamId::run(&row.client, row.run), StreamId::attempts(&row.client, row.run)]);
    let pipelines = journal.streams(StreamKind::Pipeline).unwrap();
    let pipelines = pipelines.into_iter().flat_map(|stream| [stream, stream.log()]);
    for stream in runs.chain(journal.clients().unwrap()).chain(pipelines) {
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

/// The opening plan of a goal, with room for its steps, without replans, and without pauses between attempts.
pub(crate) fn goal_draft(terms: &GoalTerms) -> PlanDraft {
    let limit = Some(GOAL_LIMIT);
    let policy = PolicyDraft {
        max_nodes: limit,
        max_versions: limit,
        max_depth: limit,
        max_replans: Some(0),
        backoff_base: Some(HumanDuration::Whole(0)),
        ..PolicyDraft::default()
    };
    PlanDraft { policy: Some(policy), ..opening_plan(terms) }
}

/// The recorded verdicts of the gate on the calls of a run, in order.
pub(crate) fn verdicts(journal: &MemoryJournal, run: RunId) -> Vec<GateVerdict> {
    let row = journal.run(run).unwrap().unwrap();
    let records = journal.read(StreamId::run(&row.client, run), Seq(0), usize::MAX).unwrap();
    let verdicts = records.into_iter().filter_map(|record| match record.event {
        Event::GateVerdict(verdict) => Some(*verdict),
        _ => None,
    });
    verdicts.collect()
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

/// A journal that counts the records read of each stream.
pub(crate) struct Watched {
    journal: Arc<MemoryJournal>,
    read: Mutex<BTreeMap<StreamId, usize>>,
    largest: AtomicUsize,
    /// Called after each append, before the appender continues.
    after: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Called after a stream was read to its end, before the reader continues.
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

    /// The runs among these that were read since the last call.
    pub(crate) fn read_of(&self, runs: &[RunId]) -> Vec<RunId> {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        let stream = |run: &RunId| StreamId::run(&self.journal.run(*run).unwrap().unwrap().client, *run);
        runs.iter().copied().filter(|run| read.contains_key(&stream(run))).collect()
    }

    /// Sets the function called after each append, before the appender continues.
    pub(crate) fn after_append(&self, act: impl Fn() + Send + Sync + 'static) {
        assert!(self.after.set(Box::new(act)).is_ok(), "one thing is done");
    }

    /// Sets the function called after a stream was read to its end, before the reader continues.
    pub(crate) fn at_end(&self, act: impl Fn(StreamId, Seq) + Send + Sync + 'static) {
        assert!(self.at_end.set(Box::new(act)).is_ok(), "one thing is done");
    }

    pub(crate) fn largest(&self) -> usize {
        self.largest.load(Ordering::SeqCst)
    }
}

impl Watched {
    /// Records read of a run since the last question about its streams.
    pub(crate) fn records_of(&self, run: RunId) -> usize {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        let client = self.journal.run(run).unwrap().unwrap().client;
        read.get(&StreamId::run(&client, run)).copied().unwrap_or(0)
    }
}

impl JournalLayer for Watched {
    fn below(&self) -> &dyn Journal {
        &*self.journal
    }

    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let records = batches.iter().map(|batch| batch.events.len()).sum();
        self.largest.fetch_max(records, Ordering::SeqCst);
        let position = self.journal.append(batches)?;
        self.after.get().into_iter().for_each(|act| act());
        Ok(position)
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let records = self.journal.read(stream, after, limit)?;
        *self.read.lock().unwrap().entry(stream).or_default() += records.len();
        if records.is_empty() {
            self.at_end.get().into_iter().for_each(|act| act(stream, after));
        }
        Ok(records)
    }
}
