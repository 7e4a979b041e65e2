//! `ostler evaluate`, `ostler agents`, `ostler market`.

use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

use ostler_kernel::agent::Oversight;
use ostler_kernel::event::Event;
use ostler_kernel::json::Json;
use ostler_kernel::market::{Job, MarketStep, Offer, Proposal};
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_store::{Options, Store};

use super::world::{World, until};

const PLAN: &str = "id: review
nodes:
  - {id: read, tool: text.render, params: {template: read, values: {}}}
  - {id: wait, tool: time.sleep, params: {ms: 700}, deps: [read]}
  - {id: sum, tool: text.render, params: {template: fine, values: {}}, deps: [wait]}
";

const JOB: &str = "title: read it
client: acme
capabilities: [contracts]
budget: 500
plan: review.yaml
";

fn world() -> World {
    let world = World::new();
    world.file("review.yaml", PLAN).file("job.yaml", JOB);
    world.ostler("client add acme --credit 1000").exits(0);
    world.ostler("spawn jurist --client acme").exits(0);
    world.ostler("spawn clerk --client acme").exits(0);
    world.ostler("market offer jurist --client acme --can contracts --price 400 --domain legal").exits(0);
    world.ostler("market offer clerk --client acme --can contracts --can gdpr --price 100").exits(0);
    world
}

const POST: &str = "market post job.yaml --workspace work";

#[test]
fn a_job_is_posted_run_and_evaluated() {
    let world = world();
    let posted = world.ostler(POST).exits(0);
    let posted = posted.says("clerk won the contract for 100 of at most 500 credits");
    let posted = posted.says("succeeded  review").says("is done: score 1.000");
    assert!(posted.out.contains("credits spent, the rest was released"), "{}", posted.out);
    let line = &world.ostler("market ls --json").exits(0).lines()[0];
    assert_eq!((line["stage"].as_str(), line["winner"].as_str()), (Some("evaluation"), Some("clerk")));
    world.ostler("market ls").exits(0).says("read it").says("evaluation").says("clerk");
    // Lines show the job as of their time, newest job first.
    world.file(
        "review.yaml",
        "id: review\nnodes:\n  - {id: read, tool: text.render, params: {template: read, values: {}}}\n",
    );
    world.file("job.yaml", &JOB.replace("read it", "read it again"));
    let lines = world.ostler(&format!("{POST} --json")).exits(0).lines();
    let jobs: Vec<_> = lines.iter().filter(|line| line["type"] == "job").collect();
    assert_eq!((lines[0]["type"].as_str(), jobs.len()), (Some("job"), 2));
    assert_eq!(
        (&jobs[0]["stage"], &jobs[0]["spent"], jobs[0].get("outcome")),
        (&"execution".into(), &0.into(), None)
    );
    assert_eq!((&jobs[1]["stage"], &jobs[1]["outcome"]), (&"evaluation".into(), &"succeeded".into()));
    let titles = world.ostler("market ls --json").exits(0).lines();
    let titles: Vec<_> = titles.iter().map(|line| line["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["read it again", "read it"]);
    world.ostler("evaluate @last").exits(0).says("by clerk").says("target      100 credits");
    world.ostler("doctor").exits(0).says("ledger         1 metered client").says("nothing is broken");
    let credit = &world.ostler("credit acme --json").exits(0).lines()[0];
    assert_eq!(credit["left"].as_i64(), Some(1_000 - credit["spent"].as_i64().unwrap()));
}

#[test]
fn a_verdict_counts_and_bad_ones_are_refused() {
    let world = world();
    world.ostler(POST).exits(0);
    world.ostler("evaluate @last --quality 1.1").exits(2).complains("quality 1.1 is not within 0 and 1");
    world.ostler("evaluate @last --note why").exits(2).complains("give --quality or --adherence too");
    world.ostler("evaluate 0123456789").exits(2).complains("no run has an id");
    let judged = world.ostler("evaluate @last --quality 0.4 --adherence 0.5 --note fair").exits(0);
    judged.says("quality     0.400").says("verdict     ann, ").says("quality 0.400, adherence 0.500 (fair)");
    let agents = world.ostler("agents --json").exits(0).lines();
    let clerk = agents.iter().find(|line| line["agent"] == "clerk").unwrap();
    assert_eq!((clerk["evaluations"].as_u64(), clerk["runs"].as_u64()), (Some(2), Some(1)));
    assert_eq!((&clerk["zero_intervention_pm"], &clerk["type"]), (&1_000.into(), &"agent_evaluation".into()));
    let listed = world.ostler("ps --agents --json").exits(0).lines();
    assert!(listed.iter().all(|line| line["type"] == "agent"), "{listed:?}");
    assert_eq!(
        (&listed[0]["offer"]["capabilities"][0], &listed[0]["offer"]["price"], listed[0].get("profile")),
        (&"contracts".into(), &100.into(), None),
        "it was spawned without a word"
    );
    world.ostler("agents").exits(0).says("clerk").says("100.0%");
    world.ostler("agents --like clerk").exits(0).complains("no other agent has an evaluation");
    world.ostler("agents --like nobody").exits(2).complains("there is no agent nobody");
    world.ostler("spawn idle").exits(0);
    let idle = world.ostler("agents --like idle").exits(2);
    idle.complains("no run of agent idle was evaluated: there is nothing to compare others with");
}

#[test]
fn what_cannot_be_posted_is_refused_and_leaves_nothing() {
    let world = world();
    world.file("dear.yaml", &JOB.replace("500", "5000"));
    world.file("wrong.yaml", &JOB.replace("budget", "budgt"));
    world.file("late.yaml", &format!("{JOB}deadline: 0s\n"));
    world.file("odd.yaml", &format!("{JOB}domain: cooking\n"));
    world.file("free.yaml", &JOB.replace("500", "0"));
    world.file("none.yaml", &JOB.replace("review.yaml", "none.yml"));
    world.file("bare.yaml", "title: x\nbugdet: 5\ncapabilities: 7\n");
    let bare = world.ostler("market post bare.yaml --workspace work").exits(2);
    let bare = bare.complains("did you mean \"budget\"?").complains("the key \"plan\" is missing");
    bare.complains("expected a list, found 7").complains("bare.yaml has 3 faults");
    world.file("bare.yaml", "title: x\n");
    let bare = world.ostler("market post bare.yaml --workspace work").exits(2);
    bare.complains("the key \"budget\" is missing").complains("the key \"plan\" is missing");
    for (line, told) in [
        ("dear.yaml", "the budget is beyond the balance: 5000 credits cannot be reserved: 1000 are free"),
        ("wrong.yaml", "did you mean \"budget\"?"),
        ("late.yaml", "the deadline is in the past"),
        ("late.yaml", "late.yaml:6:11"),
        ("odd.yaml", "unknown domain \"cooking\""),
        ("odd.yaml", "odd.yaml:6:9"),
        ("free.yaml", "free.yaml:4:9"),
        ("none.yaml", "none.yml"),
        ("job.yaml --detach", "--detach: no process holds the data folder to execute the job"),
    ] {
        world.ostler(&format!("market post {line} --workspace work")).exits(2).complains(told);
    }
    world.ostler("market offer clerk --can gdpr --client other").exits(2).complains("belongs to client acme");
    world.ostler("market offer clerk").exits(2).complains("--can");
    world.ostler("client ls").exits(2).complains("unrecognized subcommand");
    world.ostler("market offer clerk --domain cooking").exits(2).complains("unknown domain \"cooking\"");
    world.ostler("market offer nobody --can x").exits(2).complains("`ostler spawn nobody` makes it");
    assert_eq!(world.ostler("ps --agents --json").exits(0).lines().len(), 2, "nobody was made");
    world.ostler("market ls").exits(0).complains("no job yet");
    let impossible = JOB.replace("[contracts]", "[painting]");
    world.file("impossible.yaml", &impossible);
    for _ in 0..10 {
        world.ostler("market post impossible.yaml --workspace work").exits(1).says("cannot do painting");
    }
    let told = world.ostler("market ls --json").exits(0).lines();
    let stages: Vec<&str> = told.iter().filter_map(|line| line["stage"].as_str()).collect();
    assert_eq!(stages, ["failed"; 10], "what was told is written down");
    world.ostler("doctor").exits(0).says("ledger         1 metered client");
}

#[test]
fn parameters_of_a_job_are_written_as_what_they_are() {
    let world = world();
    world.file(
        "review.yaml",
        "id: review\nnodes:\n  - id: tell\n    tool: text.render\n    params:\n      template: \"{{ horse + 1 }} {{ wins }} \
         ${version}\"\n      values:\n        horse: ${horse}\n        wins: ${wins}\n",
    );
    let params = "params:\n  horse: 5\n  wins: true\n  version: 1.10\n";
    world.file("job.yaml", &format!("{JOB}{params}"));
    world.ostler(POST).exits(0);
    world.ostler("artifact @last/tell --path text").exits(0).says("6 true 1.10");
    world.file("job.yaml", &format!("{JOB}params: {{horse: [5]}}\n"));
    let refused = world.ostler(POST).exits(2);
    refused.complains("expected a text, a number, true or false, found a list");
}

#[test]
fn a_killed_job_goes_on_and_reserves_its_budget_once() {
    let world = world();
    let mut post = world.start(POST);
    post.until("read  executed");
    post.signal("KILL");
    post.end();
    let line = &world.ostler("market ls --json").exits(0).lines()[0];
    assert_eq!(line["stage"], "execution");
    world.ostler("doctor").exits(0).says("1 job is unfinished").says("ledger         1 metered client");
    world.ostler("resume").exits(0).says("succeeded  review");
    let line = &world.ostler("market ls --json").exits(0).lines()[0];
    assert_eq!((line["stage"].as_str(), line["outcome"].as_str()), (Some("evaluation"), Some("succeeded")));
    world.ostler("doctor").exits(0).says("ledger         1 metered client").says("nothing is broken");
    assert_eq!(world.ostler("ps --json").exits(0).lines().len(), 1, "it is one run");
}

#[test]
fn a_job_that_another_process_holds_goes_on_without_this_one() {
    let world = world();
    let mut held = world.start("run review.yaml --workspace work --client acme");
    held.until("read  executed");
    let posted = world.ostler("market post job.yaml --workspace work --detach").exits(0);
    posted.says("clerk won the contract");
    held.end().exits(0);
    world.ostler("resume").exits(0);
    world.ostler("market ls").exits(0).says("evaluation");
}

/// Deadlines tried in turn: on a busy machine the first may pass before the approval request.
const DEADLINES: [&str; 3] = ["1s", "10s", "60s"];

/// A job whose run waits for a person after its process ended; the deadline has passed.
fn late() -> World {
    let asks = PLAN.replace("tool: time.sleep, params: {ms: 700}", "kind: human_approval, human_timeout: 1h");
    for deadline in DEADLINES {
        let world = world();
        world.file("review.yaml", &asks).file("job.yaml", &format!("{JOB}deadline: {deadline}\n"));
        let posted = world.ostler(POST);
        let job = world.ostler("market ls --json").exits(0).lines().remove(0);
        if posted.code != Some(3) || job["stage"] != "execution" || job.get("outcome").is_some() {
            continue;
        }
        posted.says("waits wait: approval").says("is in stage execution; `ostler resume` continues it");
        let by = u128::try_from(job["deadline_ms"].as_i64().unwrap()).unwrap();
        until("its deadline is past", || UNIX_EPOCH.elapsed().unwrap().as_millis() > by);
        return world;
    }
    panic!("it was late before it was left, whatever its deadline");
}

#[test]
fn a_job_that_is_late_when_it_is_resumed_is_stopped_and_told_to_be_late_and_that_is_no_error() {
    for line in ["resume", "resume @last"] {
        let world = late();
        let resumed = world.ostler(line).exits(1).says("cancelled  review");
        let resumed = resumed.says("job deadline passed");
        for sign in ["error", "not resumed"] {
            assert!(!resumed.err.contains(sign), "{line}: {}", resumed.err);
        }
        // All remaining records are written by then.
        world.ostler("resume").exits(0).complains("nothing to resume: no run is open");
        world.ostler("resume @last").exits(1).complains("is closed, so nothing is resumed");
        world.ostler("market ls").exits(0).says("failed").says("it was not over by its deadline");
        let shown = world.ostler("show @last --json").exits(0).lines().remove(0);
        assert_eq!(
            (&shown["nodes"]["wait"], &shown["nodes"]["sum"]),
            (&"cancelled".into(), &"cancelled".into())
        );
        let records = world.ostler("events @last --json").exits(0).lines();
        let acts = records.iter().filter(|record| record["kind"] == "operator");
        let acts: Vec<_> = acts.map(|record| record["body"]["act"].as_str().unwrap()).collect();
        assert_eq!(acts, ["stop_late"], "{line}");
        let credit = &world.ostler("credit acme --json").exits(0).lines()[0];
        assert_eq!(credit["left"].as_i64(), Some(1_000 - credit["spent"].as_i64().unwrap()), "{line}");
        world.ostler("doctor").exits(0).says("nothing is broken");
    }
}

/// A contract above the balance, which no process of ours records.
#[test]
fn the_doctor_finds_credits_that_do_not_add_up() {
    let world = world();
    let (store, _) = Store::open_with(&world.data(), Options::default()).unwrap();
    let id = "01a203e4-dde0-7695-bfe0-3f44d789f3e4".parse().unwrap();
    let job = Job {
        id,
        client: "acme".into(),
        title: "too much".into(),
        capabilities: BTreeSet::new(),
        domain: None,
        budget: 5_000,
        deadline: None,
        oversight: Oversight::AutonomousEscalation,
        plan: Json::null(),
        intent: 1,
        scope: "default".into(),
        workspace: "/".into(),
    };
    let proposals = vec![Proposal::of("clerk".into(), &Offer::default(), &job, None)];
    let signed = MarketStep::Signed {
        winner: "clerk".into(),
        price: 5_000,
        budget: 5_000,
        deadline: None,
        oversight: Oversight::AutonomousEscalation,
        reserved: true,
    };
    let steps = [MarketStep::Posted(job), MarketStep::Proposed { proposals }, signed];
    let events = steps.map(|step| Event::Market { job: id, step: Box::new(step) });
    let stream = StreamId::client(&"acme".into());
    let last = store.journal.read(stream, Seq(0), usize::MAX).unwrap().last().unwrap().seq;
    let batch = StreamBatch { stream, expected: last, at_ms: 1, events: events.into() };
    let position = store.journal.append(vec![batch]).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(store.journal.durable(position)).unwrap();
    drop(store);
    world
        .ostler("doctor")
        .exits(4)
        .says("client acme: the contract of job 01a203e4-dde0-7695-bfe0-3f44d789f3e4: 5000 credits cannot be reserved: 1000 are free");
}

/// Each command releases the data folder while others connect.
#[test]
fn commands_beside_each_other_are_each_done_once_and_none_says_that_nobody_answers() {
    const EACH: usize = 12;
    let world = world();
    world.file(
        "review.yaml",
        "id: review\nnodes:\n  - {id: read, tool: text.render, params: {template: read, values: {}}}\n",
    );
    world.ostler("credit acme +99000").exits(0);
    let one = |line: &str| world.ostler(line).exits(0);
    std::thread::scope(|scope| {
        for _ in 0..EACH {
            scope.spawn(|| one(POST));
            scope.spawn(|| one("credit acme +10"));
            scope.spawn(|| one("market offer clerk --client acme --can contracts --price 100"));
        }
    });
    assert_eq!(world.ostler("market ls --json").exits(0).lines().len(), EACH);
    let credit = &world.ostler("credit acme --json").exits(0).lines()[0];
    assert_eq!(credit["deposited"], 100_000 + 10 * EACH);
    world.ostler("doctor").exits(0);
}

#[test]
fn who_is_not_told_what_was_done_is_told_that_it_was() {
    let world = world();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = world.command("credit acme +500").stdout(full()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(5));
    assert!(said.contains("changes were made, so check before repeating the command"), "{said}");
}
