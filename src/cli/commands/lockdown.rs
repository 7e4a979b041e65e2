//! `ostler lockdown`.

use std::path::Path;

use clap::{Args, ValueEnum};
use ostler_server::wire::Lockdown;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::session::api_client::ApiError;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct LockdownArgs {
    /// on stops new calls, off allows calls again; without an argument, the state is shown
    #[arg(value_name = "on|off")]
    wanted: Option<Wanted>,
}

impl LockdownArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.wanted.is_none()
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Wanted {
    On,
    Off,
}

pub(crate) async fn lockdown(globals: &Globals, args: LockdownArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    // A lockdown may precede the first run.
    let mode = if args.wanted.is_some() { AccessMode::Create } else { AccessMode::Read };
    let mut session = Session::open(globals, Path::new("."), mode).await?;
    let answer: Result<Lockdown, ApiError> = match args.wanted {
        None => session.get("/v1/lockdown").await,
        Some(wanted) => session.post("/v1/lockdown", &Lockdown { on: matches!(wanted, Wanted::On) }).await,
    };
    session.stop().await;
    let lockdown = answer?;
    if globals.json {
        out.json(&tagged("lockdown", &lockdown));
    } else if lockdown.on {
        out.line("lockdown is on: no new call of a tool starts; `ostler lockdown off` ends it");
    } else {
        out.line("lockdown is off");
    }
    Ok(code::SUCCEEDED)
}
