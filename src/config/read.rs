//! From a file to a configuration, or everything that is wrong with it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Config;
use crate::finding::{Finding, Source};
use crate::plan_file::{Format, ReadError, TypedFile, read_text};

/// Name of the file in a data folder or a workspace.
pub const CONFIG_NAME: &str = "ostler.toml";

/// Bytes of a configuration file.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;

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
        let help = if finding.help.is_empty() { String::new() } else { format!(": {}", finding.help) };
        format!("{place}: {}{help}", finding.detail)
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
        let mut file = TypedFile::<Config>::read(Format::Toml, &source, "config", None);
        match file.value.take() {
            Some(config) if file.findings.is_empty() => {
                let unknown = tools.map(|tools| config.unknown_tools(tools)).unwrap_or_default();
                let of_values = config
                    .check()
                    .into_iter()
                    .chain(unknown)
                    .map(|(pointer, detail, help)| (file.at(pointer.as_str()), detail, help));
                let of_names = config
                    .foreign_caps(tools)
                    .into_iter()
                    .map(|(pointer, detail, help)| (file.key_at(pointer.as_str()), detail, help));
                let findings: Vec<Finding> = of_values
                    .chain(of_names)
                    .map(|(at, detail, help)| source.finding("config", at, detail, help))
                    .collect();
                if findings.is_empty() {
                    Ok(config)
                } else {
                    Err(ConfigError::Content { source_text: source, findings })
                }
            }
            _ => Err(ConfigError::Content { source_text: source, findings: file.findings }),
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
    /// is none. What has its name and is no file, or may not be read, counts too: reading it then says so.
    pub fn find(named: Option<&Path>, data: &Path, workspace: &Path) -> Option<PathBuf> {
        match named {
            Some(path) => Some(path.to_owned()),
            None => [data, workspace]
                .map(|folder| folder.join(CONFIG_NAME))
                .into_iter()
                .find(|path| !is_missing(path)),
        }
    }
}

/// Whether nothing has this name, not even a link that leads nowhere.
fn is_missing(path: &Path) -> bool {
    let looked = path.symlink_metadata().map_err(|error| error.kind());
    matches!(looked, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
}
