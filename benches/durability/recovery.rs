//! Recovery of a thousand running runs after `kill -9`: time until all are queued again, and repeated steps.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ostler::kernel::event::Event;
use ostler::kernel::gate::{CallClass, Permit};
use ostler::kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler::kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler::kernel::run::NodeState;
use ostler::{Ostler, Run, Submission};
use serde_json::{Map, Value, json};

use crate::steps;
use crate::table::{Must, Row, median};

/// Argument that selects the process to be killed.
pub(crate) const CHILD: &str = "--recover";

const RUNS: usize = 1_000;

/// Number of kills.
const ROUNDS: usize = 7;

/// Timeout until all runs are queued.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn rows() -> Vec<Row> {
    let (mut whole, mut within, mut again) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        // A new folder per round, since runs that crash their process repeatedly are quarantined.
        let folder = steps::folder();
        let marks = folder.path().join("marks");
        drop(Process::start(folder.path(), &marks));
        let begun = Instant::now();
        let (_process, said) = Process::start(folder.path(), &marks);
        whole.push(begun.elapsed().as_secs_f64() * 1e3);
        within.push(said);
        again += std::fs::read_to_string(&marks).unwrap().lines().count() - RUNS;
    }
    vec![
        Row::new(
            "1,000 runs under way, kill -9, until all are queued again",
            Must::Most(500.0),
            150.0,
            median(whole),
        )
        .unit("ms")
        .note(format!("of it {:.0} ms from the start of the runtime on", median(within))),
        Row::new("finished steps that ran again", Must::Most(0.0), 0.0, again as f64)
            .note(format!("of {}", ROUNDS * RUNS)),
    ]
}

/// A process with all runs queued; killed on drop.
struct Process(Child);

impl Process {
    /// Starts a process; waits for its report of the milliseconds until all runs were queued.
    fn start(folder: &Path, marks: &Path) -> (Process, f64) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(CHILD)
            .arg(folder.join("data"))
            .arg(marks)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let process = Process(child);
        let said = lines.next().expect("it says when it is done").unwrap();
        (process, said.parse().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Sends SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Appends a line to a file for each call.
struct Mark(ToolSpec, Mutex<File>);

impl Tool for Mark {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::Keyed }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async {
            self.1.lock().unwrap().write_all(b"mark\n").unwrap();
            Ok(json!({}))
        })
    }
}

/// Never returns.
struct Hang(ToolSpec);

impl Tool for Hang {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(std::future::pending())
    }
}

fn spec(name: &str) -> ToolSpec {
    let any = || json!({"type": "object"});
    let (name, version, description) = (name.to_owned(), "1".to_owned(), name.to_owned());
    ToolSpec { name, version, description, params: any(), result: any() }
}

/// Opens or recovers a thousand runs, prints the milliseconds until all second steps are queued or running, and waits to be killed.
pub(crate) fn child(data: &Path, marks: &Path) {
    let begun = Instant::now();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let file = File::options().create(true).append(true).open(marks).unwrap();
        let os = Ostler::builder()
            .data_dir(data)
            .tool(Mark(spec("mark"), Mutex::new(file)))
            .tool(Hang(spec("hang")))
            .slots(2 * RUNS as u32)
            .start()
            .await
            .unwrap();
        if std::fs::metadata(marks).unwrap().len() == 0 {
            let nodes = json!([
                {"id": "mark", "tool": "mark"},
                {"id": "hang", "tool": "hang", "deps": ["mark"], "timeout": 3_600_000},
            ]);
            let draft: PlanDraft = serde_json::from_value(json!({"id": "hangs", "nodes": nodes})).unwrap();
            let plan = os.plan(draft).unwrap();
            for _ in 0..RUNS {
                let run = os.submit(Submission::plan(plan.clone())).await.unwrap();
                until_marked(&run).await;
            }
        }
        let queued =
            async || os.system().queue().await.map_or(0, |queue| u64::from(queue.running) + queue.queued);
        let marked = || std::fs::read(marks).unwrap().iter().filter(|byte| **byte == b'\n').count();
        while queued().await < RUNS as u64 || marked() < RUNS {
            assert!(begun.elapsed() < PATIENCE, "{} of {RUNS} queued, {} marked", queued().await, marked());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("{}", begun.elapsed().as_secs_f64() * 1e3);
        std::future::pending::<()>().await;
    });
}

/// Waits until the first step's result is durable.
async fn until_marked(run: &Run) {
    let mut events = run.events().unwrap();
    while let Some(record) = events.next().await {
        if let Event::NodeTransition(moved) = record.unwrap().event
            && moved.to == NodeState::Executed
        {
            return;
        }
    }
}
