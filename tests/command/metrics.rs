//! `--metrics`, and a real Prometheus server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::terminal::skipped;
use super::world::World;

/// Three nodes, and a wait that keeps the command running.
const PLAN: &str = "
id: p
nodes:
  - {id: a, tool: fs.list, params: {path: work}}
  - {id: b, tool: text.render, params: {template: x, values: {}}}
  - {id: c, tool: text.render, params: {template: y, values: {}}}
  - {id: wait, tool: time.sleep, params: {ms: 600000}, deps: [a, b, c]}
";

const PATIENCE: Duration = Duration::from_secs(60);

/// A process killed on drop.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls for a result.
#[track_caller]
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come to be");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The body of a response with status 200.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    // A connection to an unused local port may connect to itself.
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    (head.split(' ').nth(1) == Some("200")).then(|| body.to_owned())
}

/// Runs the plan with metrics at a free port; returns the address.
fn serving(world: &World) -> (Ending, String) {
    world.file("plan.yaml", PLAN);
    let said = world.path().join("said");
    let mut command = world.command("run plan.yaml --metrics 0");
    command.stdout(Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
    let running = Ending(command.spawn().unwrap());
    let address = until("an address on stderr", || {
        let said = std::fs::read_to_string(&said).unwrap();
        let (_, rest) = said.split_once("metrics at http://")?;
        Some(rest.split_once("/metrics\n")?.0.to_owned())
    });
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    (running, address)
}

/// A Prometheus server that scrapes this address, and its own address; `None` if it is not installed.
fn prometheus(folder: &Path, address: &str) -> Option<(Ending, String)> {
    let config = include_str!("../../examples/prometheus/prometheus.yml");
    let config =
        config.replace("127.0.0.1:9464", address).replace("scrape_interval: 5s", "scrape_interval: 200ms");
    assert!(config.contains(address) && config.contains("200ms"));
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = Command::new("prometheus");
    command.arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=tsdb");
    command.arg(format!("--web.listen-address={free}")).current_dir(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("log")).unwrap());
    match command.spawn() {
        Ok(child) => Some((Ending(child), free)),
        Err(error) => {
            skipped(&format!("scraping needs prometheus: {error}"));
            None
        }
    }
}

fn quoted(query: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    query
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Result of a query, if valid.
fn query(prometheus: &str, query: &str) -> Option<Value> {
    let answer = get(prometheus, &format!("/api/v1/query?query={}", quoted(query)))?;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    Some(answer["data"]["result"].clone())
}

#[test]
fn prometheus_scrapes_what_a_run_does() {
    let world = World::new();
    let (_running, address) = serving(&world);
    let Some((_prometheus, at)) = prometheus(world.path(), &address) else { return };
    let jobs = r#"ostler_scheduler_dispatched_jobs_total{job="ostler",tier="marketplace"}"#;
    let value = |query_text: &str| {
        let found = query(&at, query_text)?;
        found[0]["value"][1].as_str().map(|value| value.parse::<f64>().unwrap())
    };
    until("3 dispatched jobs", || value(jobs).filter(|value| *value == 3.0));
    assert_eq!(value(r#"sum(ostler_scheduler_slots{state="taken"})"#), Some(0.0));
    assert_eq!(value(r#"ostler_node_transitions_total{to="executed",reason="ok"}"#), Some(3.0));
    assert_eq!(value("sum(ostler_scheduler_wait_seconds_count)"), Some(3.0));
    until("what the client used", || {
        value(r#"ostler_scheduler_service_total{client="local"}"#).filter(|value| *value >= 3.0)
    });

    // Every query of the dashboard is valid.
    let board: Value = serde_json::from_str(include_str!("../../examples/grafana/fairness.json")).unwrap();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let text =
                target["expr"].as_str().unwrap().replace("$__rate_interval", "1m").replace("$job", ".*");
            let found = query(&at, &text);
            assert!(found.is_some_and(|found| found.is_array()), "{}: {text}", panel["title"]);
        }
    }
}

#[test]
fn promtool_finds_nothing_wrong() {
    let world = World::new();
    let (_running, address) = serving(&world);
    let page = until("a page with a finished node", || {
        get(&address, "/metrics").filter(|page| page.contains("ostler_attempt_seconds_count"))
    });
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = match promtool.spawn() {
        Ok(promtool) => promtool,
        Err(error) => {
            skipped(&format!("judging metrics needs promtool: {error}"));
            return;
        }
    };
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn metrics_that_cannot_be_served_are_refused_before_anything_starts() {
    let world = World::new();
    world.file("plan.yaml", "id: p\nnodes: [{id: a, tool: text.render, params: {template: x, values: {}}}]");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = world.ostler(&format!("run plan.yaml --metrics {address}")).exits(2);
    ended.complains(&format!("metrics address {address}: already in use; use another"));
    assert!(!world.data().exists());
    world.ostler("run plan.yaml --metrics nowhere").exits(2).complains("give a port, such as 9464");
}

#[test]
fn metrics_are_served_by_the_process_that_does_the_work() {
    let world = World::new();
    let (_running, _) = serving(&world);
    until("a run", || world.ostler("ps").out.contains("waiting").then_some(()));
    world.ostler("run plan.yaml --metrics 0").exits(2).complains("another process holds");
    world.ostler("resume --metrics 0").exits(2).complains("give --metrics to that process");
}
