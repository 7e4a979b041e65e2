//! Two clients, three agents, one process: spawns agents, gives each of them a plan, follows what happens, and prints what
//! came of it.
//!
//! ```console
//! $ cargo run --example spawn_agents
//! ```
//!
//! What it does is durable: `ostler ps` lists its runs afterwards, and if it is killed, `ostler resume` ends them.

use std::collections::BTreeMap;
use std::error::Error;

use ostler::plan_file::{Format, PlanFile};
use ostler::{AgentProfile, Ostler, Submission};

/// Counts what it finds, and takes a nap, so that the agents meet.
const PLAN: &str = r#"
id: count
nodes:
  - {id: nap, tool: time.sleep, params: {ms: 50}}
  - {id: list, tool: fs.list, params: {path: "${folder}"}}
  - {id: stats, tool: text.stats, param_refs: {files: {from: list, path: files}}}
  - id: report
    kind: aggregator
    deps: [nap, stats]
    params: {template: "{{ stats.result.lines }} lines in {{ stats.result.files }} files of ${folder}"}
"#;

/// Client, agent, and the folder that the agent is to count.
const WORK: [(&str, &str, &str); 3] =
    [("acme", "reader", "docs"), ("acme", "auditor", "examples"), ("globex", "clerk", "kernel")];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let os = Ostler::builder().data_dir(".ostler").start().await?;

    let mut watchers = Vec::new();
    for (client, name, folder) in WORK {
        let params = BTreeMap::from([("folder".to_owned(), folder.to_owned())]);
        let file = PlanFile::parse("count.yaml", Format::Yaml, PLAN, &params);
        let plan = file.validate(&os.settings()).map_err(|findings| format!("{findings:?}"))?;

        let agent = os.spawn(AgentProfile::new(name).client(client)).await?;
        let run = agent.submit(Submission::plan(plan)).await?; // durable from here
        watchers.push(tokio::spawn(async move {
            let mut events = run.events();
            while let Some(event) = events.next().await {
                println!("{client}/{name}: {event:?}");
            }
            (client, name, run.outcome().await)
        }));
    }

    for watcher in watchers {
        let (client, name, outcome) = watcher.await?;
        println!("{client}/{name}: {:?}", outcome?);
    }
    os.shutdown().await?;
    Ok(())
}
