//! The `[sandbox]` table of the configuration.

use std::path::PathBuf;

use ostler_kernel::port::CageRung;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::workspaces::Workspaces;

/// `[sandbox]`: the cage around programs.
///
/// ```
/// let text = r#"
///     minimum = "bubblewrap"
///     read = ["/srv/models", "~/.cargo"]
///     limits.memory_mib = 8192
/// "#;
/// let config: ostler_drivers::cage::SandboxConfig = toml::from_str(text).unwrap();
/// assert_eq!(config.limits.processes, 1024);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [sandbox]")]
pub struct SandboxConfig {
    /// Lowest rung at which programs of impact 0 and 1 run.
    pub minimum: CageRung,
    /// Folders and files that programs may read, besides the workspace and the system's. Absolute, or below `~/`.
    #[serde(deserialize_with = "rooted")]
    pub read: Vec<PathBuf>,
    /// The program `bwrap`; unless named, one of the system's that only root can change.
    #[serde(deserialize_with = "rooted_one")]
    pub bubblewrap: Option<PathBuf>,
    /// The program that makes the cage, for applications that embed the library: `ostler`, or one that calls
    /// [`enter`](super::enter).
    #[serde(deserialize_with = "rooted_one")]
    pub helper: Option<PathBuf>,
    /// Folders hidden from every program, also if `read` names them, such as the folder of the user's operator key. Set by the
    /// process, not by a file.
    #[serde(skip)]
    pub hide: Vec<PathBuf>,
    /// Files that no program may change, such as the configuration of the process. Set by the process, not by a file.
    #[serde(skip)]
    pub freeze: Vec<PathBuf>,
    /// Files that programs in a cage may not change, and file tools may: those of MCP servers, which are looked at when a server starts.
    /// Set by the process, not by a file.
    #[serde(skip)]
    pub pinned: Vec<PathBuf>,
    /// Folders that MCP servers may write. Approvals are bound to the files there. Set by the process, not by a file.
    #[serde(skip)]
    pub written: Vec<PathBuf>,
    /// Where it is noted which folders programs wrote in. Set by the process, not by a file.
    #[serde(skip)]
    pub workspaces: Option<Workspaces>,
    /// `[sandbox.limits]`.
    pub limits: CallLimits,
}

impl Default for SandboxConfig {
    fn default() -> SandboxConfig {
        SandboxConfig {
            minimum: CageRung::Landlock,
            read: Vec::new(),
            bubblewrap: None,
            helper: None,
            hide: Vec::new(),
            freeze: Vec::new(),
            pinned: Vec::new(),
            written: Vec::new(),
            workspaces: None,
            limits: CallLimits::default(),
        }
    }
}

/// `[sandbox.limits]`: limits of a call. Memory and processes are those of the whole call where it has a control group, otherwise
/// memory is that of each process, and of each piece of memory that its processes share. Time is limited by the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [sandbox.limits]")]
pub struct CallLimits {
    /// Memory, in MiB.
    #[serde(deserialize_with = "positive")]
    pub memory_mib: u64,
    /// Processor time of each process, in seconds.
    #[serde(deserialize_with = "positive")]
    pub cpu_s: u64,
    /// Processes and threads at once.
    #[serde(deserialize_with = "positive")]
    pub processes: u64,
    /// Size of each file written, in MiB.
    #[serde(deserialize_with = "positive")]
    pub file_mib: u64,
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits { memory_mib: 4_096, cpu_s: 3_600, processes: 1_024, file_mib: 4_096 }
    }
}

/// Most of any limit, so that a product with 1 MiB fits.
const LIMIT_MAX: u64 = 1 << 40;

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let limit = u64::deserialize(deserializer)?;
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(D::Error::custom(format!("a limit is between 1 and {LIMIT_MAX}")))
}

fn rooted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    Vec::<PathBuf>::deserialize(deserializer)?.into_iter().map(absolute).collect()
}

fn rooted_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Option::<PathBuf>::deserialize(deserializer)?.map(absolute).transpose()
}

fn absolute<E: Error>(path: PathBuf) -> Result<PathBuf, E> {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => Ok(home.join(rest)),
        _ if path.is_absolute() => Ok(path),
        _ => Err(E::custom(format!("{path:?} is neither absolute nor below ~/"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_rooted_and_limits_positive() {
        let parse =
            |text: &str| toml::from_str::<SandboxConfig>(text).map_err(|error| error.message().to_owned());
        let home = std::env::home_dir().unwrap();
        assert_eq!(parse("read = [\"/a\", \"~/b\"]").unwrap().read, [PathBuf::from("/a"), home.join("b")]);
        assert_eq!(parse("read = [\"a\"]").unwrap_err(), "\"a\" is neither absolute nor below ~/");
        assert_eq!(parse("limits.cpu_s = 0").unwrap_err(), format!("a limit is between 1 and {LIMIT_MAX}"));
        assert_eq!(parse("minimum = \"none\"").unwrap().minimum, CageRung::None);
        assert!(parse("minimum = \"chroot\"").unwrap_err().contains("expected one of"));
    }
}
