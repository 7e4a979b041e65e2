//! Metrics of a program that embeds the library.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use ostler::config::Config;
use ostler::kernel::event::ReuseTerms;
use ostler::kernel::plan::PlanDraft;
use ostler::kernel::run::OpeningTerms;
use ostler::{Ostler, OstlerBuilder, PipelineSpec, StageSpec, StartError, Submission};
use ostler_actors::metric::{self, Metric, Type};
use regex::Regex;
use serde_json::{Value, json};

/// Status and body of a response.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Samples of a page, by name and labels.
fn series(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(read).collect()
}

async fn serving(builder: OstlerBuilder) -> (Ostler, SocketAddr) {
    let os = builder.metrics(([127, 0, 0, 1], 0)).start().await.unwrap();
    let address = os.metrics_address().unwrap();
    assert_ne!(address.port(), 0);
    (os, address)
}

/// Runs a plan of nodes that render a text.
async fn render(os: &Ostler, client: &str, nodes: usize) {
    let node = |number| {
        let id = format!("n{number}");
        json!({"id": id, "tool": "text.render", "params": {"template": "x", "values": {}}})
    };
    let nodes: Vec<Value> = (0..nodes).map(node).collect();
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let submission = Submission { client: client.into(), ..Submission::plan(os.plan(draft).unwrap()) };
    assert!(os.submit(submission).await.unwrap().outcome().await.unwrap().is_success());
}

/// A system with a model that answers, and one that has no room.
fn scripted(folder: &Path) -> OstlerBuilder {
    let script = "rules:\n  - {when: {role: judge}, answer: {holds: true, why: fine}}\n  - {when: {contains: much}, fail: overloaded}\n  \
                  - {when: {}, text: hello, tokens: {input: 100, output: 20, cache_read: 60}}\n";
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let model = "provider = \"scripted\"\nfile = \"script.yaml\"\nprice = {input = 1.0, output = 2.0, cache_read = 0.5}\n";
    let config = format!("[models.good]\n{model}[models.busy]\n{model}[models.strict]\n{model}");
    std::fs::write(folder.join("ostler.toml"), config).unwrap();
    let config = Config::read(&folder.join("ostler.toml")).unwrap();
    Ostler::builder().data_dir(folder.join("data")).config(config)
}

async fn ask_models(os: &Ostler) {
    let nodes = json!([
        {"id": "a", "model": "good", "params": {"prompt": "hi"}},
        {"id": "b", "model": "good", "params": {"prompt": "hi again"}},
        {"id": "d", "tool": "text.render", "params": {"template": "hi", "values": {}},
         "contract": [{"method": "model", "spec": {"ask": "Is it a greeting?", "model": "strict"}}]},
        {"id": "c", "model": "busy", "params": {"prompt": "too much"}, "retries": 0},
    ]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    os.submit(Submission::plan(os.plan(draft).unwrap())).await.unwrap().outcome().await.unwrap();
}

fn check_models(found: &BTreeMap<String, f64>) {
    let of_good = |name: &str, more: &str| {
        let series = format!("ostler_model_{name}{{model=\"good\"{more}}}");
        *found.get(&series).unwrap_or_else(|| panic!("no {series} in {found:?}"))
    };
    assert_eq!(of_good("calls_total", r#",finish="stop""#), 2.0);
    assert_eq!(found[r#"ostler_model_calls_total{model="busy",finish="overloaded"}"#], 1.0);
    assert_eq!(of_good("tokens_total", r#",direction="input""#), 200.0);
    assert_eq!(of_good("tokens_total", r#",direction="cached""#), 120.0);
    assert_eq!(of_good("tokens_total", r#",direction="output""#), 40.0);
    assert_eq!(found[r#"ostler_model_verdicts_total{model="strict",verdict="holds"}"#], 1.0);
    // 40 tokens at 1 $, 60 at 0.50 $ and 20 at 2 $, per million.
    assert_eq!(of_good("nano_usd_total", ""), 2.0 * (40_000.0 + 30_000.0 + 40_000.0));
    assert_eq!(of_good("seconds_count", ""), 2.0);
    assert_eq!(of_good("first_piece_seconds_count", ""), 2.0);
    assert_eq!(found[r#"ostler_model_seconds_count{model="busy"}"#], 1.0);
    assert!(
        !found.contains_key(r#"ostler_model_first_piece_seconds_count{model="busy"}"#),
        "it had no piece"
    );
}

/// Metric of a sample.
fn metric_of(series: &str) -> Metric {
    let name = series.split('{').next().unwrap();
    let known = |name: &str| metric::ALL.into_iter().find(|metric| metric.name == name);
    let part = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
    let timed = part.and_then(known).filter(|metric| matches!(metric.kind, Type::Histogram(_)));
    timed.or_else(|| known(name)).unwrap_or_else(|| panic!("nobody knows {name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn systems_of_one_process_do_not_mix() {
    let (one, at_one) = serving(Ostler::builder().memory()).await;
    let (other, at_other) = serving(Ostler::builder().memory()).await;
    render(&one, "acme", 3).await;
    render(&other, "globex", 5).await;
    for (address, client, jobs) in [(at_one, "acme", 3.0), (at_other, "globex", 5.0)] {
        let found = series(&get(address, "/metrics").1);
        assert_eq!(found[r#"ostler_scheduler_dispatched_jobs_total{tier="marketplace"}"#], jobs, "{client}");
        assert_eq!(found[r#"ostler_runs_total{outcome="succeeded"}"#], 1.0);
        assert!(found[&format!("ostler_scheduler_service_total{{client=\"{client}\"}}")] >= jobs);
        let named = found.keys().filter(|series| series.contains("client="));
        assert!(named.clone().count() > 3);
        assert!(named.into_iter().all(|series| series.contains(client) || series.contains("other")));
    }
    one.shutdown().await;
    other.shutdown().await;
    assert_eq!(one.metrics_address(), None);
    assert!(TcpStream::connect(at_one).is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_served_is_what_the_table_of_metrics_says() {
    let folder = tempfile::tempdir().unwrap();
    let (os, address) = serving(scripted(folder.path())).await;
    render(&os, "acme", 2).await;
    ask_models(&os).await;
    // The gate denies this, without recovery.
    let denied =
        json!({"id": "p", "nodes": [{"id": "n", "tool": "shell.run", "params": {"argv": ["touch", "x"]}}]});
    let draft: PlanDraft = serde_json::from_value(denied).unwrap();
    let run = os.submit(Submission::plan(os.plan(draft).unwrap())).await.unwrap();
    assert!(!run.outcome().await.unwrap().is_success());
    let spec = PipelineSpec::new("words")
        .stage(StageSpec::new("reader").publishes(["line"]))
        .stage(StageSpec::new("counter").subscribes(["line"]));
    let words = os.create_pipeline(&spec).await.unwrap();
    for line in ["as the", "wind blows"] {
        words.publisher("reader").unwrap().publish("line", line).await.unwrap();
    }

    let (status, page) = get(address, "/metrics");
    assert_eq!(status, 200);
    let label = Regex::new(r#"([a-z_]+)=""#).unwrap();
    let mut seen = BTreeSet::new();
    for series in series(&page).keys() {
        let metric = metric_of(series);
        let labels: Vec<&str> =
            label.captures_iter(series).map(|found| found.get(1).unwrap().as_str()).collect();
        let labels: Vec<&str> = labels.into_iter().filter(|label| *label != "le").collect();
        assert_eq!(labels, metric.labels, "{series}");
        seen.insert(metric.name);
    }
    let found = series(&page);
    check_models(&found);
    assert_eq!(found[r#"ostler_diagnoses_total{category="transient",result="untried"}"#], 1.0);
    assert_eq!(found[r#"ostler_pipeline_events_total{pipeline="words"}"#], 2.0);
    assert_eq!(found[r#"ostler_pipeline_lag_events{pipeline="words",stage="counter"}"#], 2.0);
    assert_eq!(found[r#"ostler_pipeline_parked_events{pipeline="words",stage="counter"}"#], 0.0);
    let appends = found["ostler_journal_append_seconds_count"];
    assert_eq!(found["ostler_journal_group_size_sum"], appends, "each is made durable once");
    assert!(
        found["ostler_journal_records_total"] > appends
            && appends >= found["ostler_journal_group_size_count"]
    );
    let all: BTreeSet<&str> = metric::ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(seen, all);
    for Metric { name, kind, help, .. } in metric::ALL {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram(_) => "histogram",
        };
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        assert_eq!(page.matches(&head).count(), 1, "{name}");
    }
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reuse_is_counted_with_what_it_spares() {
    let folder = tempfile::tempdir().unwrap();
    let (os, address) = serving(scripted(folder.path())).await;
    let nodes = json!([
        {"id": "a", "model": "good", "params": {"prompt": "hi"}},
        {"id": "b", "tool": "text.render", "params": {"template": "x", "values": {}}},
    ]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = Arc::new(os.plan(draft).unwrap());
    for _ in 0..3 {
        let reuse = Some(ReuseTerms::default());
        let submission = Submission {
            terms: OpeningTerms { reuse, ..OpeningTerms::default() },
            ..Submission::plan(Arc::clone(&plan))
        };
        assert!(os.submit(submission).await.unwrap().outcome().await.unwrap().is_success());
    }
    // A page is served again for a second, so it is read once.
    let found = series(&get(address, "/metrics").1);
    assert_eq!(found["ostler_tokens_avoided_total"], 240.0);
    assert_eq!(found["ostler_effects_avoided_total"], 4.0);
    let results = [
        ("reused", 4.0),
        ("executed", 2.0),
        ("recomputed", 0.0),
        ("cut_off", 0.0),
        ("revalidated", 0.0),
        ("edited", 0.0),
    ];
    for (result, count) in results {
        assert_eq!(found[&format!("ostler_node_reuse_total{{result=\"{result}\"}}")], count, "{result}");
    }
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_says_whether_it_is_well() {
    let (os, address) = serving(Ostler::builder().memory()).await;
    assert_eq!(get(address, "/healthz"), (200, r#"{"status":"ok"}"#.to_owned()));
    assert_eq!(get(address, "/readyz"), (200, r#"{"status":"ready"}"#.to_owned()));
    assert_eq!(get(address, "/v1/runs").0, 404);
    // The facade would stop the endpoint too.
    os.system().shutdown().await;
    let (status, body) = get(address, "/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("shut down"), "{body}");
    assert_eq!(get(address, "/metrics").0, 200, "what was counted is still told");
    os.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_is_told_before_anything_is_opened() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let error = Ostler::builder().data_dir(&data).metrics(address).start().await.err().unwrap();
    assert!(matches!(error, StartError::Metrics { address: at, .. } if at == address));
    let said = error.to_string();
    assert!(said.contains(&address.to_string()) && said.contains("already in use"), "{said}");
    assert!(!data.exists());
}

#[test]
fn the_dashboard_knows_only_metrics_that_exist() {
    let text = include_str!("../examples/grafana/fairness.json");
    let board: Value = serde_json::from_str(text).unwrap();
    assert!(board["panels"].as_array().unwrap().len() > 5);
    let name = Regex::new("ostler_[a-z_]+").unwrap();
    let used: BTreeSet<&str> = name.find_iter(text).map(|found| metric_of(found.as_str()).name).collect();
    let wanted = [
        metric::SERVICE,
        metric::WAIT_SECONDS,
        metric::LAG,
        metric::FAIRNESS_JAIN,
        metric::PARKED_CLIENTS,
        metric::SLOTS,
    ];
    assert!(wanted.iter().all(|metric| used.contains(metric.name)), "{used:?}");
}
