//! Reservations of jobs: not available to others, and usable to the last credit.

use ostler_actors::ClientError;
use ostler_kernel::run::{OpeningTerms, RunStatus};

use super::*;
use crate::common::with_slots;

#[tokio::test]
async fn what_is_reserved_for_a_job_is_not_for_others() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    deposit(&system, 500).await;
    offers(&system, "a", 5).await;
    let holds = json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]});
    let posted = system.post(job(500, holds)).await.unwrap();
    hold.started().await;
    assert_eq!(system.clients().await[0].left.map(|left| left > 0), Some(true));
    let used = ClientError::HasJob { client: "acme".into(), job: posted };
    assert_eq!(system.remove_client("acme").await, Err(used));
    let plan = common::plan(&system, says("a"));
    let other = system.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    until(async || system.view(other, None).await.unwrap().out_of_credit).await;
    hold.go(1);
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("succeeded"));
    // The unused rest is free again.
    system.outcome(other).await.unwrap();
    let (free, reserved, _) = credits(&system);
    assert!(free > 0 && reserved == 0);
    until(async || system.clients().await[0].running == 0).await;
    system.remove_client("acme").await.unwrap();
    assert_eq!(system.audit().unwrap(), []);
}

#[tokio::test]
async fn a_contract_whose_budget_is_used_up_starts_nothing_more() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    deposit(&system, 5_000).await;
    offers(&system, "a", 1).await;
    let two = json!({"id": "p", "nodes": [
        {"id": "n", "tool": "hold", "retries": 0}, {"id": "m", "tool": "hold", "deps": ["n"]},
    ]});
    // The run continues until nothing is left, then ends.
    let posted = system.post(job(20, two)).await.unwrap();
    hold.started().await;
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("failed"), "{row:?}");
    assert!(row.spent >= 20 && !hold.has_started());
    assert_eq!(credits(&system), (5_000 - row.spent as i64, 0, row.spent));
}

/// The balance equals the job's budget; one attempt leaves less than the expected cost of the next.
#[tokio::test(start_paused = true)]
async fn a_job_uses_what_is_reserved_for_it_to_the_last() {
    for (last_ms, outcome, spent) in [(60, "succeeded", 565..=566), (1_000, "failed", 600..=602)] {
        let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
        let journal = Arc::new(MemoryJournal::default());
        let system = system(journal.clone(), vec![hold.clone()]).await;
        deposit(&system, 600).await;
        offers(&system, "a", 1).await;
        let two = json!({"id": "p", "nodes": [
            {"id": "n", "tool": "hold", "retries": 0}, {"id": "m", "tool": "hold", "retries": 0, "deps": ["n"]},
        ]});
        let posted = system.post(job(600, two)).await.unwrap();
        for ms in [505, last_ms] {
            hold.started().await;
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
            hold.go(1);
        }
        let row = over(&system, posted).await;
        assert_eq!(row.outcome.as_deref(), Some(outcome), "{row:?}");
        assert!(spent.contains(&row.spent), "{row:?}");
        assert_eq!(waits(&journal, posted), [false; 0], "what it spends is set aside for it");
        assert_eq!(credits(&system), (600 - row.spent as i64, 0, row.spent));
    }
}

/// A plan wider than its budget: running attempts finish after the budget is used up, whatever the balance.
#[tokio::test(start_paused = true)]
async fn a_job_whose_client_has_nothing_left_comes_to_its_end() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = with_slots(Arc::new(MemoryJournal::default()), vec![hold.clone()], 16).await;
    deposit(&system, 1_000).await;
    offers(&system, "a", 1).await;
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "hold", "retries": 0});
    let wide = json!({"id": "p", "nodes": (0..16).map(node).collect::<Vec<_>>()});
    let posted = system.post(job(1_000, wide)).await.unwrap();
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("failed"), "{row:?}");
    assert!(row.spent >= 1_000, "{row:?}");
    assert_eq!(credits(&system), (1_000 - row.spent as i64, 0, row.spent));
}

/// A run without a contract; budget and balance are used up together.
#[tokio::test(start_paused = true)]
async fn a_run_whose_budget_is_used_up_does_not_wait_for_credits() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![hold.clone()]).await;
    deposit(&first, 300).await;
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "hold", "retries": 1});
    let plan = common::plan(&first, json!({"id": "p", "nodes": (0..8).map(node).collect::<Vec<_>>()}));
    let submission = Submission {
        client: "acme".into(),
        terms: OpeningTerms { budget: Some(300), ..OpeningTerms::default() },
        ..Submission::plan(plan)
    };
    let run = first.submit(submission).await.unwrap();
    let outcome = tokio::time::timeout(PATIENCE, first.outcome(run)).await;
    assert_eq!(outcome.unwrap().unwrap(), RunStatus::Failed);
    let records = journal.read(StreamId::run(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
    let told = format!("{records:?}");
    assert!(told.contains("the budget of the run, 300 credits, is used up"), "{told}");
}

/// A free wait behind reserved credits, in a run with a used up budget.
#[tokio::test(start_paused = true)]
async fn what_costs_nothing_goes_on_when_a_budget_is_used_up() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = with_slots(Arc::new(MemoryJournal::default()), vec![hold.clone()], 4).await;
    deposit(&system, 1_000).await;
    offers(&system, "a", 1).await;
    let plan = common::plan(
        &system,
        json!({"id": "p", "nodes": [
            {"id": "n", "tool": "hold", "retries": 0},
            {"id": "nap", "tool": "time.sleep", "params": {"ms": 100}},
            {"id": "x", "tool": "text.render", "params": {"template": "x", "values": {}}, "deps": ["nap"]},
            {"id": "late", "tool": "time.sleep", "params": {"ms": 10}, "deps": ["nap"]},
        ]}),
    );
    let submission = Submission {
        client: "acme".into(),
        terms: OpeningTerms { budget: Some(350), ..OpeningTerms::default() },
        ..Submission::plan(plan)
    };
    let run = system.submit(submission).await.unwrap();
    hold.started().await;
    let asks = json!({"id": "p", "nodes": [{"id": "ok", "kind": "human_approval", "human_timeout": "9h"}]});
    system.post(job(1_000, asks)).await.unwrap();
    let outcome = tokio::time::timeout(PATIENCE, system.outcome(run)).await;
    let states = common::states(&system, run).await;
    assert_eq!(outcome.expect(&states).unwrap(), RunStatus::Failed);
    assert!(states.contains("late executed") && states.contains("x failed"), "{states}");
}

/// A job's reservation does not wait behind runs that wait for credits.
#[tokio::test(start_paused = true)]
async fn a_job_goes_on_though_another_run_of_its_client_waits_for_credits() {
    let (busy, hold) = (
        Hold::new("busy", Effect::Read, Idempotency::Natural),
        Hold::new("hold", Effect::Read, Idempotency::Natural),
    );
    let system = with_slots(Arc::new(MemoryJournal::default()), vec![busy.clone(), hold.clone()], 1).await;
    deposit(&system, 1_000).await;
    offers(&system, "a", 1).await;
    let asks = json!({"id": "p", "nodes": [
        {"id": "ok", "kind": "human_approval", "human_timeout": "9h"},
        {"id": "n", "tool": "hold", "deps": ["ok"]}, {"id": "m", "tool": "hold", "deps": ["n"]},
    ]});
    let posted = system.post(job(500, asks)).await.unwrap();
    until(async || system.all_approvals().await.unwrap().approvals.len() == 1).await;
    let approval = system.all_approvals().await.unwrap().approvals.remove(0);
    // One node of another run costs nearly the whole balance; a second is queued when the cost is charged.
    let two = json!({"id": "p", "nodes": [{"id": "x", "tool": "busy"}, {"id": "y", "tool": "busy"}]});
    let plan = common::plan(&system, two);
    let other = system.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    busy.started().await;
    tokio::time::sleep(std::time::Duration::from_millis(950)).await;
    busy.go(1);
    until(async || system.view(other, None).await.unwrap().out_of_credit).await;
    system.answer(&approval.id, approval.digest.unwrap(), Answer::approve()).await.unwrap();
    for _ in 0..2 {
        hold.started().await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        hold.go(1);
    }
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("succeeded"), "{row:?}");
    assert!(system.view(other, None).await.unwrap().out_of_credit);
}

/// The rest of the balance is reserved. An attempt of an ended process and a ready node both wait for credits: they ask
/// again at growing intervals.
#[tokio::test(start_paused = true)]
async fn who_waits_for_what_is_reserved_asks_again_at_an_even_pace() {
    let journal = Arc::new(MemoryJournal::default());
    let look = Hold::new("look", Effect::Read, Idempotency::Natural);
    let first = with_slots(journal.clone(), vec![look.clone()], 1).await;
    deposit(&first, 100_000).await;
    offers(&first, "a", 5).await;
    let nodes = json!([{"id": "begun", "tool": "look"}, {"id": "ready", "tool": "look"}]);
    let plan = common::plan(&first, json!({"id": "p", "nodes": nodes}));
    let run = first.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    look.started().await;
    let asks = json!({"id": "p", "nodes": [{"id": "ok", "kind": "human_approval", "human_timeout": "9h"}]});
    let posted = first.post(job(100_000, asks)).await.unwrap();
    until(async || first.job(posted).unwrap().stage == Stage::Execution).await;
    let left = left_by(&journal);

    let second = with_slots(left, vec![look.clone()], 1).await;
    second.resume_all().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(!look.has_started(), "nothing is to be had");
    second.cancel(posted).await.unwrap();
    look.go(2);
    let outcome = tokio::time::timeout(PATIENCE, second.outcome(run)).await;
    assert_eq!(outcome.unwrap().unwrap(), RunStatus::Succeeded);
}

/// Each change of whether the run waits for credits.
fn waits(journal: &MemoryJournal, run: RunId) -> Vec<bool> {
    let records = journal.read(StreamId::run(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
    let waits = records.iter().filter_map(|record| match record.event {
        Event::OutOfCredit { out } => Some(out),
        _ => None,
    });
    waits.collect()
}

#[tokio::test]
async fn what_was_queued_before_a_contract_was_signed_does_not_spend_what_is_reserved_for_it() {
    let (busy, hold) = (
        Hold::new("busy", Effect::Read, Idempotency::Natural),
        Hold::new("hold", Effect::Read, Idempotency::Natural),
    );
    let journal = Arc::new(MemoryJournal::default());
    let system = with_slots(journal.clone(), vec![busy.clone(), hold.clone()], 2).await;
    deposit(&system, 500).await;
    offers(&system, "a", 5).await;
    // Two runs of another client take all slots.
    for _ in 0..2 {
        common::submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "busy"}]})).await;
        busy.started().await;
    }
    // One node is queued, and another asks for a slot when the contract is signed.
    let plan = common::plan(
        &system,
        json!({"id": "p", "nodes": [
            {"id": "queued", "tool": "text.render", "params": {"template": "a", "values": {}}},
            {"id": "nap", "tool": "time.sleep", "params": {"ms": 300}},
            {"id": "later", "tool": "text.render", "params": {"template": "b", "values": {}}, "deps": ["nap"]},
        ]}),
    );
    let other = system.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    until(async || common::states(&system, other).await.contains("nap running")).await;
    let holds = json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]});
    let posted = system.post(job(500, holds)).await.unwrap();
    system.job_at(posted, Stage::Execution).await.unwrap();
    until(async || system.view(other, None).await.unwrap().out_of_credit).await;
    busy.go(2);
    hold.started().await;
    // The other run gets no slot, though one is free.
    let only_job_runs = async || system.clients().await.iter().map(|row| row.running).sum::<u32>() == 1;
    until(only_job_runs).await;
    until(async || common::states(&system, other).await.contains("later ready")).await;
    let states = common::states(&system, other).await;
    assert!(states.contains("queued ready") && states.contains("later ready"), "{states}");
    assert!(system.view(other, None).await.unwrap().out_of_credit);
    assert_eq!(waits(&journal, other), [true]);
    hold.go(1);
    over(&system, posted).await;
    system.outcome(other).await.unwrap();
    assert_eq!(waits(&journal, other), [true, false]);
    assert_eq!(credits(&system).1, 0);
}

#[tokio::test]
async fn runs_that_wait_for_what_is_reserved_need_no_actor() {
    let (busy, other) = (
        Hold::new("busy", Effect::Read, Idempotency::Natural),
        Hold::new("other", Effect::Read, Idempotency::Natural),
    );
    let journal = Arc::new(MemoryJournal::default());
    let limits = Limits { live_agents: 2, ..Limits::default() };
    let system = within(journal.clone(), vec![busy.clone(), other.clone()], limits).await;
    deposit(&system, 500_000).await;
    offers(&system, "a", 5).await;
    let posted =
        system.post(job(500_000, json!({"id": "p", "nodes": [{"id": "n", "tool": "busy"}]}))).await.unwrap();
    busy.started().await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        let plan = common::plan(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "other"}]}));
        let submission = Submission { client: "acme".into(), ..Submission::plan(plan) };
        runs.push(system.submit(submission).await.unwrap());
    }
    let idle = async || system.agents().await.iter().filter(|agent| agent.state == "idle").count() == 20;
    until(idle).await;
    assert!(!other.has_started());
    other.go(20);
    busy.go(1);
    over(&system, posted).await;
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        assert_eq!(waits(&journal, run), [true, false]);
    }
    system.shutdown().await;
}

fn nodes(ids: std::ops::Range<usize>) -> serde_json::Value {
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "hold"});
    json!({"id": "p", "nodes": ids.map(node).collect::<Vec<_>>()})
}

#[tokio::test(start_paused = true)]
async fn attempts_beside_a_reservation_hold_credits_of_the_free_rest() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = with_slots(Arc::new(MemoryJournal::default()), vec![hold.clone()], 16).await;
    deposit(&system, 50_250).await;
    offers(&system, "a", 1).await;
    let asks = json!({"id": "p", "nodes": [{"id": "ok", "kind": "human_approval", "human_timeout": "9h"}]});
    let posted = system.post(job(50_000, asks)).await.unwrap();
    system.job_at(posted, Stage::Execution).await.unwrap();
    let plan = common::plan(&system, nodes(0..6));
    let other = system.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    hold.started().await;
    hold.started().await;
    assert_eq!(system.clients().await[0].running, 2, "250 free credits hold two attempts");
    until(async || system.view(other, None).await.unwrap().out_of_credit).await;
    // The end of the job frees its reservation.
    system.cancel(posted).await.unwrap();
    hold.go(6);
    assert_eq!(system.outcome(other).await.unwrap(), RunStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn what_a_job_costs_takes_nothing_from_the_free_rest() {
    let (hold, mine) = (
        Hold::new("hold", Effect::Read, Idempotency::Natural),
        Hold::new("mine", Effect::Read, Idempotency::Natural),
    );
    let system = with_slots(Arc::new(MemoryJournal::default()), vec![hold.clone(), mine.clone()], 16).await;
    deposit(&system, 1_150).await;
    offers(&system, "a", 1).await;
    let two = json!({"id": "p", "nodes": [
        {"id": "n", "tool": "mine"}, {"id": "m", "tool": "mine", "deps": ["n"]},
    ]});
    let posted = system.post(job(1_000, two)).await.unwrap();
    mine.started().await;
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    mine.go(1);
    mine.started().await;
    let plan = common::plan(&system, nodes(0..2));
    let other = system.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    hold.started().await;
    assert_eq!(system.clients().await[0].running, 2, "one attempt of each run");
    mine.go(1);
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("succeeded"), "{row:?}");
    hold.go(2);
    assert_eq!(system.outcome(other).await.unwrap(), RunStatus::Succeeded);
    assert!(system.audit().unwrap().iter().all(|audit| audit.violations.is_empty()));
}
