//! Evaluation of runs by records, judges and people, and the resulting reputation.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{judged_by, left_by, memory, plan, submit, system, until};
use ostler_actors::{
    AgentEvaluation, AgentProfile, Answer, EvaluationError, Submission, System, VerdictRequest, like,
};
use ostler_kernel::evaluation::{Judgement, Reputation, Weights};
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::market::Offer;
use ostler_kernel::port::{BoxFuture, Judge, JudgedRun, Opinion, Seq};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// Judges a result by the presence of each word, as an expert would check for key facts.
struct Words(&'static [&'static str]);

impl Judge for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move {
            assert_eq!(work.plan, "p");
            let text = Value::Object(work.outputs).to_string();
            if text.contains("panic") {
                panic!("as asked for");
            }
            if text.contains("blank") {
                return Err("there is nothing to read".to_owned());
            }
            if text.contains("zealous") {
                return Ok(Opinion {
                    quality_pm: 1_001,
                    note: "more than good".to_owned(),
                    ..Opinion::default()
                });
            }
            let found = self.0.iter().filter(|word| text.contains(**word)).count();
            let quality_pm = (1_000 * found / self.0.len()) as u16;
            Ok(Opinion {
                quality_pm,
                note: format!("{found} of {} words", self.0.len()),
                ..Opinion::default()
            })
        })
    }
}

fn says(text: &str) -> Value {
    json!({"id": "p", "nodes": [{"id": "n", "tool": "text.render", "params": {"template": text, "values": {}}}]})
}

async fn done(system: &System, run: RunId) {
    assert!(system.outcome(run).await.unwrap().status.is_over());
}

/// Runs a plan of a named agent to its end.
async fn run_of(system: &System, agent: &str, source: Value) -> RunId {
    let agent = system.spawn(AgentProfile::new(agent)).await.unwrap();
    let run = agent.submit(Submission::plan(plan(system, source))).await.unwrap();
    done(system, run).await;
    run
}

async fn judgement(system: &System, run: RunId) -> Judgement {
    let evaluation = system.evaluation(run).await.unwrap();
    evaluation.appraised.judgement.unwrap()
}

fn verdict(quality_pm: u16) -> VerdictRequest {
    VerdictRequest {
        quality_pm: Some(quality_pm),
        adherence_pm: None,
        by: "pat".into(),
        note: "read it".into(),
    }
}

fn of<'a>(all: &'a [AgentEvaluation], agent: &str) -> &'a AgentEvaluation {
    all.iter().find(|one| one.agent.as_ref().is_some_and(|name| name.as_str() == agent)).unwrap()
}

/// Waits for an agent's reputation after `scores` scores.
async fn reputation(system: &System, agent: &str, scores: u64) -> Reputation {
    let found = || of(&system.evaluations().unwrap(), agent).reputation;
    until(async || found().scores() == scores).await;
    found()
}

#[tokio::test]
async fn what_a_judge_says_is_the_quality_of_a_run() {
    let system = judged_by(Words(&["risk", "cost"])).await;
    let run = submit(&system, says("the risk is low")).await;
    done(&system, run).await;
    let evaluation = system.evaluation(run).await.unwrap();
    let scores = evaluation.row.evaluated.unwrap().scores;
    assert_eq!(scores.quality, Some(500));
    assert_eq!(evaluation.composite, Weights::DEFAULT.composite(&scores));
    let expected = Judgement { by: "words".into(), quality: Some(500), note: "1 of 2 words".into() };
    assert_eq!(evaluation.appraised.judgement, Some(expected));
    let mut events = system.events(run, Seq(0)).unwrap();
    let mut last = Vec::new();
    while let Some(record) = events.next().await {
        last.push(record.unwrap().event);
    }
    let [.., appraised, evaluated, closed] = &last[..] else { panic!("{last:?}") };
    assert!(matches!(appraised, Event::Appraised(_)) && matches!(evaluated, Event::Evaluated(_)));
    assert!(matches!(closed, Event::RunClosed { .. }), "nothing follows the end of a run");
}

#[tokio::test]
async fn a_judge_is_not_shown_a_result_that_a_person_refused() {
    for (answer, quality) in [(Answer::approve(), 500), (Answer::reject(), 0)] {
        let system = judged_by(Words(&["risk", "cost"])).await;
        let mut source = says("the risk is low");
        for (name, value) in
            [("approval", json!("after")), ("human_timeout", json!("1h")), ("retries", json!(0))]
        {
            source["nodes"][0][name] = value;
        }
        let run = submit(&system, source).await;
        until(async || !system.approvals(run).await.unwrap().is_empty()).await;
        let approval = system.approvals(run).await.unwrap().remove(0);
        system.answer(&approval.id, approval.digest.unwrap(), answer).await.unwrap();
        done(&system, run).await;
        assert_eq!(judgement(&system, run).await.quality, Some(quality));
    }
}

#[tokio::test]
async fn a_judge_that_fails_leaves_the_quality_unknown_and_says_so() {
    let system = judged_by(Words(&["risk"])).await;
    for (text, note) in [
        ("blank", "there is nothing to read"),
        ("panic", "the judge panicked"),
        ("zealous", "quality 1.001 is not within 0 and 1 (in thousandths, up to 1000)"),
    ] {
        let run = submit(&system, says(text)).await;
        done(&system, run).await;
        let Judgement { quality, note: told, .. } = judgement(&system, run).await;
        assert_eq!((quality, told.as_str()), (None, note));
        let evaluation = system.evaluation(run).await.unwrap();
        assert_eq!(evaluation.row.evaluated.unwrap().scores.quality, None);
        assert!(evaluation.composite.is_some(), "the other dimensions count");
    }
}

#[tokio::test]
async fn a_verdict_is_one_more_score_and_outlives_the_process() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    let run = run_of(&first, "worker", says("done")).await;
    let before = reputation(&first, "worker", 1).await;
    for said_again in [false, true] {
        first.judge(run, verdict(200)).await.unwrap_or_else(|error| panic!("{said_again}: {error}"));
    }
    let evaluation = first.evaluation(run).await.unwrap();
    let evaluated = evaluation.row.evaluated.unwrap();
    assert_eq!(evaluated.scores.quality, Some(200));
    let [(_, said)] = &evaluation.verdicts[..] else { panic!("{:?}", evaluation.verdicts) };
    assert_eq!((said.by.as_str(), said.note.as_str(), said.quality), ("pat", "read it", Some(200)));
    let after = reputation(&first, "worker", 2).await;
    assert_eq!(after, before.after(evaluated.composite));
    first.judge(run, verdict(900)).await.unwrap();
    let last = reputation(&first, "worker", 3).await;

    let second = system(left_by(&journal), Vec::new()).await;
    assert_eq!(reputation(&second, "worker", 3).await, last);
    let evaluation = second.evaluation(run).await.unwrap();
    assert_eq!(evaluation.verdicts.len(), 2);
    assert_eq!(evaluation.row.evaluated.unwrap().scores.quality, Some(900));
}

#[tokio::test]
async fn what_cannot_be_judged_is_refused_and_nothing_changes() {
    let system = memory().await;
    let run = run_of(&system, "worker", says("done")).await;
    let before = reputation(&system, "worker", 1).await;
    let refused = async |run: RunId, request: VerdictRequest| system.judge(run, request).await.unwrap_err();
    assert!(matches!(refused(run, verdict(1_001)).await, EvaluationError::Score(_)));
    let nothing = VerdictRequest { quality_pm: None, ..verdict(0) };
    assert!(matches!(refused(run, nothing).await, EvaluationError::Nothing));
    let nobody = VerdictRequest { by: String::new(), ..verdict(1) };
    assert!(matches!(refused(run, nobody).await, EvaluationError::Run(_)));
    let open = submit(
        &system,
        json!({"id": "p", "nodes": [{"id": "h", "kind": "human_approval", "human_timeout": "1h"}]}),
    )
    .await;
    assert!(matches!(refused(open, verdict(1)).await, EvaluationError::NotOver(_)));
    system.cancel(open).await.unwrap();
    done(&system, open).await;
    assert!(matches!(refused(open, verdict(1)).await, EvaluationError::NotEvaluated(_)));
    assert!(matches!(refused(ostler_actors::new_run_id(), verdict(1)).await, EvaluationError::Run(_)));
    assert_eq!(reputation(&system, "worker", 1).await, before);
}

#[tokio::test]
async fn runs_that_nobody_had_to_help_are_counted() {
    let system = memory().await;
    run_of(&system, "alone", says("a")).await;
    run_of(&system, "helped", says("a")).await;
    let agent = system.spawn(AgentProfile::new("helped")).await.unwrap();
    let asks = json!({"id": "p", "nodes": [{"id": "h", "kind": "human_approval", "human_timeout": "1h"}]});
    let run = agent.submit(Submission::plan(plan(&system, asks))).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    let approval = system.all_approvals().await.unwrap().approvals.remove(0);
    system.answer(&approval.id, approval.digest.unwrap(), Answer::approve()).await.unwrap();
    done(&system, run).await;
    let all = system.evaluations().unwrap();
    let told = |agent: &str| (of(&all, agent).runs, of(&all, agent).zero_intervention_pm());
    assert_eq!((told("alone"), told("helped")), ((1, Some(1_000)), (2, Some(500))));
}

#[tokio::test]
async fn an_agent_is_judged_by_the_weights_of_its_domain() {
    let system = memory().await;
    system.spawn(AgentProfile::new("jurist")).await.unwrap();
    let offer = Offer { domain: Some("legal".into()), time_ms: Some(3_600_000), ..Offer::default() };
    system.offer("jurist", offer).await.unwrap();
    let run = run_of(&system, "jurist", says("a")).await;
    system.judge(run, verdict(500)).await.unwrap();
    let evaluation = system.evaluation(run).await.unwrap();
    assert_eq!(evaluation.appraised.domain, "legal");
    let scores = evaluation.row.evaluated.unwrap().scores;
    assert_eq!(scores.speed, 1_000, "far below its own target");
    assert_eq!(evaluation.composite, Weights::LEGAL.composite(&scores));
    assert_ne!(evaluation.composite, Weights::DEFAULT.composite(&scores));
    assert_eq!(evaluation.row.evaluated.unwrap().composite, evaluation.composite.unwrap().pm());
}

#[tokio::test]
async fn the_domain_of_an_agent_is_that_of_its_offer_or_else_of_its_profile() {
    let system = memory().await;
    let domain = || of(&system.evaluations().unwrap(), "jurist").domain.clone();
    let agent = system.spawn(AgentProfile::new("jurist").domain("legal")).await.unwrap();
    let run = agent.submit(Submission::plan(plan(&system, says("a")))).await.unwrap();
    done(&system, run).await;
    assert_eq!(system.evaluation(run).await.unwrap().appraised.domain, "legal");
    assert_eq!(domain(), "legal");
    reputation(&system, "jurist", 1).await;
    for (offered, counts) in [(None, "legal"), (Some("security"), "security")] {
        let offer = Offer { domain: offered.map(str::to_owned), ..Offer::default() };
        system.offer("jurist", offer).await.unwrap();
        assert_eq!(domain(), counts, "{offered:?}");
        let row = system.agent(&"jurist".into()).await.unwrap();
        assert_eq!(row.profile.domain.as_deref(), Some("legal"), "{offered:?}");
        assert_eq!(row.offer.unwrap().domain.as_deref(), offered);
    }
}

#[tokio::test]
async fn an_agent_of_a_domain_without_weights_is_not_spawned() {
    let system = memory().await;
    let refused = system.spawn(AgentProfile::new("cook").domain("cooking")).await;
    let told = refused.err().unwrap().to_string();
    assert_eq!(
        told,
        "unknown domain \"cooking\": known domains: dashboard, default, legal, security, web-testing"
    );
    assert!(system.agent(&"cook".into()).await.is_none());
}

#[tokio::test]
async fn the_nearest_agents_are_those_with_the_most_like_scores() {
    let system = memory().await;
    for (agent, quality) in [("good", 900), ("fair", 850), ("poor", 100)] {
        let run = run_of(&system, agent, says("a")).await;
        system.judge(run, verdict(quality)).await.unwrap();
    }
    let all = system.evaluations().unwrap();
    let near = like(&all, "good", system.domains(), 5).unwrap();
    let names: Vec<&str> = near.iter().map(|near| near.id.as_str()).collect();
    assert_eq!(names, ["fair", "poor"]);
    assert!(like(&all, "nobody", system.domains(), 5).is_none());
}

#[tokio::test]
async fn an_agent_that_falls_far_below_its_average_raises_an_alarm() {
    let system = memory().await;
    for _ in 0..4 {
        let run = run_of(&system, "worker", says("a")).await;
        system.judge(run, verdict(1_000)).await.unwrap();
    }
    assert_eq!(of(&system.evaluations().unwrap(), "worker").degradation, None);
    let run = run_of(&system, "worker", says("a")).await;
    system.judge(run, verdict(0)).await.unwrap();
    let fell = of(&system.evaluations().unwrap(), "worker").degradation.unwrap();
    assert_eq!((fell.dimension.as_str(), fell.from_pm, fell.to_pm), ("quality", 1_000, 0));
}

/// At most a quarter either way, and nothing in the middle (decision 0011: credits set the weight).
#[tokio::test]
async fn reputation_bends_the_weight_of_its_client() {
    let system = memory().await;
    let run = run_of(&system, "worker", says("a")).await;
    for reader in 0..8 {
        let by = format!("reader {reader}");
        system.judge(run, VerdictRequest { adherence_pm: Some(0), by, ..verdict(0) }).await.unwrap();
    }
    reputation(&system, "worker", 9).await;
    let served = async || {
        let row = system.clients().await.remove(0);
        let pm = i64::from(row.reputation_pm.unwrap());
        (i64::from(row.weight_served), 100 * (1_000 + (pm - 500) / 2) / 1_000)
    };
    until(async || {
        let (served, expected) = served().await;
        served == expected
    })
    .await;
    assert!((75..=125).contains(&served().await.0));
}

/// A judge without a name.
struct Nameless;

impl Judge for Nameless {
    fn name(&self) -> &str {
        panic!("as asked for")
    }

    fn judge(&self, _: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async { Ok(Opinion { quality_pm: 500, ..Opinion::default() }) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_though_its_judge_panics_when_it_is_asked_for_its_name() {
    let system = judged_by(Nameless).await;
    let run = submit(&system, says("risk")).await;
    let within = std::time::Duration::from_secs(3_600);
    tokio::time::timeout(within, done(&system, run)).await.unwrap();
    let Judgement { by, quality, .. } = judgement(&system, run).await;
    assert_eq!((by.as_str(), quality), ("a judge that panics when it is asked for its name", Some(500)));
}

/// Rates quality and adherence with the same score.
struct Both(u16);

impl Judge for Both {
    fn name(&self) -> &str {
        "both"
    }

    fn judge(&self, _: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async {
            Ok(Opinion { quality_pm: self.0, adherence_pm: Some(self.0), note: "alike".to_owned() })
        })
    }
}

#[tokio::test]
async fn a_judge_lowers_the_adherence_of_the_contracts() {
    for (score, expected) in [(300, Some(300)), (1_000, Some(1_000)), (1_001, None)] {
        let system = judged_by(Both(score)).await;
        let run = submit(&system, says("x")).await;
        done(&system, run).await;
        let scores = system.evaluation(run).await.unwrap().row.evaluated.unwrap().scores;
        let adherence = expected.or(Some(1_000));
        assert_eq!((scores.quality, scores.adherence), (expected, adherence), "{score}");
    }
}
