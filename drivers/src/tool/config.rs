//! The `[tools]` table of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use ostler_kernel::gate::{ArgvPattern, ArgvTable, Destination, Egress, EgressEntryError};
use reqwest::Url;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::cage::SandboxConfig;

/// `[tools]`.
///
/// ```
/// let text = r#"
///     shell.allow = [{argv = ["make", "check"], impact = 1, effect = "write"}]
///     http.egress_allow = ["api.example.com:443"]
///     http.hosts."api.example.com:443".idempotency = true
///     search.url = "https://search.example.com/search"
/// "#;
/// let config: ostler_drivers::tool::ToolConfig = toml::from_str(text).unwrap();
/// assert!(config.shell.enabled);
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolConfig {
    /// `[tools.shell]`.
    pub shell: ShellConfig,
    /// `[tools.http]`.
    pub http: HttpConfig,
    /// `[tools.search]`.
    pub search: SearchConfig,
    /// The table `[sandbox]`, which stands beside `[tools]`.
    #[serde(skip)]
    pub sandbox: SandboxConfig,
}

impl ToolConfig {
    /// A configuration with every built-in tool, for lists of tools. Its server of searches does not exist.
    pub fn complete() -> ToolConfig {
        let url = "https://search.invalid/search".parse().expect("it is a URL");
        ToolConfig { search: SearchConfig { url: Some(url) }, ..ToolConfig::default() }
    }
}

/// `[tools.shell]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// Registers `shell.run`.
    pub enabled: bool,
    /// Classes of programs: the operator's entries, then the built-in table.
    #[serde(deserialize_with = "allow_table")]
    pub allow: ArgvTable,
    /// Programs run in a cage: see [`SandboxConfig`]. They write only in the workspace, in a temporary folder of their own and in
    /// `write`; programs of impact 0 write nowhere.
    pub sandbox: bool,
    /// Additional writable folders and files, as absolute paths.
    #[serde(deserialize_with = "absolute")]
    pub write: Vec<PathBuf>,
}

impl Default for ShellConfig {
    fn default() -> ShellConfig {
        ShellConfig { enabled: true, allow: ArgvTable::read_only(), sandbox: true, write: Vec::new() }
    }
}

/// `[tools.http]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Permitted destinations; empty permits none. The gate uses the same list.
    #[serde(deserialize_with = "egress")]
    pub egress_allow: Egress,
    /// Settings per host.
    pub hosts: BTreeMap<HostPort, HostConfig>,
}

/// `[tools.http.hosts."H:P"]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// The host deduplicates POST and PATCH by `Idempotency-Key`.
    pub idempotency: bool,
}

/// `[tools.search]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// The server that `web.search` asks; without one there is no such tool.
    pub url: Option<SearchUrl>,
}

/// Address of a search server, and the egress list of its one destination.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SearchUrl {
    pub(super) url: Url,
    pub(super) egress: Egress,
}

/// A text that is not a [`SearchUrl`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no address of a search server, such as https://search.example.com/search")]
pub struct SearchUrlError {
    found: String,
}

impl FromStr for SearchUrl {
    type Err = SearchUrlError;

    fn from_str(text: &str) -> Result<SearchUrl, SearchUrlError> {
        let refused = || SearchUrlError { found: text.chars().take(100).collect() };
        let url = Url::parse(text).map_err(|_| refused())?;
        let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or_else(refused)?;
        let egress = Egress::new([format!("{host}:{port}")]).map_err(|_| refused())?;
        // The text, because the parsed URL hides what makes a text ambiguous.
        egress.judge(text).map_err(|_| refused())?;
        Ok(SearchUrl { url, egress })
    }
}

impl TryFrom<String> for SearchUrl {
    type Error = SearchUrlError;

    fn try_from(text: String) -> Result<SearchUrl, SearchUrlError> {
        text.parse()
    }
}

/// Host and port in the form of `egress_allow`, without wildcards: `api.example.com:443`, `[::1]:8080`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPort {
    host: String,
    port: u16,
}

/// A text that is not a [`HostPort`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no host:port, such as api.example.com:443 (in lower case)")]
pub struct HostPortError {
    found: String,
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<HostPort, HostPortError> {
        let refused = || HostPortError { found: text.chars().take(100).collect() };
        // A valid entry splits at the last colon.
        Egress::new([text]).map_err(|_| refused())?;
        let (host, port) =
            text.rsplit_once(':').filter(|(host, _)| !host.starts_with('*')).ok_or_else(refused)?;
        Ok(HostPort { host: host.to_owned(), port: port.parse().map_err(|_| refused())? })
    }
}

impl TryFrom<String> for HostPort {
    type Error = HostPortError;

    fn try_from(text: String) -> Result<HostPort, HostPortError> {
        text.parse()
    }
}

impl From<Destination> for HostPort {
    fn from(destination: Destination) -> HostPort {
        HostPort { host: destination.host, port: destination.port }
    }
}

fn allow_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArgvTable, D::Error> {
    let patterns = Vec::<ArgvPattern>::deserialize(deserializer)?;
    ArgvTable::read_only().with_patterns(patterns).map_err(D::Error::custom)
}

fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<PathBuf>::deserialize(deserializer)?;
    match paths.iter().find(|path| !path.is_absolute()) {
        None => Ok(paths),
        Some(path) => Err(D::Error::custom(format!("{path:?} is not an absolute path"))),
    }
}

/// A single entry, parsed separately so that an error names the line.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct EgressEntry(String);

impl TryFrom<String> for EgressEntry {
    type Error = EgressEntryError;

    fn try_from(text: String) -> Result<EgressEntry, EgressEntryError> {
        Egress::new([&text]).map(|_| EgressEntry(text))
    }
}

fn egress<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Egress, D::Error> {
    let entries = Vec::<EgressEntry>::deserialize(deserializer)?;
    Egress::new(entries.iter().map(|entry| &entry.0)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match toml::from_str::<ToolConfig>(text) {
            Ok(config) => format!("enabled {}, {:?}", config.shell.enabled, config.http.hosts),
            Err(error) => error.message().to_owned(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn nothing_need_be_said() {
        check("", expect!["enabled true, {}"]);
    }

    #[test]
    fn what_is_said_is_understood_or_named() {
        check("[shell]\nenabled = false", expect!["enabled false, {}"]);
        check(
            "[http.hosts.\"api.example.com:443\"]\nidempotency = true",
            expect![[
                r#"enabled true, {HostPort { host: "api.example.com", port: 443 }: HostConfig { idempotency: true }}"#
            ]],
        );
        check(
            "[http.hosts.\"*.example.com:443\"]\nidempotency = true",
            expect![[r#""*.example.com:443" is no host:port, such as api.example.com:443 (in lower case)"#]],
        );
        check(
            "[http.hosts.\"api.example.com\"]\nidempotency = true",
            expect![[r#""api.example.com" is no host:port, such as api.example.com:443 (in lower case)"#]],
        );
        check(
            "[http]\negress_allow = [\"API.example.com:443\"]",
            expect![[
                r#"egress entry "API.example.com:443": expected host:port, in lower case (`*.host:port` for all below it)"#
            ]],
        );
        check(
            "[http]\negres_allow = []",
            expect!["unknown field `egres_allow`, expected `egress_allow` or `hosts`"],
        );
        check(
            "[shell]\nallow = [{argv = [], impact = 0, effect = \"read\"}]",
            expect!["pattern [] must begin with the name of a program"],
        );
        check(
            "[shell]\nallow = [{argv = [\"rm\"], impact = 0, effect = \"write\"}]",
            expect!["rm: impact 0 and effect Write disagree: impact 0 observes, more acts, 2 is the most"],
        );
        check("[shell]\nwrite = [\"cache\"]", expect![[r#""cache" is not an absolute path"#]]);
        check("[shell]\nsandbox = false\nwrite = [\"/var/cache\"]", expect!["enabled true, {}"]);
        check("[fs]\nroots = []", expect!["unknown field `fs`, expected one of `shell`, `http`, `search`"]);
    }

    #[test]
    fn a_search_server_is_an_unambiguous_address() {
        for url in
            ["https://search.example.com", "http://127.0.0.1:8888/search?language=en", "http://[::1]:8888/"]
        {
            let config: ToolConfig = toml::from_str(&format!("search.url = {url:?}")).unwrap();
            assert!(config.search.url.unwrap().egress.judge(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "search.example.com",
            "ftp://a.example/",
            "http://u@a.example/",
            "http://0x7f.1/",
            "https://a.example:80",
        ] {
            let fault = toml::from_str::<ToolConfig>(&format!("search.url = {url:?}")).unwrap_err();
            assert!(
                fault.message().starts_with(&format!("{url:?} is no address of a search server")),
                "{fault}"
            );
        }
    }
}
