//! All models of a configuration, ready to be called.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ostler_kernel::id::Digest;
use ostler_kernel::ledger::Price;
use ostler_kernel::port::{Model, Tool};
use serde_json::json;

use super::config::{CassetteMode, ModelConfig, ModelsConfig, Provider};
use super::config_check::ConfigFault;
use super::http_model::HttpModel;
use super::key::Key;
use super::model_tool::ModelTool;
use super::price::PriceOrigin;
use super::price_table::{price_digest, price_of};
use super::scripted::ScriptedModel;

/// The configured models.
#[derive(Debug, Clone)]
pub struct Models {
    models: BTreeMap<String, Arc<ConfiguredModel>>,
    config: Arc<ModelsConfig>,
}

/// A model with its settings.
pub struct ConfiguredModel {
    /// Name in the configuration.
    pub name: String,
    /// The table.
    pub config: ModelConfig,
    /// The driver.
    pub model: Arc<dyn Model>,
    /// The price; `None`: unknown.
    pub price: Option<Price>,
    /// Where the price comes from.
    pub price_origin: PriceOrigin,
    /// Digest of the prices, for the records of charges; `None`: the price is unknown.
    pub prices: Option<Digest>,
    /// False if a key is needed whose variable is not set.
    pub has_key: bool,
    /// Digest of all that decides about answers beside the request: provider, address, model, limits, the script's bytes.
    pub version: String,
}

impl fmt::Debug for ConfiguredModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfiguredModel({})", self.name)
    }
}

impl Models {
    /// Builds every model. `folder` is the place of relative files; `env` reads environment variables. No model is called, and a
    /// missing key is an error of the call only. Reads scripts and cassettes; blocks.
    ///
    /// # Errors
    ///
    /// Every fault of the configuration, or else every file that cannot be used.
    pub fn new(
        config: &ModelsConfig,
        folder: &Path,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Models, Vec<ConfigFault>> {
        let mut faults = config.check();
        let mut models = BTreeMap::new();
        if faults.is_empty() {
            for (name, table) in &config.models {
                match configured(name, table, folder, env) {
                    Ok(model) => {
                        models.insert(name.clone(), Arc::new(model));
                    }
                    Err(fault) => faults.push(fault),
                }
            }
        }
        if faults.is_empty() { Ok(Models { models, config: Arc::new(config.clone()) }) } else { Err(faults) }
    }

    /// The model of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ConfiguredModel>> {
        self.models.get(name)
    }

    /// The models, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ConfiguredModel>> {
        self.models.values()
    }

    /// True without any model.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// The model that thinks for a role; `None` if it is not configured.
    pub fn of_role(&self, role: &str) -> Option<&Arc<ConfiguredModel>> {
        self.get(self.config.model_of(role))
    }

    /// The tools `model.NAME`, sorted by name.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let with_fallbacks = self.models.values().map(|model| {
            let fallbacks = model.config.fallback.iter().filter_map(|name| self.get(name));
            [model].into_iter().chain(fallbacks).cloned().collect()
        });
        with_fallbacks.map(|models| Arc::new(ModelTool::new(models)) as Arc<dyn Tool>).collect()
    }
}

/// The tools `model.NAME` of a configuration; see [`Models::new`].
///
/// # Errors
///
/// As [`Models::new`].
pub fn tools(
    config: &ModelsConfig,
    folder: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Arc<dyn Tool>>, Vec<ConfigFault>> {
    Ok(Models::new(config, folder, env)?.tools())
}

fn configured(
    name: &str,
    config: &ModelConfig,
    folder: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<ConfiguredModel, ConfigFault> {
    let variable = config.api_key_env.as_ref().and_then(|variable| variable.name());
    let key = Key::read(variable, env);
    let has_key = key.is_ready();
    let file = config.file.as_ref().map(|file| folder.join(file));
    let unusable = |file: &Path, problem: String| ConfigFault {
        place: format!("models.{name}.file"),
        what: format!("{}: {problem}", file.display()),
        help: "correct the file, or name another".to_owned(),
    };
    let (model, script): (Arc<dyn Model>, Vec<u8>) = match (config.provider, &file) {
        (Provider::Scripted, Some(file)) => {
            let (model, bytes) = ScriptedModel::open(file).map_err(|problem| unusable(file, problem))?;
            (Arc::new(model), bytes)
        }
        (Provider::Cassette, Some(file)) if config.mode == CassetteMode::Play => {
            let (model, bytes) =
                HttpModel::played(name, config, file).map_err(|problem| unusable(file, problem))?;
            (Arc::new(model), bytes)
        }
        (Provider::Cassette, _) => {
            (Arc::new(HttpModel::calling(name, config, key, folder, config.file.as_deref())?), Vec::new())
        }
        (Provider::Openai | Provider::Anthropic | Provider::Scripted, _) => {
            (Arc::new(HttpModel::calling(name, config, key, folder, None)?), Vec::new())
        }
    };
    let (price, price_origin) = price_of(config);
    let version = version(config, &script);
    Ok(ConfiguredModel {
        name: name.to_owned(),
        config: config.clone(),
        model,
        price,
        price_origin,
        prices: price_digest(price.as_ref(), price_origin),
        has_key,
        version,
    })
}

/// Results of another model are other results: whatever changes answers changes the version, and with it every identity.
fn version(config: &ModelConfig, script: &[u8]) -> String {
    let document = json!({
        "provider": config.provider.as_str(),
        "base_url": config.base_url(),
        "model": config.model,
        "profile": config.profile.map(|profile| format!("{profile:?}")),
        "max_output_tokens": config.max_output_tokens,
        "script": blake3::hash(script).to_hex().as_str(),
        "records": config.mode == CassetteMode::Record,
    });
    let digest = Digest(*blake3::hash(document.to_string().as_bytes()).as_bytes()).to_string();
    digest[..16].to_owned()
}
