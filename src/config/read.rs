//! Reading and parsing of configuration files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ostler_drivers::cage::{Origin, Workspaces};
use ostler_server::user_folder;

use super::masked::masked;
use super::{Config, KnownTools};
use crate::finding::{Finding, Source};
use crate::plan_file::{Format, ReadError, TypedFile, read_text};

/// File name in a data folder or a workspace.
pub const CONFIG_NAME: &str = "ostler.toml";

/// Largest configuration file, in bytes.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;

/// Reason to reject a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration: {0}")]
    Read(#[from] ReadError),
    /// The file lies where a step may have left or changed it; its content stays unread.
    #[error("{0}")]
    Distrusted(String),
    /// The content is invalid.
    #[error("{}", told(.source_text, .findings))]
    Content {
        /// The text.
        source_text: Box<Source>,
        /// All findings.
        findings: Vec<Finding>,
    },
}

fn refused(name: &str, text: &str, findings: Vec<Finding>) -> ConfigError {
    let shown = masked(text.strip_prefix('\u{feff}').unwrap_or(text));
    ConfigError::Content { source_text: Box::new(Source::new(name, &shown)), findings }
}

fn told(source: &Source, findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let place = match finding.place {
            Some(place) => format!("{}:{}:{}", source.name(), place.line, place.column),
            None => source.name().to_owned(),
        };
        let help = if finding.help.is_empty() { String::new() } else { format!("; {}", finding.help) };
        format!("{place}: {}{help}", finding.detail)
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// Parses a configuration with the file name `name`.
    ///
    /// # Errors
    ///
    /// Every finding with its place. An unknown key gets a suggestion.
    pub fn parse(name: &str, text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(name, text, None)
    }

    /// Parses a configuration and rejects scopes with tools outside `tools`, and rules for parameters that a tool does not have. Scopes
    /// may name disabled tools.
    ///
    /// # Errors
    ///
    /// See [`Config::parse`].
    pub fn parse_for(name: &str, text: &str, tools: &KnownTools) -> Result<Config, ConfigError> {
        Config::parse_with(name, text, Some(tools))
    }

    fn parse_with(name: &str, text: &str, tools: Option<&KnownTools>) -> Result<Config, ConfigError> {
        let source = Box::new(Source::new(name, text.strip_prefix('\u{feff}').unwrap_or(text)));
        let mut file = TypedFile::<Config>::read(Format::Toml, &source, "config", None);
        match file.value.take() {
            Some(config) => {
                let unknown = tools
                    .map(|tools| [config.unknown_tools(tools), config.unknown_params(tools)].concat())
                    .unwrap_or_default();
                let of_values = config
                    .check()
                    .into_iter()
                    .chain(unknown)
                    .filter(|(pointer, ..)| file.is_as_written(pointer.as_str()))
                    .map(|(pointer, detail, help)| (file.at(pointer.as_str()), detail, help));
                let of_names = config
                    .foreign_caps(tools)
                    .into_iter()
                    .filter(|(pointer, ..)| file.is_as_written(pointer.as_str()))
                    .map(|(pointer, detail, help)| (file.key_at(pointer.as_str()), detail, help));
                let of_values = of_values
                    .chain(of_names)
                    .map(|(at, detail, help)| source.finding("config", at, detail, help));
                let mut findings: Vec<Finding> = file.findings.iter().cloned().chain(of_values).collect();
                findings.sort_by_key(|finding| finding.place.map(|place| (place.line, place.column)));
                if findings.is_empty() { Ok(config) } else { Err(refused(name, text, findings)) }
            }
            _ => Err(refused(name, text, file.findings)),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or see [`Config::parse`].
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        Config::of_text(path, read_text(path, CONFIG_BYTES_MAX)?, None)
    }

    /// Reads a file that the operator named, and rejects what [`Config::parse_for`] rejects. The name is a decision for the content
    /// that the file has then: where steps can write, another content is not used.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or see [`Config::parse_for`]; [`ConfigError::Distrusted`] if a step may have changed it.
    pub fn read_named(path: &Path, tools: &KnownTools) -> Result<Config, ConfigError> {
        let text = read_text(path, CONFIG_BYTES_MAX)?;
        check_origin(path, text.as_bytes(), Origin::Named)?;
        Config::of_text(path, text, Some(tools))
    }

    /// Like [`Config::read_named`], for a file that nobody named: where steps wrote, it must be known not to be theirs.
    ///
    /// # Errors
    ///
    /// Those of [`Config::read_named`]. [`ConfigError::Distrusted`] shows nothing of the content: a link may lead to a secret.
    pub fn read_found(path: &Path, tools: &KnownTools) -> Result<Config, ConfigError> {
        let text = match read_text(path, CONFIG_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => {
                check_origin(path, &[], Origin::Found)?;
                return Err(error.into());
            }
        };
        check_origin(path, text.as_bytes(), Origin::Found)?;
        let config = Config::of_text(path, text, Some(tools))?;
        Ok(Config { found: true, ..config })
    }

    fn of_text(path: &Path, text: String, tools: Option<&KnownTools>) -> Result<Config, ConfigError> {
        let config = Config::parse_with(&path.display().to_string(), &text, tools)?;
        Ok(Config { folder: folder_of(path), path: Some(path.to_owned()), text, ..config })
    }

    /// The effective file: the named one, else the data folder's, else the workspace's; `None` without any. A
    /// path that exists but is no readable file is returned too, so reading reports the error.
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

/// Refuses a file that a step may have left or changed.
fn check_origin(path: &Path, content: &[u8], origin: Origin) -> Result<(), ConfigError> {
    let Some(workspaces) = user_folder().as_deref().map(Workspaces::at) else { return Ok(()) };
    let trusted = workspaces.trusts(path, content, origin);
    let path = path.display();
    match trusted {
        Ok(true) => Ok(()),
        Ok(false) => Err(ConfigError::Distrusted(format!(
            "configuration {path}: steps ran where they could write it, so it may be theirs; read it, and if it is yours: \
             ostler policy accept {path}"
        ))),
        Err(error) => Err(ConfigError::Distrusted(format!("configuration {path}: {error}"))),
    }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Returns whether nothing has this path, not even a dangling link.
fn is_missing(path: &Path) -> bool {
    let looked = path.symlink_metadata().map_err(|error| error.kind());
    matches!(looked, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
}
