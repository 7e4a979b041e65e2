//! `ostler.toml`: what an operator may set. All of it is optional; unknown keys are refused.
//!
//! ```
//! let text = r#"
//!     [store]
//!     url = "file:.ostler"
//!     [retention]
//!     keep = "30d"
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

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ostler_actors::ClientConfig;
use ostler_drivers::tool::ToolConfig;
use ostler_kernel::evaluation::{DomainError, Domains, WeightFault};
use ostler_kernel::gate::{CallLimits, GatePolicy, Scope};
use ostler_kernel::id::{NAME_RULE, Ticks, is_name};
use ostler_kernel::plan::{Pointer, Span};
use ostler_kernel::port::Tool;
use ostler_store::Unwanted;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::finding::{Finding, Source};
use crate::plan_file::{Format, ReadError, Shaped, meant, read_text};

/// Name of the file in a data folder or a workspace.
pub const CONFIG_NAME: &str = "ostler.toml";

/// Bytes of a configuration file.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;

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
    expecting = "the tables [store], [retention], [tools], [scopes], [clients] and [evaluation]"
)]
pub struct Config {
    /// `[store]`.
    pub store: StoreConfig,
    /// `[retention]`.
    pub retention: RetentionConfig,
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
    /// How long a run is kept once it is over; absent: for ever.
    pub keep: Option<Span>,
}

impl RetentionConfig {
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

/// Why a configuration is none.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no text to be had.
    #[error("the configuration: {0}")]
    Read(#[from] ReadError),
    /// It says something that is not known, or not as it should.
    #[error("{}", told(.source_text, .findings))]
    Content {
        /// The text.
        source_text: Box<Source>,
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}

/// Findings in lines: place, what, and what would mend it.
fn told(source: &Source, findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let place = match finding.place {
            Some(place) => format!("{}:{}:{}", source.name(), place.line, place.column),
            None => source.name().to_owned(),
        };
        let mend = if finding.mend.is_empty() { String::new() } else { format!(": {}", finding.mend) };
        format!("{place}: {}{mend}", finding.detail)
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Reads a configuration that is called `name` in errors.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, with its place; for an unknown key, the known one that was meant.
    pub fn parse(name: &str, text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(name, text, None)
    }

    /// Reads a configuration for these tools and no others: a scope that names another one is refused too. A tool that
    /// is switched off may be named.
    ///
    /// # Errors
    ///
    /// See [`Config::parse`].
    pub fn parse_for(name: &str, text: &str, tools: &BTreeSet<String>) -> Result<Config, ConfigError> {
        Config::parse_with(name, text, Some(tools))
    }

    fn parse_with(name: &str, text: &str, tools: Option<&BTreeSet<String>>) -> Result<Config, ConfigError> {
        let source = Box::new(Source::new(name, text.strip_prefix('\u{feff}').unwrap_or(text)));
        let mut shaped = Shaped::<Config>::read(Format::Toml, &source, "config");
        match shaped.value.take() {
            Some(config) if shaped.findings.is_empty() => {
                let unknown = tools.map(|tools| config.unknown_tools(tools)).unwrap_or_default();
                let findings: Vec<Finding> = config
                    .check()
                    .into_iter()
                    .chain(unknown)
                    .map(|(pointer, detail, mend)| Finding {
                        code: "config".to_owned(),
                        node: None,
                        detail,
                        mend,
                        place: shaped.at(pointer.as_str()).map(|at| source.place(at)),
                    })
                    .collect();
                if findings.is_empty() {
                    Ok(config)
                } else {
                    Err(ConfigError::Content { source_text: source, findings })
                }
            }
            _ => Err(ConfigError::Content { source_text: source, findings: shaped.findings }),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or see [`Config::parse`].
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        Config::parse(&path.display().to_string(), &read_text(path, CONFIG_BYTES_MAX)?)
    }

    /// Reads a file for these tools and no others.
    ///
    /// # Errors
    ///
    /// It cannot be read, or see [`Config::parse_for`].
    pub fn read_for(path: &Path, tools: &BTreeSet<String>) -> Result<Config, ConfigError> {
        Config::parse_for(&path.display().to_string(), &read_text(path, CONFIG_BYTES_MAX)?, tools)
    }

    /// The file that counts: the one that is named, else the data folder's, else the workspace's; `None` if there
    /// is none.
    pub fn find(named: Option<&Path>, data: &Path, workspace: &Path) -> Option<PathBuf> {
        match named {
            Some(path) => Some(path.to_owned()),
            None => [data, workspace]
                .map(|folder| folder.join(CONFIG_NAME))
                .into_iter()
                .find(|path| path.is_file()),
        }
    }

    /// What has the right shape and cannot be gone by: where, what, and what would mend it.
    fn check(&self) -> Vec<(Pointer, String, String)> {
        let mut wrong = Vec::new();
        if let Some(keep) = self.retention.keep.filter(|keep| keep.ticks(1_000) <= 0) {
            wrong.push((
                Pointer::root().key("retention").key("keep"),
                format!("runs are to be kept for {keep}"),
                "give it a span above zero, such as \"30d\"".to_owned(),
            ));
        }
        for (client, entry) in &self.clients {
            if !is_name(client) {
                let detail = format!("{client:?} cannot be the name of a client");
                wrong.push((
                    Pointer::root().key("clients").key(client),
                    detail,
                    format!("a name is {NAME_RULE}"),
                ));
            }
            if !(1..=ostler_scheduler::WEIGHT_MAX).contains(&entry.weight) {
                wrong.push((
                    Pointer::root().key("clients").key(client).key("weight"),
                    format!("the weight of client {client} is {}", entry.weight),
                    format!("give it 1 to {}", ostler_scheduler::WEIGHT_MAX),
                ));
            }
        }
        self.check_weights(&mut wrong);
        for (scope, entry) in &self.scopes {
            for (tool, cap) in &entry.caps {
                let place = Pointer::root().key("scopes").key(scope).key("caps").key(tool);
                if *cap > 2 {
                    let detail = format!("the cap of {tool} in scope {scope} is {cap}");
                    wrong.push((place.clone(), detail, "a cap is 0, 1 or 2".to_owned()));
                }
                if !entry.tools.contains(tool) {
                    let mend = match meant(tool, entry.tools.iter().map(String::as_str)) {
                        Some(meant) => format!("did you mean {meant:?}?"),
                        None => "name the tool in `tools` too, or leave its cap out".to_owned(),
                    };
                    wrong.push((
                        place,
                        format!("scope {scope} caps {tool}, which is not among its tools"),
                        mend,
                    ));
                }
            }
        }
        wrong
    }

    fn check_weights(&self, wrong: &mut Vec<(Pointer, String, String)>) {
        let mut domains = Domains::default();
        for (domain, entry) in &self.evaluation.weights {
            let place = Pointer::root().key("evaluation").key("weights").key(domain);
            match domains.set(domain, entry.shares()) {
                Ok(()) => {}
                Err(DomainError::Weights { faults, .. }) => {
                    for fault in faults {
                        let place = match fault {
                            WeightFault::OutOfRange { dimension, .. }
                            | WeightFault::TooFine { dimension, .. } => place.clone().key(dimension.as_str()),
                            WeightFault::Sum { .. } => place.clone(),
                        };
                        let mend =
                            "give each a weight from 0 to 1, such as 0.25, so that all six are 1 together";
                        wrong.push((place, format!("domain {domain}: {fault}"), mend.to_owned()));
                    }
                }
                Err(error @ (DomainError::Name(_) | DomainError::TooMany(_))) => {
                    wrong.push((
                        place,
                        error.to_string(),
                        "choose another name, or leave some out".to_owned(),
                    ));
                }
            }
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

    /// The tools that scopes name and that are not among these: where, what, and what would mend it.
    fn unknown_tools(&self, tools: &BTreeSet<String>) -> Vec<(Pointer, String, String)> {
        let mut wrong = Vec::new();
        for (scope, entry) in &self.scopes {
            let list = Pointer::root().key("scopes").key(scope).key("tools");
            let unknown = entry.tools.iter().enumerate().filter(|(_, tool)| !tools.contains(*tool));
            for (at, tool) in unknown {
                let mend = match meant(tool, tools.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => {
                        let known: Vec<&str> = tools.iter().map(String::as_str).collect();
                        format!("leave it out; there are {}", known.join(", "))
                    }
                };
                wrong.push((list.item(at), format!("scope {scope} names {tool:?}, which is no tool"), mend));
            }
        }
        wrong
    }

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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn refused(text: &str, expected: Expect) {
        let error = Config::parse("ostler.toml", text).expect_err(text);
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn unknown_keys_name_the_known_one_that_was_meant() {
        refused(
            "[stroe]\nurl = 'memory:'\n",
            expect![[r#"ostler.toml:1:2: unknown key "stroe": did you mean "store"?"#]],
        );
        refused(
            "[tools.http]\negress_alow = []\n",
            expect![[r#"ostler.toml:2:1: unknown key "egress_alow": did you mean "egress_allow"?"#]],
        );
        refused(
            "[clients.acme]\ntier = 'contract'\n",
            expect![[r#"ostler.toml:2:8: there is no "contract" here: use contracted or marketplace"#]],
        );
        refused(
            "[clients.acme]\nfoo = 1\n",
            expect![[r#"ostler.toml:2:1: unknown key "foo": use one of weight, tier"#]],
        );
    }

    #[test]
    fn values_out_of_range_are_named() {
        refused(
            "[store]\nurl = 'postgres://x'\n",
            expect![[r#"ostler.toml:2:7: "postgres://x" is no store: use "file:PATH" or "memory:""#]],
        );
        refused(
            "[clients.acme]\nweight = 0\n",
            expect!["ostler.toml:2:10: the weight of client acme is 0: give it 1 to 1000000"],
        );
        refused(
            "[clients.\"a b\"]\nweight = 1\n",
            expect![[
                r#"ostler.toml:1:10: "a b" cannot be the name of a client: a name is 1 to 64 of A-Z a-z 0-9 . _ -"#
            ]],
        );
        refused(
            "[retention]\nkeep = '0s'\n",
            expect![[
                r#"ostler.toml:2:8: runs are to be kept for 0ms: give it a span above zero, such as "30d""#
            ]],
        );
        refused(
            "[scopes.r]\ntools = ['fs.read']\ncaps = {'fs.raed' = 1}\n",
            expect![[
                r#"ostler.toml:3:21: scope r caps fs.raed, which is not among its tools: did you mean "fs.read"?"#
            ]],
        );
        refused(
            "[scopes.r]\ntools = ['fs.read']\ncaps = {'fs.read' = 3}\n",
            expect!["ostler.toml:3:21: the cap of fs.read in scope r is 3: a cap is 0, 1 or 2"],
        );
        refused(
            "[evaluation.weights.law]\nquality = 0.5\nspeed = 0.55\n",
            expect![[
                r#"ostler.toml:1:21: domain law: the weights add up to 1.05, not to 1: give each a weight from 0 to 1, such as 0.25, so that all six are 1 together"#
            ]],
        );
        refused(
            "[evaluation.weights.law]\nquality = -0.5\nspeed = 1.5\n",
            expect![[r#"
                ostler.toml:2:11: domain law: the weight of quality is -0.5, which is not within 0 and 1: give each a weight from 0 to 1, such as 0.25, so that all six are 1 together
                ostler.toml:3:9: domain law: the weight of speed is 1.5, which is not within 0 and 1: give each a weight from 0 to 1, such as 0.25, so that all six are 1 together"#]],
        );
        refused("a = \n", expect!["ostler.toml:1:5: string values must be quoted, expected literal string"]);
    }

    #[test]
    fn a_scope_names_tools_that_there_are_unless_others_may_be_added() {
        let tools = ["fs.list", "fs.read", "shell.run"].map(str::to_owned).into();
        for (listed, told) in [
            ("'fs.read'", None),
            (
                "'fs.read', 'fs.raed'",
                Some("2:21: scope r names \"fs.raed\", which is no tool: did you mean \"fs.read\"?"),
            ),
            (
                "'no.such.tool'",
                Some(
                    "2:10: scope r names \"no.such.tool\", which is no tool: leave it out; there are fs.list, fs.read, \
                     shell.run",
                ),
            ),
        ] {
            let text = format!("[scopes.r]\ntools = [{listed}]\n");
            assert!(Config::parse("x", &text).is_ok(), "{listed}");
            let found = Config::parse_for("x", &text, &tools).map_err(|error| error.to_string()).err();
            assert_eq!(found, told.map(|told| format!("x:{told}")), "{listed}");
        }
    }

    #[test]
    fn nothing_said_is_all_tools_and_no_egress() {
        let config = Config::parse("x", "").unwrap();
        let tools = ostler_drivers::tool::builtin(&config.tools, None);
        let gate = config.gate(&tools);
        assert_eq!(gate.scopes[SCOPE_DEFAULT].tools.len(), tools.len());
        assert!(gate.egress.judge("https://example.com/").is_err());
        assert!(config.clients().is_empty());
    }

    #[test]
    fn a_scope_holds_its_tools_with_their_caps() {
        let text = "[scopes.r]\ntools = ['fs.read', 'fs.list']\ncaps = {'fs.read' = 0}\n";
        let gate = Config::parse("x", text).unwrap().gate(&[]);
        assert_eq!(
            gate.scopes["r"].tools,
            BTreeMap::from([("fs.read".into(), Some(0)), ("fs.list".into(), None)])
        );
    }

    #[test]
    fn the_nearest_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (data, workspace) = (folder.path().join("data"), folder.path().join("work"));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::create_dir_all(&workspace).unwrap();
        assert_eq!(Config::find(None, &data, &workspace), None);
        std::fs::write(workspace.join(CONFIG_NAME), "").unwrap();
        assert_eq!(Config::find(None, &data, &workspace), Some(workspace.join(CONFIG_NAME)));
        std::fs::write(data.join(CONFIG_NAME), "").unwrap();
        assert_eq!(Config::find(None, &data, &workspace), Some(data.join(CONFIG_NAME)));
        let named = folder.path().join("x.toml");
        assert_eq!(Config::find(Some(&named), &data, &workspace), Some(named));
    }
}
