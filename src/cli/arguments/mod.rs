//! Options and arguments that several commands share.

pub(crate) mod bounds;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod values;

use std::path::PathBuf;

use clap::Args;

use crate::cli::exit::Failure;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Globals {
    /// Folder that holds everything: journal, artifacts, control.sock [default: .ostler]
    #[arg(long, global = true, env = "OSTLER_DATA", hide_env_values = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration [default: ostler.toml of the data folder, else of the workspace]
    #[arg(long, global = true, env = "OSTLER_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Globals {
    /// Refuses `--json` where there is nothing to tell a machine.
    pub(crate) fn text_only(&self, command: &str) -> Result<(), Failure> {
        if self.json {
            return Err(Failure::invalid(format!("`ostler {command}` prints text only: leave --json out")));
        }
        Ok(())
    }
}
