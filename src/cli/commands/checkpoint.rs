//! `ostler checkpoint`.

use std::path::Path;

use clap::Args;
use ostler_server::wire::RunRef;
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::commands::change_node::post;
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::terminal::Out;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
}

pub(crate) async fn checkpoint(globals: &Globals, args: CheckpointArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Execute).await?;
    let posted = post(&mut session, &args.run, "checkpoint").await;
    session.stop().await;
    let RunRef { run } = posted?;
    if globals.json {
        out.json(&json!({"type": "suspended", "run": run}));
    } else {
        out.line(format!("run {run} is suspended; `{}` resumes it", hints::resume(&run)));
    }
    Ok(code::SUCCEEDED)
}
