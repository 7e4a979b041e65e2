//! `ostler.toml`, the operator's configuration. Every key is optional; unknown keys are rejected.
//!
//! ```
//! let text = r#"
//!     [store]
//!     url = "file:.ostler"
//!     [retention]
//!     keep = "30d"
//!     [shutdown]
//!     wait = "30s"
//!     [tools.shell]
//!     allow = [{argv = ["make", "check"], impact = 1, effect = "write"}]
//!     [sandbox]
//!     minimum = "bubblewrap"
//!     [tools.http]
//!     egress_allow = ["api.example.com:443"]
//!     [scopes.reader]
//!     tools = ["fs.list", "fs.read"]
//!     caps = {"fs.read" = 0}
//!     [clients.acme]
//!     weight = 300
//!     tier = "contracted"
//!     [evaluation.weights.contracts]
//!     quality = 0.5
//!     adherence = 0.5
//! "#;
//! let config = ostler::config::Config::parse("ostler.toml", text).unwrap();
//! assert_eq!(config.clients["acme"].weight, 300);
//! ```

mod check;
mod known_tools;
mod masked;
mod read;
mod service;
mod telemetry;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_actors::{ClientConfig, ModelRates};
use ostler_drivers::cage::{SandboxConfig, Workspaces};
use ostler_drivers::mcp::McpConfig;
use ostler_drivers::model::{ConfigFault, ModelConfig, Models, ModelsConfig};
use ostler_drivers::tool::ToolConfig;
use ostler_kernel::evaluation::Domains;
use ostler_kernel::gate::{GatePolicy, GateRules, Scope};
use ostler_kernel::id::Ticks;
use ostler_kernel::plan::{DURATION_RULE, HumanDuration};
use ostler_kernel::port::Tool;
use ostler_server::user_folder;
use ostler_store::{RetentionPolicy, ReusableRuns};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::mcp::McpServers;

pub use known_tools::KnownTools;
pub use read::{CONFIG_BYTES_MAX, CONFIG_NAME, ConfigError};
pub use service::ServiceConfig;
pub use telemetry::{TelemetryConfig, Traces};

/// Models that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelsError(pub Vec<ConfigFault>);

impl fmt::Display for ModelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&faults.join("\n"))
    }
}

impl std::error::Error for ModelsError {}

/// Scope of callers without a named scope: all tools, unless configured otherwise.
pub use ostler_kernel::gate::SCOPE_DEFAULT;

/// Default of attempts running at once in the whole system: eight per core.
pub fn slots_default() -> u32 {
    8 * cores()
}

/// Default of attempts running at once in a run: two per core.
pub fn run_slots_default() -> u32 {
    2 * cores()
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Default weight of a client.
pub const CLIENT_WEIGHT: u32 = 100;

/// The configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "the tables [store], [retention], [shutdown], [tools], [sandbox], [scopes], [policy], [clients], [evaluation], [models], [roles], [mcp], [service] and [telemetry]"
)]
pub struct Config {
    /// `[store]`.
    pub store: StoreConfig,
    /// `[retention]`.
    pub retention: RetentionConfig,
    /// `[shutdown]`.
    pub shutdown: ShutdownConfig,
    /// `[tools]`.
    pub tools: ToolConfig,
    /// `[sandbox]`: the cage around programs.
    pub sandbox: SandboxConfig,
    /// `[scopes.NAME]`: tools available to a caller.
    pub scopes: BTreeMap<String, ScopeConfig>,
    /// `[policy]`: limits of tool calls.
    pub policy: GateRules,
    /// `[clients.NAME]`: clients with settings of their own.
    pub clients: BTreeMap<String, ClientEntry>,
    /// `[evaluation]`.
    pub evaluation: EvaluationConfig,
    /// `[models.NAME]`: language models.
    pub models: BTreeMap<String, ModelConfig>,
    /// `[roles]`: names of models by role.
    pub roles: BTreeMap<String, String>,
    /// `[mcp.NAME]`: servers of the Model Context Protocol.
    pub mcp: BTreeMap<String, McpConfig>,
    /// `[service]`: what this process answers over TCP.
    pub service: ServiceConfig,
    /// `[telemetry]`: traces for OpenTelemetry.
    pub telemetry: TelemetryConfig,
    /// Folder of the file: files of models are found from here.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The servers of `[mcp]` with their accepted tools, once [`Config::with_servers`] has read them.
    #[serde(skip)]
    pub servers: McpServers,
    /// Path of the configuration file; `None` for a configuration without a file.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// Text of the configuration file.
    #[serde(skip)]
    pub text: String,
    /// The file was found, in a data folder or a workspace. To name one is a decision.
    #[serde(skip)]
    pub found: bool,
}

/// `[evaluation]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [evaluation]")]
pub struct EvaluationConfig {
    /// `[evaluation.weights.NAME]`: weights of the dimensions in a domain.
    pub weights: BTreeMap<String, WeightEntry>,
}

/// `[evaluation.weights.NAME]`: absent dimensions weigh 0, and the sum is 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of the weights of a domain")]
pub struct WeightEntry {
    /// Quality of the result.
    pub quality: f64,
    /// Match between result and task.
    pub adherence: f64,
    /// Duration.
    pub speed: f64,
    /// Cost.
    pub cost: f64,
    /// Rarity of failures.
    pub errors: f64,
    /// Rarity of plan changes.
    pub revisions: f64,
}

impl WeightEntry {
    fn shares(self) -> [f64; 6] {
        let WeightEntry { quality, adherence, speed, cost, errors, revisions } = self;
        [quality, adherence, speed, cost, errors, revisions]
    }
}

/// `[store]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [store]")]
pub struct StoreConfig {
    /// Location of the data; `None` uses `--data`.
    pub url: Option<StoreUrl>,
}

/// Location of the data.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum StoreUrl {
    /// `file:PATH`: a data folder.
    File(PathBuf),
    /// `memory:`: the data ends with the process.
    Memory,
}

impl TryFrom<String> for StoreUrl {
    type Error = String;

    fn try_from(url: String) -> Result<StoreUrl, String> {
        match url.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(StoreUrl::File(path.into())),
            Some(("memory", "")) => Ok(StoreUrl::Memory),
            _ => Err(format!("unknown store {url:?}: use \"file:PATH\" or \"memory:\"")),
        }
    }
}

/// `[retention]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [retention]")]
pub struct RetentionConfig {
    /// Retention after the end of a run; `None` keeps runs for ever. The file must give a unit.
    #[serde(deserialize_with = "with_unit")]
    pub keep: Option<HumanDuration>,
    /// Retention of runs with results that reuse may need; `None`: like others.
    #[serde(deserialize_with = "reuse_retention")]
    pub reuse: Option<ReuseRetention>,
}

/// Retention of runs with a recorded result that is the newest of its work, or of its node. Never shorter than that of others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReuseRetention {
    /// As long as the result is the newest: `"keep"`.
    Keep,
    /// This long after the end of the run.
    For(HumanDuration),
}

impl RetentionConfig {
    /// Longest retention, in days. Leave `keep` out for more than a hundred years.
    pub const KEEP_DAYS_MAX: Ticks = 36_500;

    /// Returns whether `keep` is above zero and at most [`RetentionConfig::KEEP_DAYS_MAX`].
    pub fn takes(keep: HumanDuration) -> bool {
        (1..=RetentionConfig::KEEP_DAYS_MAX * 24 * 3_600 * 1_000).contains(&keep.ticks(1_000))
    }

    /// Retention policy at time `now`.
    pub fn policy(&self, now: SystemTime) -> RetentionPolicy {
        let now_ms = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as Ticks;
        let before = |keep: HumanDuration| now_ms.saturating_sub(keep.ticks(1_000));
        let reusable = match self.reuse {
            None => ReusableRuns::Removed,
            Some(ReuseRetention::Keep) => ReusableRuns::Kept,
            Some(ReuseRetention::For(keep)) => ReusableRuns::KeptSince(before(keep)),
        };
        RetentionPolicy { closed_before_ms: self.keep.map(before), reusable, quarantined: false }
    }
}

/// `[shutdown]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [shutdown]")]
pub struct ShutdownConfig {
    /// Time granted to effectful attempts on shutdown; `None` means 30 s. The file must give a unit.
    #[serde(deserialize_with = "with_unit")]
    pub wait: Option<HumanDuration>,
}

impl ShutdownConfig {
    /// The configured or default wait.
    pub fn wait(&self) -> Duration {
        self.wait.map_or(SHUTDOWN_WAIT, |wait| Duration::from_millis(wait.ticks(1_000).unsigned_abs()))
    }
}

/// Default wait for effectful attempts on shutdown.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(30);

/// Longest wait on shutdown, in milliseconds. A longer wait would look like a hung process.
pub(crate) const SHUTDOWN_WAIT_MS_MAX: Ticks = 24 * 3_600 * 1_000;

/// `[scopes.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of a scope")]
pub struct ScopeConfig {
    /// Tools available in the scope.
    pub tools: Vec<String>,
    /// Largest impact per tool in the scope, 0 to 2.
    pub caps: BTreeMap<String, u8>,
    /// The only version of a tool that the scope grants.
    pub pins: BTreeMap<String, String>,
}

/// `[clients.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of a client")]
pub struct ClientEntry {
    /// Share among clients of the same tier, 1 to 1,000,000.
    pub weight: u32,
    /// Scheduling tier.
    pub tier: Tier,
    /// Tokens of all models in a minute; `None`: no limit.
    pub tokens_per_minute: Option<u32>,
}

impl Default for ClientEntry {
    fn default() -> ClientEntry {
        ClientEntry { weight: CLIENT_WEIGHT, tier: Tier::default(), tokens_per_minute: None }
    }
}

/// Scheduling tier of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Served first.
    Contracted,
    /// Served after the contracted tier, with a guaranteed share.
    #[default]
    Marketplace,
}

/// Reads `"keep"`, or a duration with its unit.
fn reuse_retention<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ReuseRetention>, D::Error> {
    struct KeepOrUnit;

    impl Visitor<'_> for KeepOrUnit {
        type Value = ReuseRetention;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "\"keep\", or {DURATION_RULE}, in quotes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<ReuseRetention, E> {
            if text == "keep" {
                return Ok(ReuseRetention::Keep);
            }
            let refused = || {
                E::custom(format!(
                    "expected \"keep\", or {DURATION_RULE}, in quotes, found the text {text:?}"
                ))
            };
            HumanDuration::with_unit(text).map(ReuseRetention::For).ok_or_else(refused)
        }
    }

    deserializer.deserialize_any(KeepOrUnit).map(Some)
}

/// Deserialises a duration with a unit. A bare number means seconds in a plan; here `keep = 30` could be
/// meant as days, and reading seconds would delete the history.
fn with_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HumanDuration>, D::Error> {
    struct WithUnit;

    impl Visitor<'_> for WithUnit {
        type Value = HumanDuration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{DURATION_RULE}, in quotes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<HumanDuration, E> {
            // Reported here, because the generic error for a quoted number suggests removing the quotes.
            let refused =
                || E::custom(format!("expected {DURATION_RULE}, in quotes, found the text {text:?}"));
            HumanDuration::with_unit(text).ok_or_else(refused)
        }
    }

    deserializer.deserialize_any(WithUnit).map(Some)
}

impl Config {
    /// The configuration of the built-in tools, with the cage of their programs.
    pub(crate) fn tool_config(&self) -> ToolConfig {
        ToolConfig { sandbox: self.cage_config(), ..self.tools.clone() }
    }

    /// `[sandbox]` for every cage of this process: without what no program may see.
    pub(crate) fn cage_config(&self) -> SandboxConfig {
        let user = user_folder();
        SandboxConfig {
            workspaces: user.as_deref().map(Workspaces::at),
            hide: user.into_iter().collect(),
            freeze: self.path.clone().into_iter().collect(),
            written: self.mcp.values().flat_map(|server| server.written_folders(&self.folder)).collect(),
            pinned: self.mcp.values().flat_map(|server| server.pinned_files(&self.folder)).collect(),
            ..self.sandbox.clone()
        }
    }

    /// Gate policy for these tools.
    pub fn gate(&self, tools: &[Arc<dyn Tool>]) -> GatePolicy {
        let all = tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect();
        let mut scopes = BTreeMap::from([(SCOPE_DEFAULT.to_owned(), Scope { tools: all })]);
        for (name, entry) in &self.scopes {
            let tools =
                entry.tools.iter().map(|tool| (tool.clone(), entry.caps.get(tool).copied())).collect();
            scopes.insert(name.clone(), Scope { tools });
        }
        let pins = self.scopes.iter().map(|(name, entry)| (name.clone(), entry.pins.clone()));
        GatePolicy {
            scopes,
            pins: pins.collect(),
            ceiling: 2,
            epoch: 1,
            egress: self.tools.http.egress_allow.clone(),
            ..GatePolicy::default()
        }
        .with_rules(&self.policy)
    }

    /// Reads the accepted tools of the MCP servers from the data folder.
    ///
    /// # Errors
    ///
    /// See [`McpServers::read`].
    pub fn with_servers(self, data: Option<&Path>) -> std::io::Result<Config> {
        let servers = McpServers::read(&self.mcp, &self.cage_config(), &self.folder, data)?;
        Ok(Config { servers, ..self })
    }

    /// The tables of models.
    pub fn models_config(&self) -> ModelsConfig {
        ModelsConfig { models: self.models.clone(), roles: self.roles.clone() }
    }

    /// Name of the model that `[roles]` gives the role `judge`; `None`: none is named.
    pub fn judge_model(&self) -> Option<String> {
        self.roles.get("judge").cloned()
    }

    /// Builds the configured models; keys come from the environment. Reads scripts and cassettes; blocks.
    ///
    /// # Errors
    ///
    /// Every fault of the tables, or else every file that cannot be used.
    pub fn models(&self) -> Result<Models, ModelsError> {
        let env = |name: &str| std::env::var(name).ok();
        Models::new(&self.models_config(), &self.folder, &env).map_err(ModelsError)
    }

    /// Evaluation weights by domain.
    pub fn domains(&self) -> Domains {
        let mut domains = Domains::default();
        for (domain, entry) in &self.evaluation.weights {
            if let Err(error) = domains.set(domain, entry.shares()) {
                tracing::error!(%error, "a configuration that was not checked: the domain keeps its weights");
            }
        }
        domains
    }

    /// Rate limits of the models, for the scheduler.
    pub fn model_rates(&self) -> BTreeMap<String, ModelRates> {
        let rates = |model: &ModelConfig| ModelRates {
            requests_per_minute: model.requests_per_minute,
            tokens_per_minute: model.tokens_per_minute,
        };
        self.models.iter().map(|(name, model)| (name.clone(), rates(model))).collect()
    }

    /// Client settings for the scheduler.
    pub fn clients(&self) -> Vec<ClientConfig> {
        let client = |(name, entry): (&String, &ClientEntry)| ClientConfig {
            name: name.as_str().into(),
            weight: entry.weight,
            contracted: entry.tier == Tier::Contracted,
            tokens_per_minute: entry.tokens_per_minute,
        };
        self.clients.iter().map(client).collect()
    }
}
