//! Confines programs with Landlock. A short-lived thread restricts itself and starts the program, which inherits the
//! restriction.

use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Once, OnceLock};

/// Support of this machine's kernel for confining `shell.run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Every restriction is enforced.
    Full,
    /// The kernel is too old for some restrictions.
    Partial,
    /// The kernel enforces nothing.
    None,
}

/// Determines the kernel's support by a trial.
pub fn sandbox() -> Sandbox {
    std::thread::spawn(|| restrict(&[], true).unwrap_or(Sandbox::None)).join().unwrap_or(Sandbox::None)
}

/// Folders in which effectful programs may write: the workspace, the temporary folder and the operator's additions. Landlock
/// cannot exclude a subfolder, so a data folder inside one of these is writable too.
pub fn writable(workspace: &Path, more: &[PathBuf]) -> Vec<PathBuf> {
    let folders = [workspace.to_owned(), std::env::temp_dir()];
    folders.iter().chain(more).cloned().collect()
}

const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/shm"];

/// True for terminals in `/dev`. A program must not inject input into an inherited terminal or read a person's input there.
fn is_terminal(name: &str) -> bool {
    ["tty", "pty", "pts", "ptmx", "console", "hvc", "hvsi", "xvc"]
        .iter()
        .any(|terminal| name.starts_with(terminal))
}

fn devices_but_terminals() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    // Links such as `/dev/stdin` may lead to a terminal.
    let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let others =
        entries.filter(|entry| !is_link(entry) && !is_terminal(&entry.file_name().to_string_lossy()));
    others.map(|entry| entry.path()).collect()
}

#[derive(Debug, Clone)]
pub(super) struct Confinement {
    write: Vec<PathBuf>,
    alone: bool,
}

impl Confinement {
    /// For programs of impact 0: no writes, no network.
    pub(super) fn read_only() -> Confinement {
        Confinement { write: Vec::new(), alone: true }
    }

    pub(super) fn writing(workspace: &Path, more: &[PathBuf]) -> Confinement {
        Confinement { write: writable(workspace, more), alone: false }
    }

    pub(super) fn allow_writing(mut self, file: &Path) -> Confinement {
        self.write.push(file.to_owned());
        self
    }

    /// Starts a program under these restrictions, as far as the kernel enforces them.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let confined = || {
            let sandbox = restrict(&self.write, self.alone).map_err(io::Error::other)?;
            warn(sandbox);
            command.spawn()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("confined".to_owned());
            let started = thread.spawn_scoped(scope, confined)?.join();
            started.unwrap_or_else(|_| Err(io::Error::other("the starting thread panicked")))
        })
    }
}

/// Logs once that programs are not confined.
fn warn(sandbox: Sandbox) {
    static SAID: Once = Once::new();
    let what = match sandbox {
        Sandbox::Full => return,
        Sandbox::Partial => "only in part confined",
        Sandbox::None => "not confined",
    };
    SAID.call_once(|| {
        tracing::error!(
            "programs of shell.run are {what}: the kernel of this machine lacks Landlock, or a part of it; `ostler doctor` \
             says what that means"
        );
    });
}

#[cfg(target_os = "linux")]
fn restrict(write: &[PathBuf], alone: bool) -> Result<Sandbox, String> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
        RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };
    let writing = AccessFs::from_write(ABI::V3);
    let devices = DEVICES.iter().map(Path::new);
    let restricted = || -> Result<_, RulesetError> {
        let mut ruleset = Ruleset::default().handle_access(writing)?;
        if alone {
            ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?.scope(Scope::from_all(ABI::V6))?;
        }
        let rules = path_beneath_rules(write.iter().map(PathBuf::as_path).chain(devices), writing);
        ruleset.create()?.add_rules(rules)?.restrict_self()
    };
    // A separate ruleset: kernels before 6.10 lack this right and would otherwise enforce nothing else either. Made once, because
    // it has a rule for each device; a device added later is treated as a terminal.
    static WITHOUT_TERMINALS: OnceLock<Result<RulesetCreated, String>> = OnceLock::new();
    let made = || -> Result<_, RulesetError> {
        let ruleset = Ruleset::default().handle_access(AccessFs::IoctlDev)?;
        ruleset.create()?.add_rules(path_beneath_rules(devices_but_terminals(), AccessFs::IoctlDev))
    };
    let failed = |error: String| format!("cannot confine the program: {error}");
    let without_terminals = WITHOUT_TERMINALS.get_or_init(|| made().map_err(|error| error.to_string()));
    let without_terminals = without_terminals.as_ref().map_err(|error| failed(error.clone()))?;
    let without_terminals = without_terminals.try_clone().map_err(|error| failed(error.to_string()))?;
    let status = restricted().map_err(|error| failed(error.to_string()))?;
    without_terminals.restrict_self().map_err(|error| failed(error.to_string()))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Sandbox::Full,
        RulesetStatus::PartiallyEnforced => Sandbox::Partial,
        RulesetStatus::NotEnforced => Sandbox::None,
    })
}

#[cfg(not(target_os = "linux"))]
fn restrict(_: &[PathBuf], _: bool) -> Result<Sandbox, String> {
    Ok(Sandbox::None)
}
