//! Real processes, killed with SIGKILL at random moments, while a plan of keyed POSTs writes to a ledger outside.
//!
//! Nothing may be lost: every run ends with every POST in the ledger. Nothing finished may be repeated: once the
//! journal says that a node was executed, its POST never arrives again. What was under way may be sent again, under the
//! same key and with the same body.
//!
//! `OSTLER_KILLS` says how many kills (100 unless told otherwise), `OSTLER_SEED` which random numbers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that meets an error has failed, and says where"
)]

mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use ledger::Ledger;
use serde_json::{Value, json};

/// Kills unless `OSTLER_KILLS` says otherwise.
const KILLS_DEFAULT: u64 = 100;

/// The longest that a process lives before it is killed, in milliseconds; on a machine where a run takes longer, as long
/// as that.
const LIFE_MS: u64 = 300;

/// The longest that a process may take that nobody kills.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes that one run may need: with more it does not get on.
const PROCESSES_PER_RUN_MAX: u32 = 200;

/// How often a process is looked at while it lives.
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
    let Tally { kills, before_opening, under_way, after_closing } = torture.tally;
    assert!(under_way > 0, "no kill of {kills} hit a run under way");
    let posts = torture.ledger.posts("/").len();
    println!(
        "torture: {kills} kills over {runs} runs ({before_opening} before a run was there, {under_way} under way, \
         {after_closing} after its end); {} entries, {} POSTs sent again",
        entries.len(),
        posts - entries.len(),
    );
}

/// What the kills hit.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    before_opening: u64,
    under_way: u64,
    after_closing: u64,
}

struct Torture<'a> {
    ledger: Ledger,
    folder: &'a Path,
    random: Random,
    life_ms_max: u64,
    /// How long a process took that ended by itself, at most.
    longest: Duration,
    tally: Tally,
}

/// What the journal says of a run.
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

    /// Starts run `number` and kills whatever works on it, until it is over. Stops killing at `wanted` kills.
    fn run_to_the_end(&mut self, number: usize, wanted: u64) {
        let plan = self.write_plan(number);
        let before = self.last_run();
        // Per node that the journal called executed when nobody was alive: how often it had been sent by then.
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

    /// Judges a run that is over.
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

    /// Lets a process live. `None` if it ended by itself, and well; else it was killed, and these are the nodes that
    /// it had shown as executed.
    fn live(&mut self, arguments: &[&str], life: Option<Duration>) -> Option<BTreeSet<String>> {
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let shown = beside(move || executed(BufReader::new(stdout)));
        let complaint = beside(move || whole(stderr));
        let started = Instant::now();
        let deadline = started + life.unwrap_or(PATIENCE);
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if Instant::now() >= deadline => break None,
                None => thread::sleep(LOOK),
            }
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

    /// The run that was opened last.
    fn last_run(&self) -> Option<String> {
        Some(self.summary("@last")?["run"].as_str()?.to_owned())
    }

    fn summary(&self, run: &str) -> Option<Value> {
        let shown = self.ostler(&["show", run, "--format", "json"]);
        // A damaged store, a holder that does not answer, and a fault of ours are no "there is no such run".
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

    /// A command that nobody kills, unless it takes too long.
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

/// Does something on a thread of its own, whose end can be waited for with a bound.
fn beside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(act()));
    told
}

/// Everything that a pipe gives.
fn whole(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // One that breaks off has told what it told.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the POST of a node goes. Ends in a slash, so that no path begins another.
fn path(number: usize, node: &str) -> String {
    format!("/{number}/{node}/")
}

/// Twenty nodes and what they depend on: a chain of six, out of whose second node fans a star of eight, gathered by
/// one, and a second chain of five beside it all.
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

/// The nodes that lines of JSON say were executed. A last line that is cut off says nothing.
fn executed(lines: impl BufRead) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            find_executed(&line, &mut nodes);
        }
    }
    nodes
}

/// A transition is an object with a `node` that moves `to` a state, wherever it stands within the line.
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

/// Splitmix64: enough to spread kills over time, and the same for the same seed.
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
