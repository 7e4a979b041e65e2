//! Records of jobs and credits: their durability, the state after a death, and their removal.

use ostler_actors::{Violation, new_run_id};
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::{Position, Recorded, StreamBatch};
use ostler_store::{MemoryArtifacts, Options, RetentionPolicy, Store};

use super::*;
use crate::common::late::Late;
use crate::common::once_let_go;

#[tokio::test]
async fn the_end_of_a_job_is_told_when_it_is_written_down() {
    let journal = Late::new(
        |event| matches!(event, Event::Market { step, .. } if matches!(**step, MarketStep::Failed { .. })),
    );
    let system = system(journal.clone(), Vec::new()).await;
    let posted = system.post(job(900, says("a"))).await.unwrap();
    until(async || system.job(posted).unwrap().stage.is_over()).await;
    let mut told = Box::pin(system.job_over(posted));
    assert!(futures::poll!(&mut told).is_pending(), "it could be lost still");
    journal.go();
    assert_eq!(told.await.unwrap().stage, Stage::Failed);
}

#[tokio::test]
async fn an_offer_that_is_repeated_is_acknowledged_no_earlier_than_the_first() {
    let journal = Late::new(|event| matches!(event, Event::AgentOffered { .. }));
    let system = system(journal.clone(), Vec::new()).await;
    system.spawn(AgentProfile::new("a")).await.unwrap();
    let offer = || Offer { price: Some(40), ..Offer::default() };
    let mut first = Box::pin(system.offer("a", offer()));
    assert!(futures::poll!(&mut first).is_pending());
    until(async || system.offered("a").is_some()).await;
    let again = {
        let system = system.clone();
        tokio::spawn(async move { system.offer("a", offer()).await })
    };
    // The writer has answered the first request once a later one was answered.
    for _ in 0..100 {
        system.agent(&"a".into()).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(!again.is_finished(), "it could be lost still");
    journal.go();
    first.await.unwrap();
    again.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_job_that_is_posted_again_is_acknowledged_no_earlier_than_the_first_time() {
    let journal = Late::new(
        |event| matches!(event, Event::Market { step, .. } if matches!(**step, MarketStep::Posted(_))),
    );
    let system = system(journal.clone(), Vec::new()).await;
    let id = new_run_id();
    let request = || JobRequest { id: Some(id), ..job(900, says("a")) };
    let post = |system: System, request: JobRequest| tokio::spawn(async move { system.post(request).await });
    let first = post(system.clone(), request());
    until(async || system.job(id).is_ok()).await;
    let again = post(system.clone(), request());
    until(async || again.is_finished() || journal.waited_for() > 1).await;
    assert!(!again.is_finished(), "it could be lost still");
    journal.go();
    assert_eq!([first.await.unwrap().unwrap(), again.await.unwrap().unwrap()], [id; 2]);
    over(&system, id).await;
    system.shutdown().await;
}

/// None of them finds the job when it looks; all but one find it when they record it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_posted_several_times_at_once_is_one_job() {
    let system = common::memory().await;
    for _ in 0..32 {
        let id = new_run_id();
        let posts = (0..8).map(|_| {
            let system = system.clone();
            let request = JobRequest { id: Some(id), ..job(900, says("a")) };
            tokio::spawn(async move { system.post(request).await })
        });
        for post in posts.collect::<Vec<_>>() {
            assert_eq!(post.await.unwrap().unwrap(), id);
        }
        over(&system, id).await;
    }
    assert_eq!(system.jobs().unwrap().len(), 32);
    system.shutdown().await;
}

/// A journal with the records up to a position: the state left by a process that died there.
pub(crate) fn up_to(journal: &MemoryJournal, last: Position) -> Arc<MemoryJournal> {
    let rows = journal.runs(false).unwrap();
    let runs = rows
        .iter()
        .flat_map(|row| [StreamId::run(&row.client, row.run), StreamId::attempts(&row.client, row.run)]);
    let streams: Vec<StreamId> = runs.chain(journal.clients().unwrap()).collect();
    let mut records: Vec<(StreamId, Recorded)> = streams
        .into_iter()
        .flat_map(|stream| {
            let records = journal.read(stream, Seq(0), usize::MAX).unwrap();
            records.into_iter().map(move |record| (stream, record))
        })
        .filter(|(_, record)| record.position <= last)
        .collect();
    records.sort_by_key(|(stream, record)| (record.position, *stream, record.seq));
    let left = Arc::new(MemoryJournal::default());
    for (stream, record) in records {
        let (expected, events) = (Seq(record.seq.0 - 1), vec![record.event]);
        left.append(vec![StreamBatch { stream, expected, at_ms: record.at_ms, events }]).unwrap();
    }
    left
}

/// The contract alone pays for the child runs of a job, whatever the order of the records.
#[tokio::test(start_paused = true)]
async fn what_the_runs_cost_that_a_job_opens_comes_out_of_its_reservation() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let source = json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"},
        {"id": "ask", "kind": "human_approval", "human_timeout": "9h", "deps": ["h"]}]});
    let child = ChildRunSpec::plan(serde_json::from_value::<PlanDraft>(source).unwrap());
    let child = ChildRunSpec { budget: Some(5_000), ..child };
    let tools = || -> Vec<Arc<dyn Tool>> {
        let child = child.clone();
        let opens = Program::new("opens", "1", move |agent: ProgramContext, _: Value| {
            let child = child.clone();
            async move {
                let end = agent.spawn("child", child).await?;
                Ok(json!({"run": end.run}))
            }
        });
        vec![hold.clone(), Arc::new(opens)]
    };
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), tools()).await;
    deposit(&first, 15_000).await;
    offers(&first, "a", 5).await;
    let plan = json!({"id": "p", "nodes": [{"id": "n", "tool": "opens"}]});
    let posted = first.post(job(10_000, plan)).await.unwrap();
    hold.started().await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    hold.go(1);
    until(async || first.all_approvals().await.unwrap().approvals.len() == 1).await;
    let asked = first.all_approvals().await.unwrap().approvals.remove(0);
    let cost = first.view(asked.id.run, None).await.unwrap().run.cost();
    assert!(cost >= 4_000, "{cost}");
    let paid = |cost: u64| (5_000, 10_000 - cost, cost);
    let told = async |system: &System| {
        let row = system.clients().await.remove(0);
        (row.deposited.unwrap() - row.spent as i64 - row.for_jobs as i64, row.for_jobs, row.spent)
    };
    // The parent's own time until the wait is charged at its end.
    let own = first.clients().await.remove(0).spent - cost;
    assert!(own < 100, "{own}");
    assert_eq!((credits(&first), told(&first).await), (paid(cost + own), paid(cost + own)));

    let second = system(up_to(&journal, Position(u64::MAX)), tools()).await;
    assert_eq!((credits(&second), told(&second).await), (paid(cost), paid(cost)), "after a restart");
    second.resume_all().await.unwrap();
    second.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
    let row = over(&second, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("succeeded"));
    let spent = row.spent + cost;
    assert_eq!(credits(&second), (15_000 - spent as i64, 0, spent));
}

/// The process dies after every record in turn: the job is done once, and nothing stays reserved.
#[tokio::test(flavor = "multi_thread")]
async fn whenever_the_process_dies_a_job_is_in_one_stage_and_gets_to_its_end() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    deposit(&first, 1_000).await;
    offers(&first, "a", 5).await;
    let posted = first.post(job(600, says("done"))).await.unwrap();
    over(&first, posted).await;
    let begun = journal.read(StreamId::client(&"acme".into()), Seq(0), usize::MAX).unwrap();
    let is_posted = |record: &&Recorded| matches!(&record.event, Event::Market { step, .. } if matches!(**step, MarketStep::Posted(_)));
    let from = begun.iter().find(is_posted).unwrap().position;
    let to = begun.last().unwrap().position;
    assert!(to.0 - from.0 > 6, "there are places to die at");
    let mut stages = BTreeSet::new();
    for last in from.0..=to.0 {
        let left = up_to(&journal, Position(last));
        let second = system(left.clone(), Vec::new()).await;
        let row = second.job(posted).unwrap();
        stages.insert(row.stage);
        let (free, reserved, _) = credits(&second);
        let holds = matches!(row.stage, Stage::Contract | Stage::Decomposition | Stage::Execution);
        assert_eq!(reserved > 0, holds, "{:?} after {last}", row.stage);
        assert!(free + reserved as i64 <= 1_000);
        second.resume_all().await.unwrap();
        let row = over(&second, posted).await;
        assert_eq!(
            (row.stage, row.outcome.as_deref()),
            (Stage::Evaluation, Some("succeeded")),
            "after {last}"
        );
        assert_eq!(credits(&second), (1_000 - row.spent as i64, 0, row.spent));
        let done = left.runs(false).unwrap();
        assert_eq!(done.len(), 1, "it is one run");
        second.shutdown().await;
    }
    let all = [
        Stage::Job,
        Stage::Proposal,
        Stage::Contract,
        Stage::Decomposition,
        Stage::Execution,
        Stage::Evaluation,
    ];
    assert_eq!(stages.into_iter().collect::<Vec<_>>(), all);
}

/// The process dies between the opening of the run and the record about it; the run could not be opened again.
#[tokio::test]
async fn a_run_that_was_opened_is_the_jobs_even_if_it_would_be_refused_by_now() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    deposit(&first, 1_000).await;
    offers(&first, "a", 5).await;
    let posted =
        first.post(JobRequest { workspace: folder.path().into(), ..job(600, says("done")) }).await.unwrap();
    over(&first, posted).await;
    let opened = journal.read(StreamId::run(&"acme".into(), posted), Seq(0), 1).unwrap()[0].position;
    let left = up_to(&journal, opened);
    folder.close().unwrap();
    let second = system(left, Vec::new()).await;
    assert_eq!(second.job(posted).unwrap().stage, Stage::Decomposition);
    second.resume_all().await.unwrap();
    let row = over(&second, posted).await;
    assert_eq!((row.stage, row.outcome.as_deref()), (Stage::Evaluation, Some("succeeded")), "{row:?}");
    assert_eq!(credits(&second), (1_000 - row.spent as i64, 0, row.spent));
}

/// Spending before the first deposit was free. After its removal, the reservation still pays for the job.
#[tokio::test(flavor = "multi_thread")]
async fn credits_add_up_when_what_was_free_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let live = async || {
        let store = once_let_go(|| Store::open_with(folder.path(), Options::default())).await.0;
        let artifacts = Arc::new(MemoryArtifacts::default());
        (common::over(store.journal.clone(), artifacts, Vec::new(), Limits::default()).await, store)
    };
    let (first, store) = live().await;
    let many: Vec<Value> = (0..5)
        .map(|at| {
            let params = json!({"template": "a", "values": {}});
            json!({"id": format!("n{at}"), "tool": "text.render", "params": params})
        })
        .collect();
    let plan = common::plan(&first, json!({"id": "p", "nodes": many}));
    let run = first.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    first.outcome(run).await.unwrap();
    deposit(&first, 3_000).await;
    offers(&first, "a", 5).await;
    first.shutdown().await;
    drop((first, store));
    let retention = RetentionPolicy { closed_before_ms: Some(i64::MAX), ..RetentionPolicy::default() };
    once_let_go(|| Store::collect(folder.path(), retention, true)).await;

    let (second, store) = live().await;
    let asks = json!({"id": "p", "nodes": [
        {"id": "n", "tool": "text.render", "params": {"template": "a", "values": {}}},
        {"id": "ok", "kind": "human_approval", "human_timeout": "1h", "deps": ["n"]},
    ]});
    let posted = second.post(job(2_000, asks)).await.unwrap();
    until(async || second.all_approvals().await.unwrap().approvals.len() == 1).await;
    second.job_at(posted, Stage::Execution).await.unwrap();
    second.shutdown().await;
    drop((second, store));

    let (third, store) = live().await;
    assert!(third.view(run, None).await.is_err(), "it was removed");
    let spent = third.job(posted).unwrap().spent;
    let audit = third.audit().unwrap().remove(0);
    assert_eq!(audit.violations, []);
    assert_eq!((audit.credits.balance(), audit.credits.reserved()), (1_000, 2_000 - spent));
    third.shutdown().await;
    drop(store);
}

#[tokio::test]
async fn records_that_do_not_add_up_are_told() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    deposit(&first, 1_000).await;
    offers(&first, "a", 5).await;
    let posted = first.post(job(600, says("done"))).await.unwrap();
    let row = over(&first, posted).await;
    first.shutdown().await;
    // The same records, except the contract's budget and its cost.
    let left = Arc::new(MemoryJournal::default());
    let whole = up_to(&journal, Position(u64::MAX));
    let client = StreamId::client(&"acme".into());
    for stream in [client, StreamId::run(&"acme".into(), posted)] {
        for record in whole.read(stream, Seq(0), usize::MAX).unwrap() {
            let mut event = record.event;
            if let Event::Market { step, .. } = &mut event {
                match &mut **step {
                    MarketStep::Signed { budget, .. } => *budget = 6_000,
                    MarketStep::Evaluated(closing) => closing.spent += 1,
                    _ => {}
                }
            }
            let (expected, events) = (Seq(record.seq.0 - 1), vec![event]);
            left.append(vec![StreamBatch { stream, expected, at_ms: record.at_ms, events }]).unwrap();
        }
    }
    let second = system(left, Vec::new()).await;
    let found = second.audit().unwrap().remove(0).violations;
    let error = CreditError::BeyondBalance { balance: 1_000, wanted: 6_000 };
    assert!(found.contains(&Violation::Contract { job: posted, error }), "{found:?}");
    let spent = Violation::Spent { job: posted, told: row.spent + 1, found: row.spent };
    assert!(found.contains(&spent), "{found:?}");
}
