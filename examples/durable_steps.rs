//! An agent in code with durable steps. Kill the process at any point and start it again: finished steps do not run again.
//!
//! ```console
//! $ cargo run --example durable_steps
//! page 0 is copied
//! page 1 is copied
//! ^\Quit
//! $ cargo run --example durable_steps
//! page 2 is copied
//! ```
//!
//! `ostler ps` lists the run. `copied.log` in the current folder shows which steps ran how often.
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ostler::kernel::event::Failure;
use ostler::kernel::id::RunId;
use ostler::kernel::plan::{Effect, Idempotency};
use ostler::kernel::run::FailureCategory;
use ostler::{Ostler, Program, ProgramContext, Settled, Step, Submission};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let settled = work(Path::new(".ostler"), Path::new("."), 20, 200).await?;
    println!("{settled:?}");
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Copy {
    pages: u32,
    pause_ms: u64,
}

/// The agent. Code outside of steps runs again after a restart.
async fn copy(agent: ProgramContext, Copy { pages, pause_ms }: Copy) -> Result<u64, Failure> {
    let mut bytes = 0;
    for page in 0..pages {
        let step = Step::new(format!("page {page}")).input(&page).effect(Idempotency::Keyed);
        bytes += agent.step(step, async || copy_page(&agent, page, pause_ms).await).await?;
        println!("page {page} is copied"); // durable at this point
        agent.progress(page).ok();
    }
    Ok(bytes)
}

/// A durable step: appends a line.
async fn copy_page(agent: &ProgramContext, page: u32, pause_ms: u64) -> Result<u64, Failure> {
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    let line = format!("page {page} {}\n", agent.idempotency_key(&format!("page {page}")));
    let file =
        std::fs::OpenOptions::new().create(true).append(true).open(agent.workspace().join("copied.log"));
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| Failure::new(FailureCategory::Transient, format!("copied.log: {error}")))?;
    Ok(line.len() as u64)
}

/// Starts a system, runs or resumes the agent, and returns the outcome of its run.
pub(crate) async fn work(
    data: &Path,
    folder: &Path,
    pages: u32,
    pause_ms: u64,
) -> Result<Settled, Box<dyn Error>> {
    let program = Program::new("copy", "1", copy)
        .input(json!({"type": "object", "properties": {"pages": {"type": "integer"}, "pause_ms": {"type": "integer"}}}))
        .output(json!({"type": "integer"}))
        .effect(Effect::Write);
    let os = Ostler::builder().data_dir(data).program(program).start().await?;
    // A fixed id: submitting it again finds the existing run.
    let id: RunId = "01900000-0000-7000-8000-0000000000d5".parse()?;
    let call = os.call("copy", serde_json::to_value(Copy { pages, pause_ms })?)?;
    let run = os.submit(Submission { run: Some(id), workspace: folder.to_owned(), ..call }).await?;
    let settled = run.outcome().await?;
    os.shutdown().await;
    Ok(settled)
}
