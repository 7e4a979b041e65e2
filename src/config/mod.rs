//! `ostler.toml`: what an operator may set. All of it is optional; unknown keys are refused.
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
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_actors::ClientConfig;
use ostler_drivers::tool::ToolConfig;
use ostler_kernel::evaluation::Domains;
use ostler_kernel::gate::{CallLimits, GatePolicy, Scope};
use ostler_kernel::id::Ticks;
use ostler_kernel::plan::{DURATION_RULE, HumanDuration};
use ostler_kernel::port::Tool;
use ostler_store::Unwanted;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

pub use read::{CONFIG_BYTES_MAX, CONFIG_NAME, ConfigError};

/// The scope of a caller who names none: all tools, unless the configuration says otherwise.
pub use ostler_kernel::gate::SCOPE_DEFAULT;

/// Attempts that run at once in the whole system, where nobody says: eight for each core of this machine.
pub fn slots_default() -> u32 {
    8 * cores()
}

/// Attempts that run at once in a run whose plan does not say: two for each core of this machine.
pub fn run_slots_default() -> u32 {
    2 * cores()
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Weight of a client of whom nothing is said.
pub const CLIENT_WEIGHT: u32 = 100;

/// A configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "the tables [store], [retention], [shutdown], [tools], [scopes], [clients] and [evaluation]"
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
    /// `[scopes.NAME]`: who may call what.
    pub scopes: BTreeMap<String, ScopeConfig>,
    /// `[clients.NAME]`: tenants that are not like any other.
    pub clients: BTreeMap<String, ClientEntry>,
    /// `[evaluation]`.
    pub evaluation: EvaluationConfig,
}

/// `[evaluation]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [evaluation]")]
pub struct EvaluationConfig {
    /// `[evaluation.weights.NAME]`: how much each dimension counts in a domain.
    pub weights: BTreeMap<String, WeightEntry>,
}

/// `[evaluation.weights.NAME]`: what is not named counts for nothing; together they are 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of the weights of a domain")]
pub struct WeightEntry {
    /// How good what came of a run is.
    pub quality: f64,
    /// Whether it is what was asked for.
    pub adherence: f64,
    /// How soon it was there.
    pub speed: f64,
    /// What it cost.
    pub cost: f64,
    /// How seldom it failed.
    pub errors: f64,
    /// How seldom it had to be changed.
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
    /// Where everything is kept; absent: what `--data` says.
    pub url: Option<StoreUrl>,
}

/// Where everything is kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum StoreUrl {
    /// `file:PATH`: a data folder.
    File(PathBuf),
    /// `memory:`: nowhere; it ends with the process.
    Memory,
}

impl TryFrom<String> for StoreUrl {
    type Error = String;

    fn try_from(url: String) -> Result<StoreUrl, String> {
        match url.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(StoreUrl::File(path.into())),
            Some(("memory", "")) => Ok(StoreUrl::Memory),
            _ => Err(format!("{url:?} is no store: use \"file:PATH\" or \"memory:\"")),
        }
    }
}

/// `[retention]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [retention]")]
pub struct RetentionConfig {
    /// How long a run is kept once it is over; absent: for ever. In the file it has its unit.
    #[serde(deserialize_with = "with_unit")]
    pub keep: Option<HumanDuration>,
}

impl RetentionConfig {
    /// The longest that runs may be kept for, in days. Longer than a hundred years is for ever, which is said by saying nothing.
    pub const KEEP_DAYS_MAX: Ticks = 36_500;

    /// Whether runs may be kept for so long: for some time, and up to [`RetentionConfig::KEEP_DAYS_MAX`].
    pub fn takes(keep: HumanDuration) -> bool {
        (1..=RetentionConfig::KEEP_DAYS_MAX * 24 * 3_600 * 1_000).contains(&keep.ticks(1_000))
    }

    /// What is no longer to be kept at this time.
    pub fn unwanted(&self, now: SystemTime) -> Unwanted {
        let now_ms = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as Ticks;
        let keep_ms = self.keep.map(|keep| keep.ticks(1_000));
        Unwanted {
            closed_before_ms: keep_ms.map(|keep_ms| now_ms.saturating_sub(keep_ms)),
            quarantined: false,
        }
    }
}

/// `[shutdown]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [shutdown]")]
pub struct ShutdownConfig {
    /// How long what acts on the world may go on once the process is to end; absent: 30 s. In the file it has its unit.
    #[serde(deserialize_with = "with_unit")]
    pub wait: Option<HumanDuration>,
}

impl ShutdownConfig {
    /// How long that is.
    pub fn wait(&self) -> Duration {
        self.wait.map_or(SHUTDOWN_WAIT, |wait| Duration::from_millis(wait.ticks(1_000).unsigned_abs()))
    }
}

/// How long a shutdown waits for attempts that act on the world, if nobody says otherwise.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(30);

/// The longest that it may be told to, in milliseconds: whoever started the process is told nothing meanwhile.
pub(crate) const SHUTDOWN_WAIT_MS_MAX: Ticks = 24 * 3_600 * 1_000;

/// `[scopes.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of a scope")]
pub struct ScopeConfig {
    /// The tools one may call who acts in it.
    pub tools: Vec<String>,
    /// The most impact a tool may have in it, 0..=2.
    pub caps: BTreeMap<String, u8>,
}

/// `[clients.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of a client")]
pub struct ClientEntry {
    /// Its entitlement among the clients of its tier, 1 to 1,000,000.
    pub weight: u32,
    /// Its tier.
    pub tier: Tier,
}

impl Default for ClientEntry {
    fn default() -> ClientEntry {
        ClientEntry { weight: CLIENT_WEIGHT, tier: Tier::default() }
    }
}

/// Who is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Served first.
    Contracted,
    /// Served after the contracted tier, with a guaranteed share.
    #[default]
    Marketplace,
}

/// A span with its unit. A bare number is seconds in a plan; here `keep = 30` may be meant as days, and the history would go.
fn with_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HumanDuration>, D::Error> {
    struct WithUnit;

    impl Visitor<'_> for WithUnit {
        type Value = HumanDuration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{DURATION_RULE}, in quotes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<HumanDuration, E> {
            // Said here, since whoever is told of a number in quotes is told to leave these out.
            let refused = || E::custom(format!("expected {DURATION_RULE}, in quotes, found the text {text:?}"));
            HumanDuration::with_unit(text).ok_or_else(refused)
        }
    }

    deserializer.deserialize_any(WithUnit).map(Some)
}

impl Config {
    /// What the gate is to go by when these are the tools.
    pub fn gate(&self, tools: &[Arc<dyn Tool>]) -> GatePolicy {
        let all = tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect();
        let mut scopes = BTreeMap::from([(SCOPE_DEFAULT.to_owned(), Scope { tools: all })]);
        for (name, entry) in &self.scopes {
            let tools =
                entry.tools.iter().map(|tool| (tool.clone(), entry.caps.get(tool).copied())).collect();
            scopes.insert(name.clone(), Scope { tools });
        }
        GatePolicy {
            scopes,
            ceiling: 2,
            epoch: 1,
            limits: CallLimits::PLAN_FILE,
            egress: self.tools.http.egress_allow.clone(),
        }
    }

    /// How much each dimension of an evaluation counts, by what the work is about.
    pub fn domains(&self) -> Domains {
        let mut domains = Domains::default();
        for (domain, entry) in &self.evaluation.weights {
            if let Err(error) = domains.set(domain, entry.shares()) {
                tracing::error!(%error, "a configuration that was not checked: the domain keeps its weights");
            }
        }
        domains
    }

    /// The tenants that are not like any other, as the scheduler wants them.
    pub fn clients(&self) -> Vec<ClientConfig> {
        let client = |(name, entry): (&String, &ClientEntry)| ClientConfig {
            name: name.as_str().into(),
            weight: entry.weight,
            contracted: entry.tier == Tier::Contracted,
        };
        self.clients.iter().map(client).collect()
    }
}
