//! `ostler release`.

use std::path::Path;

use clap::Args;
use ostler_server::wire::AgentRef;
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// Agent, as `ostler ps --agents` lists it
    agent: String,
}

pub(crate) async fn release(globals: &Globals, args: ReleaseArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Execute).await?;
    let path = format!("/v1/agents/{}/release", path_segment(&args.agent));
    let released: Result<AgentRef, ApiError> = session.post(&path, &json!({})).await;
    session.stop().await;
    let released = released?;
    if globals.json {
        out.json(&tagged("released", &released));
    } else {
        out.line(with_location(&format!(
            "{} is released; `ostler ps` lists its suspended runs, `ostler resume RUN` resumes one",
            released.agent
        )));
    }
    Ok(code::SUCCEEDED)
}
