//! The library, embedded in a program.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;
use std::process::Command;

use std::time::Duration;

use ostler::kernel::event::Failure;
use ostler::kernel::plan::{Plan, PlanDraft};
use ostler::kernel::policy::FinalAnswer;
use ostler::kernel::port::Seq;
use ostler::kernel::run::AnswerError;
use ostler::kernel::run::RunStatus;
use ostler::{
    AgentProfile, Answer, Approval, Goal, GoalError, Ostler, Program, ProgramContext, RunError, Settled,
    StartError, Submission,
};
use serde_json::json;

fn plan(os: &Ostler, ms: u64) -> Plan {
    let nodes = json!([
        {"id": "nap", "tool": "time.sleep", "params": {"ms": ms}},
        {"id": "say", "tool": "text.render", "params": {"template": "done", "values": {}},
         "deps": ["nap"]},
    ]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    os.plan(draft).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn open_runs_go_on_when_the_folder_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let os = Ostler::builder().data_dir(folder.path()).start().await.unwrap();
    let agent = os.spawn(AgentProfile::new("auditor").client("acme")).await.unwrap();
    let run = agent.submit(Submission::plan(plan(&os, 300))).await.unwrap();
    let mut events = run.events().unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(first.seq, Seq(1));
    let id = run.id();
    os.shutdown().await;
    drop((os, agent, run, events));

    let os = Ostler::builder().data_dir(folder.path()).start().await.unwrap();
    let run = os.run(id);
    assert_eq!(run.outcome().await.unwrap(), Settled::new(ostler::kernel::run::RunStatus::Succeeded));
    assert_eq!(run.artifact("say").await.unwrap().content, br#"{"text":"done"}"#);
    assert!(run.cancel().await.is_err(), "it is over");
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_rest_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let os = Ostler::builder().data_dir(folder.path()).start().await.unwrap();
    let id = os.submit(Submission::plan(plan(&os, 60_000))).await.unwrap().id();
    os.shutdown().await;
    drop(os);
    let os = Ostler::builder().data_dir(folder.path()).without_resume().start().await.unwrap();
    assert_eq!(os.run(id).outcome().await.unwrap(), RunStatus::Queued);
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_works_while_a_program_holds_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let os = Ostler::builder().data_dir(folder.path()).start().await.unwrap();
    let run = os.submit(Submission::plan(plan(&os, 60_000))).await.unwrap();
    let ostler = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/config"));
        let output = command.arg("--data").arg(folder.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ostler(&["ps"]).contains("waiting"));
    ostler(&["cancel", &run.id().to_string()]);
    assert_eq!(run.outcome().await.unwrap(), Settled::new(ostler::kernel::run::RunStatus::Cancelled));
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let os = Ostler::builder().data_dir(folder.path()).start().await.unwrap();
    let second = Ostler::builder().data_dir(folder.path()).start().await;
    assert!(matches!(second, Err(StartError::Store(ostler_store::OpenError::Held { .. }))));
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_shows_questions_and_answers_them_once() {
    let os = Ostler::builder().memory().start().await.unwrap();
    let nodes = json!([
        {"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"},
        {"id": "draft", "tool": "text.render", "params": {"template": "a", "values": {}},
         "approval": "after", "human_timeout": "1h"},
    ]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let run = os.submit(Submission::plan(os.plan(draft).unwrap())).await.unwrap();
    assert_eq!(run.outcome().await.unwrap(), RunStatus::Waiting);
    let asked = os.approvals().await.unwrap();
    let nodes: Vec<&str> = asked.iter().map(|asked| asked.id.node.as_str()).collect();
    assert_eq!(nodes, ["draft", "ok"]);
    let other = Approval { digest: asked[1].digest, ..asked[0].clone() };
    let refused = os.answer(&other, Answer::approve()).await.unwrap_err();
    assert!(matches!(refused, RunError::Answer(AnswerError::OtherDigest { .. })), "{refused}");
    os.answer(&asked[0], Answer::approve().by("ann")).await.unwrap();
    let second = os.answer(&asked[0], Answer::reject()).await.unwrap_err();
    assert!(matches!(&second, RunError::Answer(AnswerError::Answered { by, .. }) if by == "ann"), "{second}");
    os.answer(&asked[1], Answer::approve().note("yes")).await.unwrap();
    assert!(run.outcome().await.unwrap().is_success());
    assert_eq!(os.approvals().await.unwrap(), []);
    os.shutdown().await;
}

/// Asks a person after a step.
async fn asker(agent: ProgramContext, _: serde_json::Value) -> Result<bool, Failure> {
    agent.step("count", async || Ok(7_u32)).await?;
    Ok(agent.request_approval("publish", "may I?", Duration::from_secs(3_600)).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_the_program_of_a_run_leaves_the_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let program = Program::new("asker", "1", asker);
        Ostler::builder().data_dir(folder.path()).program(program).start()
    };
    let os = start().await.unwrap();
    let run = os.submit(os.call("asker", json!(null)).unwrap()).await.unwrap();
    let mut changes = os.system().watch_changes();
    while os.approvals().await.unwrap().is_empty() {
        changes.changed().await.unwrap();
    }
    let id = run.id();
    os.shutdown().await;
    drop((os, run, changes));

    let ostler = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        let output = command.arg("--data").arg(folder.path()).args(arguments).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let missing = "program or tool asker is not in this process: start the program that has it";
    for arguments in [&["resume", &id.to_string()][..], &["resume"]] {
        let said = ostler(arguments);
        assert!(said.contains(missing), "{said}");
    }
    let listed = ostler(&["ps"]);
    assert!(listed.contains("opened by step \"publish\" of call of run"), "{listed}");
    assert!(!listed.contains("failed") && !listed.contains("suspended"), "{listed}");
    assert!(ostler(&["approvals"]).contains("opened by step \"publish\" of call of run"));

    let os = start().await.unwrap();
    // The question is a run of its own, newer than the asking run.
    let open: Vec<_> = os.open_runs().unwrap().iter().map(|run| run.id()).collect();
    assert_eq!((open.len(), open[1]), (2, id));
    // The command went by another policy, so the question may be asked anew.
    loop {
        let asked = os.approvals().await.unwrap();
        let Some(question) = asked.first() else { continue };
        match os.answer(question, Answer::approve()).await {
            Err(error) if error.to_string().contains("question") => {}
            answered => break answered.unwrap(),
        }
    }
    assert!(os.run(id).outcome().await.unwrap().is_success());
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_is_asked_as_by_the_command() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/ostler.toml");
    let config = ostler::config::Config::read(&models).unwrap();
    let os = Ostler::builder().memory().config(config).start().await.unwrap();
    let workspace = env!("CARGO_MANIFEST_DIR").into();
    let goal = Goal { workspace, ..Goal::new("Where do the examples speak of notes?") };
    let run = os.goal(goal).await.unwrap();
    assert!(run.outcome().await.unwrap().is_success());
    let answer: FinalAnswer = run.output("answer").await.unwrap();
    assert!(answer.answer.contains("release.yaml"), "{answer:?}");
    assert!(!answer.citations.is_empty());
    let mut unknown = Goal::new("x");
    unknown.terms.tools = Some(vec!["fs.red".to_owned()]);
    let refused = os.goal(unknown).await.err().unwrap().to_string();
    assert_eq!(refused, "there is no tool \"fs.red\"; did you mean \"fs.read\"?");
    assert!(matches!(os.goal(Goal::new(" ")).await, Err(GoalError::Length(0))));
    os.shutdown().await;
}
