//! Two clients and three agents in one process: spawns agents, submits work, follows the events and prints the results.
//!
//! ```console
//! $ cargo run --example spawn_agents
//! ```
//!
//! The runs are durable: `ostler ps` lists them afterwards, and `ostler resume` finishes them if the process was killed.
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

use std::collections::BTreeMap;
use std::error::Error;

use ostler::kernel::event::Event;
use ostler::plan_file::{Format, PlanFile};
use ostler::{AgentProfile, Ostler, Run, RunError, Submission};

/// Counts the lines of a folder while another node sleeps.
const PLAN: &str = r#"
id: count
nodes:
  - {id: nap, tool: time.sleep, params: {ms: 50}}
  - {id: list, tool: fs.list, params: {path: "${folder}"}}
  - {id: stats, tool: text.stats, param_refs: {files: {from: list, path: files}}}
  - id: report
    kind: aggregator
    deps: [{n: nap, on: terminal}, {n: stats, on: terminal}]
    params: {template: "{{ stats.result.lines }} lines in {{ stats.result.files }} files of ${folder}"}
"#;

/// Client, agent, and folder to count. The reader gets two runs, one after the other.
const WORK: [(&str, &str, &str); 4] = [
    ("acme", "reader", "docs"),
    ("acme", "reader", "examples"),
    ("acme", "auditor", "kernel"),
    ("globex", "clerk", "tests"),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let os = Ostler::builder().data_dir(".ostler").start().await?;

    let mut watchers = Vec::new();
    for (client, name, folder) in WORK {
        let params = BTreeMap::from([("folder".to_owned(), folder.to_owned())]);
        let file = PlanFile::parse("count.yaml", Format::Yaml, PLAN, &params);
        let (plan, _advice) =
            file.validate(&os.system().settings()).map_err(|faults| format!("{faults:#?}"))?;

        let agent = os.spawn(AgentProfile::new(name).client(client)).await?;
        let run = agent.submit(Submission::plan(plan)).await?; // durable from here on
        watchers.push(tokio::spawn(watch(format!("{client}/{name}"), run)));
    }
    let mut failed = 0;
    for watcher in watchers {
        failed += u32::from(!watcher.await??);
    }

    os.shutdown().await;
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs did not succeed").into()) }
}

/// Prints a run's durable events and its outcome; true for a success.
async fn watch(who: String, run: Run) -> Result<bool, RunError> {
    let mut events = run.events()?;
    while let Some(event) = events.next().await {
        if let Event::NodeTransition(step) = event?.event {
            println!("{who:<14} {:<7} {} -> {} ({})", step.node.as_str(), step.from, step.to, step.reason);
        }
    }
    let outcome = run.outcome().await?;
    let report = run.artifact("report").await?;
    println!("{who:<14} {outcome:?}: {}", String::from_utf8_lossy(&report.content));
    Ok(outcome.is_success())
}
