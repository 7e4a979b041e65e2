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

/// Name of the model from `--model scripted:FILE`.
pub(crate) const SCRIPTED: &str = "scripted";

impl Globals {
    /// Adds the model of `--model scripted:FILE` to the configuration of this command. Any other name is one of the configuration.
    pub(crate) fn with_model(&self, model: Option<&str>) -> Result<Globals, Failure> {
        let Some(file) = model.and_then(|model| model.strip_prefix("scripted:")) else {
            return Ok(self.clone());
        };
        // Files of the configuration are found from its folder, and this file is named on the command line.
        let file = std::path::absolute(file)
            .map_err(|error| Failure::invalid(format!("--model scripted:{file}: {error}")))?;
        let extra = ExtraModel { name: SCRIPTED.to_owned(), config: ModelConfig::scripted(file) };
        Ok(Globals { extra_model: Some(extra), ..self.clone() })
    }

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
