//! The market: jobs from stage to stage, whatever dies in between, and credits that add up.
#![allow(clippy::unwrap_used)] // a test that unwraps in vain fails, which is its purpose

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use common::{Hold, left_by, once_let_go, system, until, with_slots, within};
use ostler_actors::{
    AgentProfile, Answer, ClientChange, JobRequest, JobRow, Limits, MarketError, OfferRefused, Program,
    ProgramContext, Settled, Submission, System, VerdictRequest, Violation,
};
use ostler_kernel::agent::Oversight;
use ostler_kernel::event::{Event, OperatorAct};
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::ledger::CreditError;
use ostler_kernel::market::{JobFault, MarketStep, Offer, Stage};
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{
    AccountRow, BoxFuture, Child, Journal, JournalError, Position, Recorded, RunRow, Seq, StreamBatch,
    StreamId, StreamKind, Tool,
};
use ostler_kernel::run::RunOutcome;
use ostler_store::{MemoryArtifacts, MemoryJournal, Options, Store, Unwanted};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn says(text: &str) -> Value {
    json!({"id": "p", "nodes": [{"id": "n", "tool": "text.render", "params": {"template": text, "values": {}}}]})
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

fn job(budget: u64, plan: Value) -> JobRequest {
    JobRequest {
        id: None,
        client: "acme".into(),
        title: "read the contract".into(),
        capabilities: words(&["contracts"]),
        domain: None,
        budget,
        deadline: None,
        oversight: Oversight::AutonomousEscalation,
        plan: serde_json::from_value(plan).unwrap(),
        intent: 2,
        scope: "default".into(),
        workspace: ".".into(),
    }
}

async fn offers(system: &System, agent: &str, price: u64) {
    system.spawn(AgentProfile::new(agent).client("acme")).await.unwrap();
    let capabilities = words(&["contracts", "gdpr"]);
    let offer = Offer { capabilities, price: Some(price), ..Offer::default() };
    system.offer(agent, offer).await.unwrap();
}

async fn deposit(system: &System, credits: i64) {
    let change = ClientChange { credits: Some(credits), ..ClientChange::default() };
    system.change_client("acme", change).await.unwrap();
}

/// Free, reserved and spent credits of client `acme`, which add up.
fn credits(system: &System) -> (i64, u64, u64) {
    let audit = system.audit().unwrap().remove(0);
    assert_eq!(audit.violations, []);
    assert!(audit.credits.adds_up());
    (audit.credits.balance(), audit.credits.reserved(), audit.credits.spent())
}

/// What operators did to a run that is over, and what was done in their place.
async fn acts(system: &System, run: RunId) -> Vec<OperatorAct> {
    let (mut events, mut acts) = (system.events(run, Seq(0)).unwrap(), Vec::new());
    while let Some(record) = events.next().await {
        if let Event::Operator(act) = record.unwrap().event {
            acts.push(act);
        }
    }
    acts
}

async fn over(system: &System, job: RunId) -> JobRow {
    tokio::time::timeout(std::time::Duration::from_secs(60), system.job_over(job)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_job_goes_to_the_best_proposal_and_what_is_left_of_its_budget_is_given_back() {
    let system = common::memory().await;
    deposit(&system, 1_000).await;
    for (agent, price) in [("dear", 800), ("cheap", 100), ("beyond", 901)] {
        offers(&system, agent, price).await;
    }
    system.spawn(AgentProfile::new("silent").client("acme")).await.unwrap();
    let posted = system.post(job(900, says("done"))).await.unwrap();
    let row = over(&system, posted).await;
    assert_eq!((row.stage, row.winner.as_ref().map(|it| it.as_str())), (Stage::Evaluation, Some("cheap")));
    assert_eq!(
        (row.price, row.outcome.as_deref(), row.reason.as_deref()),
        (Some(100), Some("succeeded"), None)
    );
    assert!(row.composite_pm.unwrap() > 900, "{row:?}");
    assert_eq!(credits(&system), (1_000 - row.spent as i64, 0, row.spent));
    // What a person says of it later is its score.
    let worst =
        VerdictRequest { quality_pm: Some(0), adherence_pm: Some(0), by: "pat".into(), note: String::new() };
    system.judge(posted, worst).await.unwrap();
    assert!(system.job(posted).unwrap().composite_pm < row.composite_pm);
    let evaluation = system.evaluation(posted).await.unwrap();
    assert_eq!(evaluation.appraised.target.credits, Some(100), "the price is what it is held against");
}

#[tokio::test]
async fn an_agent_of_better_reputation_gets_the_contract() {
    let system = common::memory().await;
    for agent in ["poor", "good"] {
        offers(&system, agent, 500).await;
        let agent = system.spawn(AgentProfile::new(agent).client("acme")).await.unwrap();
        let plan = common::plan(&system, says("a"));
        let run = agent.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
        system.outcome(run).await.unwrap();
        let quality_pm = Some(if agent.name().as_str() == "good" { 1_000 } else { 0 });
        let verdict =
            VerdictRequest { quality_pm, adherence_pm: None, by: "pat".into(), note: String::new() };
        system.judge(run, verdict).await.unwrap();
    }
    let told = || system.evaluations().unwrap().iter().map(|one| one.reputation.scores()).sum::<u64>();
    until(async || told() == 4).await;
    let row = over(&system, system.post(job(900, says("done"))).await.unwrap()).await;
    assert_eq!(row.winner.unwrap().as_str(), "good");
}

#[tokio::test]
async fn no_job_goes_to_an_agent_that_does_not_take_what_its_plan_is_given() {
    let system = common::memory().await;
    for (agent, price, input) in [("strict", 1, "integer"), ("able", 100, "object")] {
        let profile = AgentProfile::new(agent).client("acme").capabilities(["contracts"]).price(price);
        let schema = json!({"properties": {"values": {"type": input}}});
        system.spawn(profile.input(schema)).await.unwrap();
    }
    let row = over(&system, system.post(job(900, says("done"))).await.unwrap()).await;
    assert_eq!((row.winner.unwrap().as_str(), row.outcome.as_deref()), ("able", Some("succeeded")));
}

#[tokio::test]
async fn what_cannot_be_posted_or_offered_is_refused_and_nothing_is_written_down() {
    let journal = Arc::new(MemoryJournal::default());
    let limits = Limits { jobs_open: 1, ..Limits::default() };
    let system = within(journal.clone(), Vec::new(), limits).await;
    deposit(&system, 100).await;
    let stream = StreamId::client(&"acme".into());
    let records = || journal.read(stream, Seq(0), usize::MAX).unwrap().len();
    let before = records();
    let refused = async |request: JobRequest| system.post(request).await.unwrap_err();
    let beyond = refused(job(101, says("a"))).await;
    let error = CreditError::BeyondBalance { balance: 100, wanted: 101 };
    assert!(matches!(beyond, MarketError::Credits(found) if found == error));
    let MarketError::Job(faults) = refused(JobRequest { deadline: Some(1), ..job(0, says("a")) }).await
    else {
        panic!()
    };
    assert!(matches!(faults.0[..], [JobFault::Budget(0), JobFault::Deadline { .. }]), "{faults}");
    let unknown = JobRequest { domain: Some("cooking".into()), ..job(1, says("a")) };
    assert!(matches!(refused(unknown).await, MarketError::Domain(_)));
    let faulty = json!({"id": "p", "nodes": [{"id": "n", "tool": "no.such"}]});
    assert!(matches!(refused(job(1, faulty)).await, MarketError::Plan(_)));
    assert!(matches!(refused(JobRequest { intent: 3, ..job(1, says("a")) }).await, MarketError::Submit(_)));
    let refused_offer = system.offer("nobody", Offer::default()).await;
    assert!(matches!(refused_offer, Err(OfferRefused::Unknown(_))));
    assert_eq!(records(), before);
    assert_eq!(credits(&system), (100, 0, 0));

    // A job that waits for a person is open, and there may be one.
    offers(&system, "a", 5).await;
    let asks = json!({"id": "p", "nodes": [{"id": "h", "kind": "human_approval", "human_timeout": "1h"}]});
    let id = ostler_actors::new_run_id();
    let request = JobRequest { id: Some(id), ..job(60, asks) };
    assert_eq!(system.post(request.clone()).await.unwrap(), id);
    assert_eq!(system.post(request.clone()).await.unwrap(), id, "posted once more, it is the same job");
    assert!(matches!(refused(JobRequest { budget: 61, ..request }).await, MarketError::Taken(_)));
    assert!(matches!(refused(job(1, says("a"))).await, MarketError::TooMany(1)));
    system.job_at(id, Stage::Execution).await.unwrap();
    assert_eq!(credits(&system), (40, 60, 0));
}

#[tokio::test]
async fn of_jobs_that_are_posted_at_once_no_more_are_taken_than_the_balance_pays() {
    let system = common::memory().await;
    deposit(&system, 5_000).await;
    offers(&system, "a", 5).await;
    let asks = json!({"id": "p", "nodes": [{"id": "h", "kind": "human_approval", "human_timeout": "1h"}]});
    let posts = (0..12).map(|_| system.post(job(2_000, asks.clone())));
    let (taken, refused): (Vec<_>, Vec<_>) =
        futures::future::join_all(posts).await.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), system.jobs().unwrap().len()), (2, 2));
    for refused in refused {
        let error = CreditError::BeyondBalance { balance: 1_000, wanted: 2_000 };
        assert!(matches!(&refused, Err(MarketError::Credits(found)) if *found == error), "{refused:?}");
    }
    for job in taken {
        system.job_at(job.unwrap(), Stage::Execution).await.unwrap();
    }
    assert_eq!(credits(&system), (1_000, 4_000, 0));
}

#[tokio::test]
async fn a_job_that_nobody_can_do_fails_and_holds_nothing() {
    let system = common::memory().await;
    deposit(&system, 1_000).await;
    let none = over(&system, system.post(job(900, says("a"))).await.unwrap()).await;
    assert_eq!(
        none.reason.as_deref(),
        Some("no agent of the client offers anything, or none takes what the plan is given")
    );
    offers(&system, "a", 901).await;
    let row = over(&system, system.post(job(900, says("a"))).await.unwrap()).await;
    let told = "no proposal will do: agent a asks for 901 credits, the budget is 900";
    assert_eq!((row.stage, row.reason.as_deref(), row.winner), (Stage::Failed, Some(told), None));
    assert_eq!(credits(&system), (1_000, 0, 0));
}

#[tokio::test]
async fn of_the_jobs_that_are_over_the_newest_are_kept() {
    let limits = Limits { jobs_kept: 2, ..Limits::default() };
    let system = within(Arc::new(MemoryJournal::default()), Vec::new(), limits).await;
    offers(&system, "a", 5).await;
    let mut posted = Vec::new();
    for _ in 0..3 {
        posted.push(system.post(job(60, says("a"))).await.unwrap());
        until(async || system.job(posted[posted.len() - 1]).unwrap().stage.is_over()).await;
    }
    let kept: Vec<RunId> = system.jobs().unwrap().iter().map(|row| row.job).collect();
    assert_eq!(kept, posted[1..]);
    let again = JobRequest { id: Some(posted[0]), ..job(60, says("a")) };
    assert!(matches!(system.post(again).await, Err(MarketError::Taken(_))), "its run is there");
}

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
    let plan = common::plan(&system, says("a"));
    let other = system.submit(Submission { client: "acme".into(), ..Submission::plan(plan) }).await.unwrap();
    until(async || system.view(other, None).await.unwrap().out_of_credit).await;
    hold.go(1);
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("succeeded"));
    // What was left of it is free again.
    system.outcome(other).await.unwrap();
    let (free, reserved, _) = credits(&system);
    assert!(free > 0 && reserved == 0);
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
    // It goes on until nothing is left, and is ended then.
    let posted = system.post(job(20, two)).await.unwrap();
    hold.started().await;
    let row = over(&system, posted).await;
    assert_eq!(row.outcome.as_deref(), Some("failed"), "{row:?}");
    assert!(row.spent >= 20 && !hold.has_started());
    assert_eq!(credits(&system), (5_000 - row.spent as i64, 0, row.spent));
}

/// What a client has and its job may cost is the same, of which an attempt has left less than one is expected to cost.
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

/// Of a plan that is wider than its budget, what is left when that is used up comes to its end, whatever is left of credits.
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

/// A run that is for no contract, whose budget is used up together with the credits of its client.
#[tokio::test(start_paused = true)]
async fn a_run_whose_budget_is_used_up_does_not_wait_for_credits() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![hold.clone()]).await;
    deposit(&first, 300).await;
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "hold", "retries": 1});
    let plan = common::plan(&first, json!({"id": "p", "nodes": (0..8).map(node).collect::<Vec<_>>()}));
    let submission = Submission { client: "acme".into(), budget: Some(300), ..Submission::plan(plan) };
    let run = first.submit(submission).await.unwrap();
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(60), first.outcome(run)).await;
    assert_eq!(outcome.unwrap().unwrap(), Settled::Closed(RunOutcome::Failed));
    let records = journal.read(StreamId::run(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
    let told = format!("{records:?}");
    assert!(told.contains("the budget of the run, 300 credits, is used up"), "{told}");
}

/// A wait that costs nothing, and stood behind what is reserved when the budget of its run was used up.
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
    let submission = Submission { client: "acme".into(), budget: Some(350), ..Submission::plan(plan) };
    let run = system.submit(submission).await.unwrap();
    hold.started().await;
    let asks = json!({"id": "p", "nodes": [{"id": "ok", "kind": "human_approval", "human_timeout": "9h"}]});
    system.post(job(1_000, asks)).await.unwrap();
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(60), system.outcome(run)).await;
    let states = common::states(&system, run).await;
    assert_eq!(outcome.expect(&states).unwrap(), Settled::Closed(RunOutcome::Failed));
    assert!(states.contains("late executed") && states.contains("x failed"), "{states}");
}

/// What is reserved for a job does not stand behind what waits for credits.
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
    // Of another run one node costs nearly all there is, and one stands in the queue when that is paid.
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

#[tokio::test]
async fn a_job_that_is_not_over_by_its_deadline_fails() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    deposit(&system, 100_000).await;
    offers(&system, "a", 5).await;
    let holds = json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]});
    let posted =
        system.post(JobRequest { deadline: Some(now_ms() + 400), ..job(100_000, holds) }).await.unwrap();
    let row = over(&system, posted).await;
    assert_eq!(row.reason.as_deref(), Some("it was not over by its deadline"));
    assert_eq!(credits(&system).1, 0);
    assert_eq!(acts(&system, posted).await, [OperatorAct::StopLate]);
    let all = system.evaluations().unwrap();
    let [of_agent] = &all[..] else { panic!("{all:?}") };
    let told = (of_agent.runs, of_agent.zero_intervention_pm());
    assert_eq!(told, (1, Some(1_000)), "a deadline is no help of a person");
}

/// A process dies, and the next one finds the job when its deadline is past: whoever asks for what, nothing of it starts any more.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_job_starts_after_its_deadline() {
    for (begins, wants) in
        [("asked", "answer"), ("asked", "all"), ("asked", "job"), ("started", "all"), ("started", "resume")]
    {
        let hold = Hold::new("hold", Effect::External, Idempotency::Keyed);
        let journal = Arc::new(MemoryJournal::default());
        let first = system(journal.clone(), vec![hold.clone()]).await;
        deposit(&first, 1_000).await;
        offers(&first, "a", 5).await;
        let asks = json!({"id": "p", "nodes": [
            {"id": "ok", "kind": "human_approval", "human_timeout": "24h"},
            {"id": "n", "tool": "hold", "deps": ["ok"]},
        ]});
        let holds = json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]});
        let plan = if begins == "asked" { asks } else { holds };
        let deadline = now_ms() + 600_000;
        let posted = first.post(JobRequest { deadline: Some(deadline), ..job(900, plan) }).await.unwrap();
        match begins {
            "asked" => until(async || first.all_approvals().await.unwrap().approvals.len() == 1).await,
            _ => until(async || hold.has_started()).await,
        }
        until(async || first.job(posted).unwrap().stage == Stage::Execution).await;
        if begins == "started" {
            hold.started().await;
        }
        let second = system(left_by(&journal), vec![hold.clone()]).await;
        tokio::time::sleep(std::time::Duration::from_secs(700)).await;
        match wants {
            "answer" => {
                let approval = second.all_approvals().await.unwrap().approvals.remove(0);
                let answered = second.answer(&approval.id, approval.digest.unwrap(), Answer::approve()).await;
                assert!(answered.is_err(), "{begins}, {wants}");
            }
            "resume" => second.resume(posted).await.unwrap(),
            "job" => {
                second.resume_job(posted).await.unwrap();
                assert!(second.view(posted, None).await.unwrap().closed.is_some(), "it is over by then");
            }
            _ => drop(second.resume_all().await.unwrap()),
        }
        let row = over(&second, posted).await;
        assert_eq!(row.reason.as_deref(), Some("it was not over by its deadline"), "{begins}, {wants}");
        assert!(!hold.has_started(), "{begins}, {wants}");
        assert_eq!(credits(&second), (1_000, 0, 0), "{begins}, {wants}");
        assert_eq!(acts(&second, posted).await, [OperatorAct::StopLate], "{begins}, {wants}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_person_cancelled_in_time_was_not_late_whenever_that_is_seen() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    deposit(&first, 1_000).await;
    offers(&first, "a", 5).await;
    let asks = json!({"id": "p", "nodes": [{"id": "ok", "kind": "human_approval", "human_timeout": "24h"}]});
    let posted =
        first.post(JobRequest { deadline: Some(now_ms() + 600_000), ..job(900, asks) }).await.unwrap();
    until(async || first.all_approvals().await.unwrap().approvals.len() == 1).await;
    let second = system(left_by(&journal), Vec::new()).await;
    second.cancel(posted).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(700)).await;
    second.resume_job(posted).await.unwrap();
    let row = over(&second, posted).await;
    assert_eq!(row.reason.as_deref(), Some("its run was cancelled"));
    assert_eq!(acts(&second, posted).await, [OperatorAct::CancelPlan]);
}

#[tokio::test]
async fn a_question_of_a_job_shows_the_deadline_that_ends_it() {
    let system = common::memory().await;
    offers(&system, "a", 5).await;
    for (wait, of_job, expected_ms) in [("10s", 600_000, 10_000), ("24h", 600_000, 600_000)] {
        let asks =
            json!({"id": "p", "nodes": [{"id": "ok", "kind": "human_approval", "human_timeout": wait}]});
        let before = now_ms();
        let deadline = before + of_job;
        let posted = system.post(JobRequest { deadline: Some(deadline), ..job(9, asks) }).await.unwrap();
        system.job_at(posted, Stage::Execution).await.unwrap();
        until(async || system.approvals(posted).await.unwrap().len() == 1).await;
        let shown = system.approvals(posted).await.unwrap()[0].deadline.unwrap();
        assert_eq!(system.view(posted, None).await.unwrap().over_by, Some(deadline));
        if expected_ms == of_job {
            assert_eq!(shown, deadline);
        } else {
            assert!((before + expected_ms..deadline).contains(&shown), "{shown} of {before} and {deadline}");
        }
    }
}

/// The run of a job has opened another one, which is found first.
#[tokio::test(start_paused = true)]
async fn nothing_that_a_job_opened_starts_after_its_deadline() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let tools = || -> Vec<Arc<dyn Tool>> {
        let opens = Program::new("opens", "1", |agent: ProgramContext, _: Value| async move {
            let plan = json!({"id": "c", "nodes": [{"id": "m", "tool": "hold", "timeout": "1h"}]});
            let plan: PlanDraft = serde_json::from_value(plan).unwrap();
            agent.spawn("child", Child::plan(plan)).await?;
            Ok(json!({}))
        });
        vec![hold.clone(), Arc::new(opens)]
    };
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), tools()).await;
    offers(&first, "a", 5).await;
    let plan = json!({"id": "p", "nodes": [{"id": "n", "tool": "opens", "timeout": "1h"}]});
    let request = JobRequest { deadline: Some(now_ms() + 600_000), ..job(900_000, plan) };
    let posted = first.post(request).await.unwrap();
    // Time passes when nobody does anything: somebody does.
    until(async || hold.has_started()).await;
    until(async || first.job(posted).unwrap().stage == Stage::Execution).await;
    hold.started().await;
    let second = system(left_by(&journal), tools()).await;
    tokio::time::sleep(std::time::Duration::from_secs(700)).await;
    let child = journal.runs(false).unwrap().into_iter().find(|row| row.run != posted).unwrap();
    second.resume(child.run).await.unwrap();
    let outcome = second.outcome(child.run).await.unwrap();
    assert_eq!(outcome, Settled::Closed(RunOutcome::Cancelled));
    assert_eq!(acts(&second, child.run).await, [OperatorAct::StopLate]);
    assert_eq!(second.evaluation(child.run).await.unwrap().row.acts, 0, "nobody did anything");
    assert!(!hold.has_started());
}

#[tokio::test]
async fn supervised_jobs_show_every_result_to_a_person() {
    let system = common::memory().await;
    offers(&system, "a", 5).await;
    let request = JobRequest { oversight: Oversight::Supervised, ..job(900, says("a")) };
    let posted = system.post(request).await.unwrap();
    system.job_at(posted, Stage::Execution).await.unwrap();
    until(async || system.all_approvals().await.unwrap().approvals.len() == 1).await;
    let approval = system.all_approvals().await.unwrap().approvals.remove(0);
    assert_eq!(approval.id.run, posted);
    system.answer(&approval.id, approval.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(over(&system, posted).await.outcome.as_deref(), Some("succeeded"));
}

/// What is left of the credits is reserved, and of a run both an attempt that died with its process and a node that is ready wait
/// for that: they ask again now and then, and no more often the longer it takes.
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
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(60), second.outcome(run)).await;
    assert_eq!(outcome.unwrap().unwrap(), Settled::Closed(RunOutcome::Succeeded));
}

/// A journal in which some records are durable no earlier than they are let.
struct Late {
    journal: MemoryJournal,
    is_late: fn(&Event) -> bool,
    late: Mutex<Option<Position>>,
    go: Semaphore,
}

impl Late {
    fn new(is_late: fn(&Event) -> bool) -> Arc<Late> {
        let (journal, late) = (MemoryJournal::default(), Mutex::default());
        Arc::new(Late { journal, is_late, late, go: Semaphore::new(0) })
    }
}

impl Journal for Late {
    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let mut events = batches.iter().flat_map(|batch| &batch.events);
        let is_late = events.any(self.is_late);
        let position = self.journal.append(batches)?;
        if is_late {
            *self.late.lock().unwrap() = Some(position);
        }
        Ok(position)
    }

    fn durable(&self, position: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        let waits = self.late.lock().unwrap().is_some_and(|late| late <= position);
        Box::pin(async move {
            if waits {
                drop(self.go.acquire().await);
            }
            self.journal.durable(position).await
        })
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        self.journal.read(stream, after, limit)
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
    journal.go.close();
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
    // It has been answered by whoever writes it down once somebody who asked later was.
    for _ in 0..100 {
        system.agent(&"a".into()).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(!again.is_finished(), "it could be lost still");
    journal.go.close();
    first.await.unwrap();
    again.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_agent_is_told_with_its_profile_as_it_was_spawned_and_what_it_offers_now_beside_it() {
    let system = common::memory().await;
    let spawned = || AgentProfile::new("a").client("acme").capabilities(["draft"]).domain("legal").price(40);
    system.spawn(spawned()).await.unwrap();
    for (offered, capabilities, price) in [(None, "draft", 40), (Some(7), "contracts gdpr", 7)] {
        if let Some(price) = offered {
            offers(&system, "a", price).await;
        }
        let row = system.agent(&"a".into()).await.unwrap();
        assert_eq!((row.profile.capabilities.join(" "), row.profile.price), ("draft".to_owned(), Some(40)));
        assert_eq!(row.profile.domain.as_deref(), Some("legal"));
        let offer = row.offer.unwrap();
        let can: Vec<&str> = offer.capabilities.iter().map(String::as_str).collect();
        assert_eq!((can.join(" ").as_str(), offer.price), (capabilities, Some(price)));
    }
    system.spawn(AgentProfile::new("b")).await.unwrap();
    assert_eq!(system.agent(&"b".into()).await.unwrap().offer, None, "who says nothing offers nothing");
    system.spawn(spawned()).await.expect("its profile is what it was");
}

/// Whether a run waits for credits, each time that changed.
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
    // Two runs of somebody else take all there is.
    for _ in 0..2 {
        common::submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "busy"}]})).await;
        busy.started().await;
    }
    // One node is queued, and another one asks for a slot when the contract is signed.
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
    // The other run was granted a slot as well, and gave it back.
    let given_back = async || {
        let rows = system.clients().await;
        rows.iter().map(|row| row.running).sum::<u32>() == 1 && rows.iter().all(|row| row.queued == 0)
    };
    until(given_back).await;
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
        assert_eq!(system.outcome(run).await.unwrap(), Settled::Closed(RunOutcome::Succeeded));
        assert_eq!(waits(&journal, run), [true, false]);
    }
    system.shutdown().await;
}

/// A journal that holds what another did up to a position: what a process leaves behind that died there.
fn up_to(journal: &MemoryJournal, last: Position) -> Arc<MemoryJournal> {
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

/// The run of a job opens another; what that costs is paid by the contract, and by nothing else, whoever tells of it when.
#[tokio::test(start_paused = true)]
async fn what_the_runs_cost_that_a_job_opens_comes_out_of_its_reservation() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let source = json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"},
        {"id": "ask", "kind": "human_approval", "human_timeout": "9h", "deps": ["h"]}]});
    let child = Child::plan(serde_json::from_value::<PlanDraft>(source).unwrap());
    let child = Child { budget: Some(5_000), ..child };
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
    // Who waits for it has paid for the time until then, which is written down when it ends.
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

/// Dies after every record there is, and goes on: the job is done once, and nothing stays reserved.
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

/// Dies between the opening of the run and the record that tells of it, and then the run could not be opened any more.
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

/// What was spent before anything was deposited was free. When that is removed, what a job costs is paid by its reservation all the same.
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
    let unwanted = Unwanted { closed_before_ms: Some(i64::MAX), ..Unwanted::default() };
    once_let_go(|| Store::collect(folder.path(), unwanted, true)).await;

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
    // The same records, but for the budget of the contract, and for what it cost.
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
