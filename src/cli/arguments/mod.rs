//! Options and arguments that several commands share.

pub(crate) mod bounds;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod values;
pub(crate) mod watch;

use std::path::PathBuf;

use clap::Args;
use ostler_drivers::model::ModelConfig;

use crate::cli::exit::Failure;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Data folder: journal, artifacts, control.sock [default: .ostler] [env: OSTLER_DATA]
    // The help names the variable itself: clap's text is gone where the variable is ignored.
    #[arg(long, global = true, env = "OSTLER_DATA", hide_env = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file [default: ostler.toml in the data folder, else in the workspace] [env: OSTLER_CONFIG]
    #[arg(long, global = true, env = "OSTLER_CONFIG", hide_env = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A model for this command only.
    #[arg(skip)]
    pub(crate) extra_model: Option<ExtraModel>,
}

/// A model beside those of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ExtraModel {
    pub(crate) name: String,
    pub(crate) config: ModelConfig,
}

impl Globals {
    /// Rejects `--json` for commands that print text only.
    pub(crate) fn text_only(&self, command: &str) -> Result<(), Failure> {
        if self.json {
            return Err(Failure::invalid(format!(
                "--json: `ostler {command}` prints text only; omit the option"
            )));
        }
        Ok(())
    }
}
