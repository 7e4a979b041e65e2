//! The tables `[mcp.NAME]` of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::login::OauthConfig;

/// Longest name of a server, in bytes.
pub const MCP_NAME_BYTES_MAX: usize = 32;

/// Default time for a server to start and to list its tools, in milliseconds. Servers that a package manager loads take ten
/// seconds on a busy machine.
pub const MCP_START_MS_DEFAULT: u64 = 60_000;

/// `[mcp.NAME]`: a server of the Model Context Protocol. Its tools are called `mcp.NAME.TOOL`.
///
/// ```
/// let text = r#"
///     command = ["mcp-server-git"]
///     impact = {git_log = 0, git_commit = 1}
/// "#;
/// let config: ostler_drivers::mcp::McpConfig = toml::from_str(text).unwrap();
/// assert_eq!(config.impact.of("git_log"), Some(0));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table of an MCP server")]
pub struct McpConfig {
    /// Program and arguments. The protocol runs over standard input and output.
    pub command: Vec<String>,
    /// Address of a server for streamable HTTP.
    pub url: Option<String>,
    /// Names of environment variables passed to the program besides the usual ones.
    pub env: BTreeSet<String>,
    /// Name of the environment variable with the bearer token for `url`.
    pub token_env: Option<String>,
    /// Terms of a login at `url` with OAuth.
    pub oauth: Option<OauthConfig>,
    /// Impact of the tools, instead of 2.
    pub impact: ImpactConfig,
    /// Believes the annotations of the server for tools without `impact`.
    pub trust: bool,
    /// Sensitive parameters, as `PARAMETER` or `TOOL.PARAMETER`.
    pub sensitive: BTreeSet<String>,
    /// Starts the program in the cage of `[sandbox]`. The program reads the system, the folder of the configuration and `read`, writes
    /// to a temporary folder and to `write`, and reaches the network only with `network`.
    #[serde(deserialize_with = "confined")]
    pub sandbox: Confined,
    /// Readable folders and files: absolute, below `~/`, or in the folder of the configuration.
    pub read: Vec<PathBuf>,
    /// Writable folders, with paths like those of `read`.
    pub write: Vec<PathBuf>,
    /// Files and folders that the command names and that may change without acceptance, such as a database, with paths like those of
    /// `read`.
    pub may_change: Vec<PathBuf>,
    /// The program reaches the network.
    pub network: bool,
    /// Time to start and to list the tools, in milliseconds; default [`MCP_START_MS_DEFAULT`].
    pub start_ms: Option<u64>,
}

/// True, the default, if the program runs in a cage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined(pub bool);

impl Default for Confined {
    fn default() -> Confined {
        Confined(true)
    }
}

fn confined<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Confined, D::Error> {
    bool::deserialize(deserializer).map(Confined)
}

/// `impact`: one number for all tools, or one for each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "an impact from 0 to 2, or a table such as {git_log = 0}")]
pub enum ImpactConfig {
    /// Impact of every tool.
    All(u8),
    /// Impact by the name of the tool at the server.
    Each(BTreeMap<String, u8>),
}

impl Default for ImpactConfig {
    fn default() -> ImpactConfig {
        ImpactConfig::Each(BTreeMap::new())
    }
}

impl ImpactConfig {
    /// Configured impact of a tool; `None` if not configured.
    pub fn of(&self, tool: &str) -> Option<u8> {
        match self {
            ImpactConfig::All(impact) => Some(*impact),
            ImpactConfig::Each(impacts) => impacts.get(tool).copied(),
        }
    }

    /// Names of the tools with an impact of their own.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let each = match self {
            ImpactConfig::All(_) => None,
            ImpactConfig::Each(impacts) => Some(impacts),
        };
        each.into_iter().flatten().map(|(tool, _)| tool.as_str())
    }

    fn values(&self) -> Vec<u8> {
        match self {
            ImpactConfig::All(impact) => vec![*impact],
            ImpactConfig::Each(impacts) => impacts.values().copied().collect(),
        }
    }
}

/// A fault of a table: the key, the problem and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpFault {
    /// The key within the table; `None` for a fault of the whole table.
    pub key: Option<&'static str>,
    /// The problem, as a sentence without a full stop.
    pub what: String,
    /// The remedy, as a sentence without a full stop.
    pub help: String,
}

impl McpConfig {
    /// True if the server can send out what a call gives it: over the network, or as a program outside of a cage.
    pub(super) fn reaches_network(&self) -> bool {
        self.url.is_some() || self.network || !self.sandbox.0
    }

    /// True if the server can write files beyond its own: folders that it may write, or as a program outside of a cage.
    pub(super) fn writes_files(&self) -> bool {
        !self.write.is_empty() || self.url.is_none() && !self.sandbox.0
    }

    /// Returns every fault of the table `[mcp.NAME]`.
    pub fn check(&self, name: &str) -> Vec<McpFault> {
        let mut faults = Vec::new();
        let mut fault = |key, what: String, help: &str| {
            faults.push(McpFault { key, what, help: help.to_owned() });
        };
        if !is_server_name(name) {
            let help = format!("use 1 to {MCP_NAME_BYTES_MAX} letters, digits, `_` and `-`");
            fault(None, format!("{name:?} is no name of an MCP server"), &help);
        }
        match (self.command.first(), &self.url) {
            (Some(program), None) if program.is_empty() => {
                fault(Some("command"), "the program has no name".into(), "name a program")
            }
            (Some(_), Some(_)) => {
                fault(Some("url"), "a server has either a command or a url".into(), "remove one of the two")
            }
            (None, None) => fault(
                None,
                format!("[mcp.{name}] has neither a command nor a url"),
                "add a command such as [\"mcp-server-git\"]",
            ),
            (None, Some(url)) if !is_http(url) => fault(
                Some("url"),
                format!("{url:?} is no address of a server"),
                "use an address such as \"https://mcp.example.com/mcp\", without user and password",
            ),
            (Some(_), None) | (None, Some(_)) => {}
        }
        if self.impact.values().iter().any(|impact| *impact > 2) {
            fault(Some("impact"), "an impact is above 2".into(), "use 0, 1 or 2");
        }
        let is_of_command = self.network
            || [&self.read, &self.write, &self.may_change].into_iter().any(|paths| !paths.is_empty());
        if self.url.is_some() && is_of_command {
            let help = "remove `read`, `write`, `may_change` and `network`: they are for a command";
            fault(Some("url"), "a server at an address has no cage".into(), help);
        }
        if self.start_ms == Some(0) {
            fault(Some("start_ms"), "no server starts in 0 ms".into(), "use at least 1");
        }
        if let Some(oauth) = &self.oauth {
            if self.url.is_none() {
                fault(
                    Some("oauth"),
                    "a server without an address has no login".into(),
                    "add `url`, or remove `oauth`",
                );
            }
            if self.token_env.is_some() {
                let what = "a server gets either the token of `token_env` or that of a login";
                fault(Some("oauth"), what.into(), "remove one of the two");
            }
            for (what, help) in oauth.faults() {
                fault(Some("oauth"), what, help);
            }
        }
        faults
    }

    /// Names of the sensitive parameters of a tool with this schema.
    pub(super) fn sensitive_of(&self, tool: &str, input: &Map<String, Value>) -> Vec<String> {
        let names =
            input.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
        let is_sensitive = |name: &&String| {
            self.sensitive.contains(*name) || self.sensitive.contains(&format!("{tool}.{name}"))
        };
        names.filter(is_sensitive).cloned().collect()
    }

    /// Program of the server with its arguments, or scheme and host of its address; for messages.
    pub fn place(&self) -> String {
        let origin = |url: &String| Url::parse(url).map(|url| url.origin().ascii_serialization()).ok();
        match &self.url {
            Some(url) => origin(url).unwrap_or_default(),
            None => self.command.join(" "),
        }
    }
}

fn is_server_name(name: &str) -> bool {
    (1..=MCP_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn is_http(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(name: &str, text: &str, expected: Expect) {
        let shown = match toml::from_str::<McpConfig>(text) {
            Ok(config) => config
                .check(name)
                .iter()
                .map(|fault| format!("{}: {}; {}\n", fault.key.unwrap_or("-"), fault.what, fault.help))
                .collect(),
            Err(error) => error.message().to_owned(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_parameter_is_sensitive_in_every_tool_or_in_one() {
        let config: McpConfig = toml::from_str("sensitive = [\"path\", \"send.to\"]").unwrap();
        let input = serde_json::json!({"properties": {"path": {}, "to": {}, "text": {}}});
        let of = |tool| config.sensitive_of(tool, input.as_object().unwrap());
        assert_eq!([of("send").join(" "), of("read").join(" ")], ["path to", "path"]);
    }

    #[test]
    fn a_server_sends_out_unless_a_cage_keeps_the_network_away() {
        for (text, sends_out) in [
            ("command = [\"a\"]", false),
            ("command = [\"a\"]\nnetwork = true", true),
            ("command = [\"a\"]\nsandbox = false", true),
            ("url = \"https://mcp.example.com/mcp\"", true),
        ] {
            let config: McpConfig = toml::from_str(text).unwrap();
            assert_eq!(config.reaches_network(), sends_out, "{text}");
        }
    }

    #[test]
    fn a_table_is_understood_or_its_faults_are_named() {
        check("git", "command = [\"mcp-server-git\"]\nimpact = {git_log = 0}\nenv = [\"TZ\"]", expect![""]);
        check("web", "url = \"https://mcp.example.com/mcp\"\nimpact = 1", expect![""]);
        check(
            "a.b",
            "",
            expect![[r#"
                -: "a.b" is no name of an MCP server; use 1 to 32 letters, digits, `_` and `-`
                -: [mcp.a.b] has neither a command nor a url; add a command such as ["mcp-server-git"]
            "#]],
        );
        check(
            "both",
            "command = [\"x\"]\nurl = \"http://h/\"\nimpact = {a = 3}",
            expect![[r#"
                url: a server has either a command or a url; remove one of the two
                impact: an impact is above 2; use 0, 1 or 2
            "#]],
        );
        check(
            "web",
            "url = \"ftp://u:p@h/\"\nnetwork = true",
            expect![[r#"
                url: "ftp://u:p@h/" is no address of a server; use an address such as "https://mcp.example.com/mcp", without user and password
                url: a server at an address has no cage; remove `read`, `write`, `may_change` and `network`: they are for a command
            "#]],
        );
        check(
            "x",
            "comand = []",
            expect![
                "unknown field `comand`, expected one of `command`, `url`, `env`, `token_env`, `oauth`, `impact`, `trust`, `sensitive`, `sandbox`, `read`, `write`, `may_change`, `network`, `start_ms`"
            ],
        );
        check("x", "impact = \"low\"", expect!["an impact from 0 to 2, or a table such as {git_log = 0}"]);
    }
}
