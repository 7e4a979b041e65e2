//! Calls of models are paid, and no more than once, whatever becomes of them.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use common::{Watched, plan, until};
use ostler_actors::{Answer, Evaluating, Submission, System, SystemConfig};
use ostler_drivers::model::{ModelConfig, ModelJudge, Models, ModelsConfig, PriceConfig, UsdPerMillion};
use ostler_kernel::event::{CallTerms, Event};
use ostler_kernel::id::RunId;
use ostler_kernel::ledger::{Amounts, CallLimits};
use ostler_kernel::port::{
    BoxFuture, Journal, JournalError, JournalLayer, Position, Seq, StreamBatch, StreamId, StreamKind,
};
use ostler_kernel::run::{OpeningTerms, RunOutcome};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// Answers of 100 tokens after 200 tokens of input; the judge's too.
const SCRIPT: &str = r#"
rules:
  - when: {role: judge}
    answer: {quality: 0.9, adherence: null, why: fine}
    tokens: {input: 200, output: 100}
  - when: {}
    text: "done"
    tokens: {input: 200, output: 100}
"#;

const OF_CALL: Amounts = Amounts { tokens: 300, nano_usd: 200 * 1_000 + 100 * 4_000 };

fn models(folder: &Path) -> Models {
    std::fs::write(folder.join("script.yaml"), SCRIPT).unwrap();
    let usd = UsdPerMillion { input: 1.0, output: 4.0, cache_read: None, cache_write: None };
    let price = Some(PriceConfig::PerMillion(usd));
    let model = ModelConfig { price, max_output_tokens: 300, ..ModelConfig::scripted("script.yaml") };
    let models = BTreeMap::from([("default".to_owned(), model)]);
    Models::new(&ModelsConfig { models, ..ModelsConfig::default() }, folder, &|_| None).unwrap()
}

async fn system(journal: Arc<dyn Journal>, folder: &Path) -> System {
    common::system(journal, models(folder).tools()).await
}

/// Calls one after the other, each with at most 300 tokens of output. Prompts are about as long as the script says.
fn chain(many: usize) -> Value {
    let params = json!({"prompt": "word ".repeat(160), "max_output_tokens": 300});
    let node = |at: usize| {
        let deps: Vec<String> = at.checked_sub(1).map(|before| format!("n{before}")).into_iter().collect();
        json!({"id": format!("n{at}"), "model": "default", "deps": deps, "retries": 0, "patches": 0, "params": params})
    };
    json!({"id": "chain", "nodes": (0..many).map(node).collect::<Vec<_>>()})
}

fn tokens(tokens: u64) -> CallLimits {
    CallLimits { tokens: Some(tokens), nano_usd: None }
}

async fn open(system: &System, source: Value, limits: CallLimits, asks: bool) -> RunId {
    let submission =
        Submission { client: "acme".into(), intent: 2, ..Submission::plan(plan(system, source)) };
    let calls = Some(CallTerms { account: None, limits, asks });
    system
        .submit(Submission { terms: OpeningTerms { calls, ..OpeningTerms::default() }, ..submission })
        .await
        .unwrap()
}

async fn ended(system: &System, run: RunId) -> RunOutcome {
    system.outcome(run).await.unwrap();
    system.view(run, None).await.unwrap().closed.unwrap()
}

/// What the calls of a run used, by its records: a reservation without a settlement counts in full.
fn recorded(journal: &MemoryJournal, run: RunId) -> Amounts {
    let records = journal.read(StreamId::attempts(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
    records.into_iter().fold(Amounts::default(), |used, record| match record.event {
        Event::CallReserved(call) => call.charge(used),
        Event::CallSettled(call) => call.charge(used),
        _ => used,
    })
}

/// A journal that refuses the first raise, and in which no reservation becomes durable, if told so.
struct Faulty {
    journal: Arc<MemoryJournal>,
    refuses_raise: AtomicBool,
    holds_reservations: bool,
    held: Mutex<BTreeSet<Position>>,
}

impl Faulty {
    fn new(refuses_raise: bool, holds_reservations: bool) -> Arc<Faulty> {
        let (journal, refuses_raise) = (Arc::new(MemoryJournal::default()), AtomicBool::new(refuses_raise));
        Arc::new(Faulty { journal, refuses_raise, holds_reservations, held: Mutex::default() })
    }

    fn has_held(&self) -> bool {
        !self.held.lock().unwrap().is_empty()
    }
}

impl JournalLayer for Faulty {
    fn below(&self) -> &dyn Journal {
        &*self.journal
    }

    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let any = |is: fn(&Event) -> bool| batches.iter().flat_map(|batch| &batch.events).any(is);
        if any(|event| matches!(event, Event::BudgetRaised { .. }))
            && self.refuses_raise.swap(false, Ordering::SeqCst)
        {
            let (stream, expected) = (batches[0].stream, batches[0].expected);
            return Err(JournalError::Conflict { stream, expected, actual: expected });
        }
        let holds = self.holds_reservations && any(|event| matches!(event, Event::CallReserved(_)));
        let position = self.journal.append(batches)?;
        if holds {
            self.held.lock().unwrap().insert(position);
        }
        Ok(position)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        match self.held.lock().unwrap().contains(&position) {
            true => Box::pin(std::future::pending()),
            false => self.journal.durable(position),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raise_that_cannot_be_recorded_is_no_raise() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Faulty::new(true, false);
    let system = system(journal.clone(), folder.path()).await;
    let run = open(&system, chain(3), tokens(600), true).await;
    let raised = || {
        let records = journal.below().read(StreamId::run(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
        records.iter().filter(|record| matches!(record.event, Event::BudgetRaised { .. })).count()
    };
    // The first answer is lost with its record. The agent restarts, and refuses answers until it has read the run again.
    until(async || {
        let question = system.approvals(run).await.unwrap().into_iter().next();
        if let Some(question) = question.filter(|_| raised() == 0) {
            let answer = Answer::approve().raise(Amounts { tokens: 300, nano_usd: 0 });
            let _ = system.answer(&question.id, question.digest.unwrap(), answer).await;
        }
        raised() == 1
    })
    .await;
    assert!(!journal.refuses_raise.load(Ordering::SeqCst));
    let view = system.view(run, None).await.unwrap();
    assert_eq!(system.call_account(&view).unwrap().unwrap().limits, tokens(900));
    system.cancel(run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_while_its_reservation_is_written_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Faulty::new(false, true);
    let system = system(journal.clone(), folder.path()).await;
    let run = open(&system, chain(1), tokens(5_000), false).await;
    until(async || journal.has_held()).await;
    system.cancel(run).await.unwrap();
    assert_eq!(ended(&system, run).await, RunOutcome::Cancelled);
    until(async || recorded(&journal.journal, run) == Amounts::default()).await;
}

/// A system whose runs the model judges.
async fn judged(journal: Arc<MemoryJournal>, folder: &Path) -> System {
    let models = models(folder);
    let judge = Arc::new(ModelJudge::new(models.get("default").unwrap()));
    let evaluation = Evaluating { judge: Some(judge), ..Evaluating::default() };
    let config = common::config(journal, models.tools());
    System::start(SystemConfig { evaluation, ..config }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_of_a_run_is_paid_from_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = judged(journal.clone(), folder.path()).await;
    for (limits, calls, quality) in [(5_000, 2, Some(900)), (600, 1, None)] {
        let run = open(&system, chain(1), tokens(limits), false).await;
        assert_eq!(ended(&system, run).await, RunOutcome::Succeeded);
        let judgement = system.evaluation(run).await.unwrap().appraised.judgement.unwrap();
        assert_eq!(judgement.quality, quality, "{}", judgement.note);
        assert!(quality.is_some() || judgement.note.contains("needs at least"), "{}", judgement.note);
        let view = system.view(run, None).await.unwrap();
        let used = Amounts { tokens: calls * OF_CALL.tokens, nano_usd: calls * OF_CALL.nano_usd };
        assert_eq!(system.call_account(&view).unwrap().unwrap().used, used);
        assert_eq!(recorded(&journal, run), used);
        let usage = view.run.model_usage();
        assert_eq!(
            (u64::from(usage.calls), usage.tokens(), usage.nano_usd),
            (calls, used.tokens, used.nano_usd)
        );
    }
}

/// Blocks until it is opened.
#[derive(Default)]
struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_whose_account_is_read_slowly_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Watched::over(Arc::new(MemoryJournal::default()));
    let (door, slow) = (Arc::new(Door::default()), Arc::new(OnceLock::new()));
    let (passed, first) = (door.clone(), slow.clone());
    journal.at_end(move |stream, _| {
        if stream.kind == StreamKind::Attempts && first.get_or_init(|| stream) == &stream {
            passed.pass();
        }
    });
    let system = system(journal, folder.path()).await;
    let run = open(&system, chain(1), tokens(5_000), false).await;
    until(async || slow.get().is_some()).await;
    let other = open(&system, chain(1), tokens(5_000), false).await;
    let end = tokio::time::timeout(Duration::from_secs(20), ended(&system, other)).await;
    door.open();
    assert_eq!(end, Ok(RunOutcome::Succeeded));
    assert_eq!(ended(&system, run).await, RunOutcome::Succeeded);
}
