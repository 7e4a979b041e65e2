//! The market: jobs from stage to stage across deaths, and credits that add up.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod kept;
mod reserved;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Hold, PATIENCE, left_by, system, until, within};
use ostler_actors::{
    AgentProfile, Answer, ClientChange, JobRequest, JobRow, Limits, MarketError, OfferRefused, Program,
    ProgramContext, Settled, Submission, System, VerdictRequest,
};
use ostler_kernel::agent::Oversight;
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::ledger::CreditError;
use ostler_kernel::market::{JobFault, Offer, Stage};
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{ChildRunSpec, Journal, Seq, StreamId, Tool};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

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

/// Free, reserved and spent credits of client `acme`; checks their sum.
fn credits(system: &System) -> (i64, u64, u64) {
    let audit = system.audit().unwrap().remove(0);
    assert_eq!(audit.violations, []);
    assert!(audit.credits.adds_up());
    (audit.credits.balance(), audit.credits.reserved(), audit.credits.spent())
}

async fn over(system: &System, job: RunId) -> JobRow {
    tokio::time::timeout(PATIENCE, system.job_over(job)).await.unwrap().unwrap()
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
    // A person's later verdict is the score.
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

    // A job waiting for a person is open, and one open job is the limit.
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
