//! The models of a goal run: configured ones, one named by a file, or a recording of a configured one.

use std::path::Path;

use ostler::config::Config;
use ostler_drivers::model::{CassetteMode, ModelConfig, Provider};

use crate::cli::arguments::{ExtraModel, Globals};
use crate::cli::exit::Failure;
use crate::cli::output::hints;
use crate::cli::output::terminal::status_line;

/// Names of the models that plan and that write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thinkers {
    pub(crate) planner: String,
    pub(crate) executor: String,
}

impl Thinkers {
    /// The models of `--model`, or those of the configured roles.
    ///
    /// # Errors
    ///
    /// The model is not configured, or none is.
    pub(crate) fn of(globals: &Globals, config: &Config, model: Option<&str>) -> Result<Thinkers, Failure> {
        let both = |name: &str| Thinkers { planner: name.to_owned(), executor: name.to_owned() };
        if let Some(chosen) = globals.chosen_model(config, model)? {
            return Ok(both(&chosen));
        }
        let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
        let tables = config.models_config();
        let of_role = |role: &str| tables.model_of(role).to_owned();
        let found = Thinkers { planner: of_role("planner"), executor: of_role("executor") };
        if config.models.contains_key(&found.planner) && config.models.contains_key(&found.executor) {
            return Ok(found);
        }
        match known.as_slice() {
            [] => Err(Failure::invalid(NO_MODEL.to_owned())),
            [first, ..] => Err(Failure::invalid(format!(
                "no model is the default; use --model {first}, or call a model \"default\" in ostler.toml ({})",
                known.join(", ")
            ))),
        }
    }
}

const NO_MODEL: &str = "\
no model is configured; one of these helps:
  a model of this machine:  [models.default] with provider = \"openai\", base_url = \"http://127.0.0.1:11434/v1\", model = \"qwen3:8b\" in ostler.toml
  an API with a key:        [models.default] with provider = \"anthropic\", model = \"…\", api_key_env = \"ANTHROPIC_API_KEY\" in ostler.toml
  a script, for a try:      ostler ask --model scripted:FILE GOAL";

/// The model of `--cassette FILE`: plays the file if there is one, else records the model into it.
///
/// # Errors
///
/// Nothing calls a provider whose exchanges could be recorded, or two models would.
pub(crate) fn taped(
    globals: &Globals,
    config: &Config,
    model: Option<&str>,
    cassette: &Path,
) -> Result<Globals, Failure> {
    let shown = cassette.display();
    let refused = |why: String| Failure::invalid(format!("--cassette {shown}: {why}"));
    if globals.extra_model.is_some() {
        let why = "--model names a file that answers already; omit one of the two";
        return Err(refused(why.to_owned()));
    }
    let file = std::path::absolute(cassette).map_err(|error| refused(error.to_string()))?;
    let thinkers = Thinkers::of(globals, config, model);
    let table = thinkers.as_ref().ok().and_then(|found| config.models.get(&found.planner));
    if file.exists() {
        let named = format!("cassette:{}", file.display());
        hints::remember_model(&named);
        let played = ModelConfig { file: Some(file), ..ModelConfig::of(Provider::Cassette) };
        // The limit of an answer is part of each request, so it must be that of the recording.
        let limit = table.map_or(played.max_output_tokens, |table| table.max_output_tokens);
        let config = ModelConfig { max_output_tokens: limit, ..played };
        let extra = ExtraModel { name: Provider::Cassette.as_str().to_owned(), file: Some(named), config };
        return Ok(Globals { extra_model: Some(extra), ..globals.clone() });
    }
    let Thinkers { planner, executor } = thinkers?;
    if planner != executor {
        let why = format!("a cassette records one model, and {planner:?} plans while {executor:?} writes");
        return Err(refused(format!("{why}; name one with --model")));
    }
    let unrecordable = || refused(format!("model {planner:?} calls no provider; name another with --model"));
    let table = config.models.get(&planner).filter(|table| table.provider != Provider::Cassette);
    let table = table.ok_or_else(unrecordable)?;
    let dialect = table.dialect().ok_or_else(unrecordable)?;
    let config = ModelConfig {
        provider: Provider::Cassette,
        mode: CassetteMode::Record,
        dialect,
        file: Some(file),
        // A fallback would answer beside the recording.
        fallback: Vec::new(),
        ..table.clone()
    };
    status_line(format!("recording the exchanges with model {planner} in {shown}"));
    // The name stays, so that the run can be resumed without the cassette.
    Ok(Globals { extra_model: Some(ExtraModel { name: planner, file: None, config }), ..globals.clone() })
}
