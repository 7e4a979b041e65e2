//! Which rung this machine reaches: found out by a program that really runs there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, Once, PoisonError};

use ostler_kernel::port::CageRung;

use super::config::SandboxConfig;
use super::helper::{Report, own_helper};
use super::spec::CageSpec;

/// The highest rung that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The rung.
    pub rung: CageRung,
    /// The binary that makes cages.
    pub helper: Option<PathBuf>,
    /// The program `bwrap`, if the rung needs it.
    pub bubblewrap: Option<PathBuf>,
    /// Why higher rungs do not work; empty at the highest.
    pub missing: String,
}

/// Finds the highest rung that works, by trial. The answer holds for the whole process.
pub fn reached(config: &SandboxConfig) -> Reached {
    /// The helper and the program `bwrap`.
    type Programs = (Option<PathBuf>, Option<PathBuf>);
    static KNOWN: Mutex<BTreeMap<Programs, Reached>> = Mutex::new(BTreeMap::new());
    let key = (config.helper.clone(), config.bubblewrap.clone());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(key).or_insert_with(|| tried(config)).clone()
}

fn tried(config: &SandboxConfig) -> Reached {
    let none = |missing: &str| Reached {
        rung: CageRung::None,
        helper: None,
        bubblewrap: None,
        missing: missing.to_owned(),
    };
    let Some(helper) = config.helper.clone().or_else(own_helper) else {
        return none(
            "this application has no helper: name the `ostler` binary as helper in [sandbox], or call ostler::sandbox::enter() first in main",
        );
    };
    let bubblewrap = config.bubblewrap.clone().or_else(|| on_path("bwrap"));
    let mut missing = Vec::new();
    match bubblewrap {
        None => missing.push("bubblewrap: not installed".to_owned()),
        Some(bubblewrap) => match trial(CageRung::Bubblewrap, &helper, &bubblewrap) {
            Ok(()) => {
                return Reached {
                    rung: CageRung::Bubblewrap,
                    helper: Some(helper),
                    bubblewrap: Some(bubblewrap),
                    missing: String::new(),
                };
            }
            Err(why) => missing.push(format!("bubblewrap: {why}")),
        },
    }
    match trial(CageRung::Landlock, &helper, Path::new("")) {
        Ok(()) => Reached {
            rung: CageRung::Landlock,
            helper: Some(helper),
            bubblewrap: None,
            missing: missing.join("; "),
        },
        Err(why) => {
            missing.push(why);
            none(&missing.join("; "))
        }
    }
}

/// Runs `true` in a cage.
fn trial(rung: CageRung, helper: &Path, bubblewrap: &Path) -> Result<(), String> {
    let program = on_path("true").ok_or("no program `true` to try it with")?;
    let spec = CageSpec::trial(rung, helper, bubblewrap);
    let mut command = spec.command(&program, &["true".to_owned()]).map_err(|failure| failure.message)?;
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| format!("{}: {error}", helper.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = match Report::read(spec.nonce(), &output.stderr) {
        Some(report) => report.what,
        None => String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned(),
    };
    Err(if said.is_empty() { format!("{} ended with {}", helper.display(), output.status) } else { said })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file())
}

/// Logs once that programs run without a cage.
pub(super) fn warn_uncaged(why: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::error!(
            "programs of shell.run run WITHOUT A CAGE ({why}): they can read and change whatever you can, the records of runs too; \
             `ostler doctor` says what helps"
        );
    });
}
