//! Real processes, stopped with SIGSTOP and killed with SIGKILL at random moments, while a plan of keyed POSTs writes to an external
//! ledger.
//!
//! Every run must end with every POST in the ledger. Once the journal says that a node was executed, its
//! POST must not arrive again. Interrupted attempts may be sent again, with the same key and body.
//!
//! `OSTLER_KILLS` sets the number of kills (default 100), `OSTLER_SEED` the random numbers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that meets an error has failed, and says where"
)]

mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use ledger::Ledger;
use serde_json::{Value, json};

/// Default number of kills.
const KILLS_DEFAULT: u64 = 100;

/// Maximum lifetime of a process, in milliseconds; longer on slow machines.
const LIFE_MS: u64 = 300;

/// Longest time for which a process is stopped, in milliseconds.
const STOPPED_MS: u64 = 40;

/// Time limit of a process that is not killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum processes per run: more means that the run makes no progress.
const PROCESSES_PER_RUN_MAX: u32 = 200;

/// Poll interval.
const LOOK: Duration = Duration::from_millis(1);

#[test]
fn kills_lose_nothing_and_repeat_nothing_finished() {
    let wanted = number("OSTLER_KILLS").unwrap_or(KILLS_DEFAULT);
    let seed = number("OSTLER_SEED").unwrap_or(0x0571_e12b);
    println!("torture: {wanted} kills, OSTLER_SEED={seed}");
    let ledger = Ledger::open().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (random, tally) = (Random(seed), Tally::default());
    let mut torture = Torture {
        ledger,
        folder: folder.path(),
        random,
        life_ms_max: LIFE_MS,
        longest: Duration::ZERO,
        tally,
    };
    torture.configure();
    torture.run_to_the_end(1, 0);
    torture.life_ms_max = LIFE_MS.max(torture.longest.as_millis() as u64);

    let mut runs = 1;
    while torture.tally.kills < wanted {
        runs += 1;
        torture.run_to_the_end(runs, wanted);
    }

    let entries = torture.ledger.entries().unwrap_or_else(|error| panic!("{error}"));
    let plan = nodes();
    assert_eq!(entries.len(), plan.len() * runs, "one entry per node and run");
    let doctor = torture.ostler(&["doctor"]);
    assert!(doctor.status.success(), "doctor finds fault:\n{}", text(&doctor));
    let Tally { kills, stops, before_opening, under_way, after_closing } = torture.tally;
    assert!(under_way > 0, "no kill of {kills} hit a run under way");
    let posts = torture.ledger.posts("/").len();
    println!(
        "torture: {kills} kills and {stops} stops over {runs} runs ({before_opening} before a run was there, {under_way} under way, \
         {after_closing} after its end); {} entries, {} POSTs sent again",
        entries.len(),
        posts - entries.len(),
    );
}

/// Statistics of the kills.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    /// Stops that the process survived.
    stops: u64,
    before_opening: u64,
    under_way: u64,
    after_closing: u64,
}

struct Torture<'a> {
    ledger: Ledger,
    folder: &'a Path,
    random: Random,
    life_ms_max: u64,
    /// Longest lifetime of a process that ended by itself.
    longest: Duration,
    tally: Tally,
}

/// Content of the journal for a run.
struct Journaled {
    executed: BTreeSet<String>,
    closed: bool,
}

impl Torture<'_> {
    fn configure(&self) {
        let address = self.ledger.address();
        let config = format!(
            "[tools.http]\negress_allow = [\"{address}\"]\n\n[tools.http.hosts.\"{address}\"]\nidempotency = true\n"
        );
        std::fs::write(self.folder.join("ostler.toml"), config).unwrap();
    }

    /// Starts run `number` and kills its processes until it is closed. Kills stop at `wanted`.
    fn run_to_the_end(&mut self, number: usize, wanted: u64) {
        let plan = self.write_plan(number);
        let before = self.last_run();
        // POSTs per node that the journal called executed while no process ran.
        let mut finished: BTreeMap<String, usize> = BTreeMap::new();
        let mut run: Option<String> = None;
        for _ in 0..PROCESSES_PER_RUN_MAX {
            let arguments = match &run {
                Some(run) => vec!["resume", run, "--json"],
                None => vec!["run", &plan, "--json"],
            };
            let life = (self.tally.kills < wanted).then(|| 1 + self.random.below(self.life_ms_max));
            let Some(shown) = self.live(&arguments, life.map(Duration::from_millis)) else {
                return self.check(number, &finished);
            };
            self.tally.kills += 1;

            run = self.last_run().filter(|run| Some(run) != before.as_ref());
            let Some(run) = &run else {
                assert_eq!(shown, BTreeSet::new(), "shown, but not in the journal: run {number}");
                self.tally.before_opening += 1;
                continue;
            };
            let journaled = self.journaled(run);
            let lost: Vec<_> = shown.difference(&journaled.executed).collect();
            assert!(
                lost.is_empty(),
                "run {number}: {lost:?} were shown as executed, and are not in the journal"
            );
            for node in journaled.executed {
                let sent = self.sent(number, &node);
                let at_first = *finished.entry(node.clone()).or_insert(sent);
                assert_eq!(sent, at_first, "run {number}: {node} was executed, and its POST was sent again");
            }
            if journaled.closed {
                self.tally.after_closing += 1;
                return self.check(number, &finished);
            }
            self.tally.under_way += 1;
        }
        panic!("run {number} is not over after {PROCESSES_PER_RUN_MAX} processes");
    }

    /// Checks a closed run.
    fn check(&self, number: usize, finished: &BTreeMap<String, usize>) {
        let run = self.last_run().unwrap_or_else(|| panic!("run {number} is over, but nobody knows it"));
        let summary =
            self.summary(&run).unwrap_or_else(|| panic!("run {number} is over, but cannot be shown"));
        assert_eq!(summary["outcome"], "succeeded", "run {number}: {summary}");
        for (node, _) in nodes() {
            assert_eq!(summary["nodes"][node.as_str()], "executed", "run {number}: {summary}");
            let posts = self.ledger.posts(&path(number, &node));
            let first =
                posts.first().unwrap_or_else(|| panic!("run {number}: the POST of {node} never arrived"));
            assert!(first.key.is_some(), "run {number}: the POST of {node} has no key");
            assert!(
                posts.iter().all(|post| post == first),
                "run {number}: {node} sent different things: {posts:?}"
            );
            if let Some(&sent) = finished.get(&node) {
                assert_eq!(
                    posts.len(),
                    sent,
                    "run {number}: {node} was executed, and its POST was sent again"
                );
            }
        }
    }

    /// Lets a process run. `None` if it ended by itself successfully; else it was killed, and the result
    /// lists the nodes shown as executed.
    fn live(&mut self, arguments: &[&str], life: Option<Duration>) -> Option<BTreeSet<String>> {
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let shown = beside(move || executed(BufReader::new(stdout)));
        let complaint = beside(move || whole(stderr));
        let started = Instant::now();
        let mut deadline = started + life.unwrap_or(PATIENCE);
        let mut stops_at = life.map(|life| {
            started + Duration::from_millis(self.random.below(1 + u64::try_from(life.as_millis()).unwrap()))
        });
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if stops_at.is_some_and(|at| Instant::now() >= at) {
                stops_at = None;
                let stopped = Duration::from_millis(self.random.below(STOPPED_MS));
                signal(&child, "STOP");
                thread::sleep(stopped);
                // A half of the processes is killed while it is stopped.
                if self.random.below(2) == 0 {
                    break None;
                }
                signal(&child, "CONT");
                self.tally.stops += 1;
                deadline += stopped;
            }
            if Instant::now() >= deadline {
                break None;
            }
            thread::sleep(LOOK);
        };
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let shown = shown.recv_timeout(PATIENCE).expect("stdout ends with its process");
        let complaint = complaint.recv_timeout(PATIENCE).expect("stderr ends with its process");
        match ended {
            None => {
                assert!(life.is_some(), "{arguments:?} takes longer than {PATIENCE:?}:\n{complaint}");
                Some(shown)
            }
            Some(status) => {
                assert!(status.success(), "{arguments:?} ended with {status}:\n{complaint}");
                self.longest = self.longest.max(started.elapsed());
                None
            }
        }
    }

    /// The newest run.
    fn last_run(&self) -> Option<String> {
        Some(self.summary("@last")?["run"].as_str()?.to_owned())
    }

    fn summary(&self, run: &str) -> Option<Value> {
        let shown = self.ostler(&["show", run, "--format", "json"]);
        // Damage, a holder that does not answer and internal errors do not mean that the run is missing.
        assert!(matches!(shown.status.code(), Some(0..=2)), "show {run}: {}\n{}", shown.status, text(&shown));
        serde_json::from_slice(&shown.stdout).ok()
    }

    fn journaled(&self, run: &str) -> Journaled {
        let events = self.ostler(&["events", run, "--json"]);
        assert!(events.status.success(), "events {run}: {}\n{}", events.status, text(&events));
        let closed = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            line["kind"] == "run_closed"
        };
        let closed = String::from_utf8_lossy(&events.stdout).lines().any(closed);
        Journaled { executed: executed(events.stdout.as_slice()), closed }
    }

    fn sent(&self, number: usize, node: &str) -> usize {
        self.ledger.posts(&path(number, node)).len()
    }

    /// Runs a command without killing it, within the time limit.
    fn ostler(&self, arguments: &[&str]) -> Output {
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let (stdout, stderr) = (beside(move || whole(stdout)), beside(move || whole(stderr)));
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                child.kill().unwrap();
                let said = stderr.recv_timeout(PATIENCE).unwrap_or_default();
                panic!("{arguments:?} takes longer than {PATIENCE:?}:\n{said}");
            }
            thread::sleep(LOOK);
        };
        let read = |said: Receiver<String>| said.recv_timeout(PATIENCE).expect("what it says ends with it");
        Output { status, stdout: read(stdout).into_bytes(), stderr: read(stderr).into_bytes() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command
            .args(arguments)
            .current_dir(self.folder)
            .env("OSTLER_DATA", self.folder.join("data"))
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .env("OSTLER_CONFIG", self.folder.join("ostler.toml"))
            .stdin(Stdio::null());
        command
    }

    fn write_plan(&self, number: usize) -> String {
        let address = self.ledger.address();
        let node = |(id, deps): (String, Vec<String>)| {
            let url = format!("http://{address}{}", path(number, &id));
            let params = json!({"method": "POST", "url": url, "body": {"run": number, "node": id}});
            json!({"id": id, "deps": deps, "tool": "http.request", "params": params})
        };
        let nodes: Vec<Value> = nodes().into_iter().map(node).collect();
        let name = format!("plan-{number}.json");
        let plan = json!({"id": "torture", "policy": {"slots": 4}, "nodes": nodes});
        std::fs::write(self.folder.join(&name), plan.to_string()).unwrap();
        name
    }
}

/// Sends a signal to a process, which may have ended.
fn signal(child: &Child, name: &str) {
    Command::new("kill").args(["-s", name, &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
}

/// Runs an action on a thread that can be joined with a timeout.
fn beside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(act()));
    told
}

/// Reads a pipe to its end.
fn whole(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // Output before an error counts.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Path of a node's POST. Ends in a slash, so that no path is a prefix of another.
fn path(number: usize, node: &str) -> String {
    format!("/{number}/{node}/")
}

/// Twenty nodes with dependencies: a chain of six whose second node fans out to eight, joined by one, and a
/// separate chain of five.
fn nodes() -> Vec<(String, Vec<String>)> {
    let chain = |name: &str, length: usize| {
        let id = |at: usize| format!("{name}{at}");
        (0..length).map(|at| (id(at), at.checked_sub(1).map(id).into_iter().collect())).collect::<Vec<_>>()
    };
    let mut nodes = chain("a", 6);
    nodes.extend((0..8).map(|at| (format!("star{at}"), vec!["a1".to_owned()])));
    nodes.push(("gather".to_owned(), (0..8).map(|at| format!("star{at}")).collect()));
    nodes.extend(chain("b", 5));
    nodes
}

/// Nodes executed according to JSON lines. An incomplete last line is ignored.
fn executed(lines: impl BufRead) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            find_executed(&line, &mut nodes);
        }
    }
    nodes
}

/// Finds transitions: objects with a `node` and a state `to`, at any depth.
fn find_executed(value: &Value, nodes: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if members.get("to").is_some_and(|to| to == "executed")
                && let Some(node) = members.get("node").and_then(Value::as_str)
            {
                nodes.insert(node.to_owned());
            }
            members.values().for_each(|member| find_executed(member, nodes));
        }
        Value::Array(items) => items.iter().for_each(|item| find_executed(item, nodes)),
        _ => {}
    }
}

/// Splitmix64: sufficient for spreading kills, and reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, found {text:?}")))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
