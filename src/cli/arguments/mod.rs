//! Options and arguments that several commands share.

pub(crate) mod bounds;
pub(crate) mod budget;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod values;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use ostler::config::Config;
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig, Provider};

use crate::cli::exit::Failure;
use crate::cli::output::hints;

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
    /// Model as another command names a file, such as `scripted:script.yaml`; none for a model of the configuration.
    pub(crate) file: Option<String>,
    pub(crate) config: ModelConfig,
}

impl Globals {
    /// Adds the model of `--model scripted:FILE` or `cassette:FILE` to the configuration of this command. Any other name is one
    /// of the configuration.
    pub(crate) fn with_model(&self, model: Option<&str>) -> Result<Globals, Failure> {
        let Some((provider, file)) = model.and_then(model_file) else { return Ok(self.clone()) };
        // Files of the configuration are found from its folder, and this file is named on the command line.
        let file = std::path::absolute(file)
            .map_err(|error| Failure::invalid(format!("--model {}: {error}", model.unwrap_or_default())))?;
        let named = format!("{}:{}", provider.as_str(), file.display());
        hints::remember_model(&named);
        let config = ModelConfig { file: Some(file), ..ModelConfig::of(provider) };
        check_file(provider, &config)?;
        let extra = ExtraModel { name: provider.as_str().to_owned(), file: Some(named), config };
        Ok(Globals { extra_model: Some(extra), ..self.clone() })
    }

    /// The model of `--model`: that of the file, or one of the configuration; `None` without the option.
    ///
    /// # Errors
    ///
    /// The model is not configured.
    pub(crate) fn chosen_model(
        &self,
        config: &Config,
        model: Option<&str>,
    ) -> Result<Option<String>, Failure> {
        if let Some(extra) = &self.extra_model {
            return Ok(Some(extra.name.clone()));
        }
        let Some(named) = model else { return Ok(None) };
        if config.models.contains_key(named) {
            return Ok(Some(named.to_owned()));
        }
        let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "no model is configured".to_owned() } else { known.join(", ") };
        Err(Failure::invalid(format!(
            "--model {named}: not a configured model ({known}); name one, scripted:FILE or cassette:FILE"
        )))
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

/// Reads the file of `--model`, so that a fault of the file is told once and names the option. The configuration would name two
/// models with the file, neither of which stands in it.
fn check_file(provider: Provider, config: &ModelConfig) -> Result<(), Failure> {
    let models = BTreeMap::from([(provider.as_str().to_owned(), config.clone())]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    let built = Models::new(&config, Path::new(""), &|_| None);
    built.map(drop).map_err(|faults| {
        let told: Vec<String> =
            faults.iter().map(|fault| format!("{}; {}", fault.what, fault.help)).collect();
        Failure::invalid(format!("--model: {}", told.join("; ")))
    })
}

/// The model of a goal run that was asked with the name of a file. Any command that continues the run needs it.
#[derive(Debug, Args)]
pub(crate) struct ModelOption {
    /// Model of a run that was asked with --model scripted:FILE or cassette:FILE
    #[arg(long, value_name = "scripted:FILE", value_parser = model_text)]
    model: Option<String>,
}

impl ModelOption {
    /// Adds the model to the configuration of this command.
    pub(crate) fn add_to(&self, globals: &Globals) -> Result<Globals, Failure> {
        globals.with_model(self.model.as_deref())
    }
}

/// The provider and the file of a model that a command names by its file.
pub(crate) fn model_file(text: &str) -> Option<(Provider, &str)> {
    let providers = [Provider::Scripted, Provider::Cassette].into_iter();
    let mut named = providers.filter_map(|provider| Some((provider, text.strip_prefix(provider.as_str())?)));
    named
        .find_map(|(provider, rest)| Some((provider, rest.strip_prefix(':')?)))
        .filter(|(_, file)| !file.is_empty())
}

/// Checks the text of a model that a command names by its file.
fn model_text(text: &str) -> Result<String, String> {
    let refused = "give scripted:FILE or cassette:FILE; other models are those of the configuration";
    model_file(text).map(|_| text.to_owned()).ok_or_else(|| refused.to_owned())
}
