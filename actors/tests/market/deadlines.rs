//! Deadlines: no work of a job starts after its deadline, and unfinished work then fails.

use ostler_kernel::event::OperatorAct;
use ostler_kernel::run::RunStatus;

use super::*;

/// Recorded acts of operators on an ended run.
async fn acts(system: &System, run: RunId) -> Vec<OperatorAct> {
    let (mut events, mut acts) = (system.events(run, Seq(0)).unwrap(), Vec::new());
    while let Some(record) = events.next().await {
        if let Event::Operator(act) = record.unwrap().event {
            acts.push(act);
        }
    }
    acts
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

/// The next process finds the job after its deadline: no request starts any of its work.
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
        if matches!(wants, "all" | "resume") {
            // Whatever the run waits for by its records.
            let settled = second.outcome(posted).await.unwrap();
            assert_eq!(settled, RunStatus::Cancelled, "{begins}, {wants}");
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

/// The job's run has opened a child run, which is loaded first.
#[tokio::test(start_paused = true)]
async fn nothing_that_a_job_opened_starts_after_its_deadline() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let tools = || -> Vec<Arc<dyn Tool>> {
        let opens = Program::new("opens", "1", |agent: ProgramContext, _: Value| async move {
            let plan = json!({"id": "c", "nodes": [{"id": "m", "tool": "hold", "timeout": "1h"}]});
            let plan: PlanDraft = serde_json::from_value(plan).unwrap();
            agent.spawn("child", ChildRunSpec::plan(plan)).await?;
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
    // Test time advances only when all tasks are idle; here a call runs.
    until(async || hold.has_started()).await;
    until(async || first.job(posted).unwrap().stage == Stage::Execution).await;
    hold.started().await;
    let second = system(left_by(&journal), tools()).await;
    tokio::time::sleep(std::time::Duration::from_secs(700)).await;
    let child = journal.runs(false).unwrap().into_iter().find(|row| row.run != posted).unwrap();
    second.resume(child.run).await.unwrap();
    let outcome = second.outcome(child.run).await.unwrap();
    assert_eq!(outcome, Settled::new(RunStatus::Cancelled));
    assert_eq!(acts(&second, child.run).await, [OperatorAct::StopLate]);
    assert_eq!(second.evaluation(child.run).await.unwrap().row.acts, 0, "nobody did anything");
    assert!(!hold.has_started());
}
