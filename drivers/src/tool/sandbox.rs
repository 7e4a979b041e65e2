//! What the kernel keeps a program from, and all that it starts. A thread restricts itself and starts the program,
//! which inherits the restriction; then the thread ends.

use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Once;

/// How far the kernel of this machine confines the programs of `shell.run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// As far as is known here.
    Full,
    /// In part: the kernel is older than what it is asked for.
    Partial,
    /// Not at all.
    None,
}

/// Asks the kernel of this machine, by trying.
pub fn sandbox() -> Sandbox {
    std::thread::spawn(|| restrict(&[], true).unwrap_or(Sandbox::None)).join().unwrap_or(Sandbox::None)
}

/// Where programs that act may write: in the workspace, in the folder for temporary files, and where the operator
/// says. The kernel takes nothing out of a folder that it opens for writing, so a data folder that lies in one of them
/// can be written too.
pub fn writable(workspace: &Path, more: &[PathBuf]) -> Vec<PathBuf> {
    let folders = [workspace.to_owned(), std::env::temp_dir()];
    folders.iter().chain(more).cloned().collect()
}

/// Device files that any program may write to.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/shm"];

/// Whether a name in `/dev` is that of terminals. Somebody may sit at the one that a program inherits: it is not to type for them,
/// nor to take away what they type.
fn is_terminal(name: &str) -> bool {
    ["tty", "pty", "pts", "ptmx", "console", "hvc", "hvsi", "xvc"]
        .iter()
        .any(|terminal| name.starts_with(terminal))
}

/// All other devices.
fn devices_but_terminals() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    // A link may lead to one: `/dev/stdin` does.
    let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let others =
        entries.filter(|entry| !is_link(entry) && !is_terminal(&entry.file_name().to_string_lossy()));
    others.map(|entry| entry.path()).collect()
}

/// What a program may do.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// The folders it may write beneath.
    write: Vec<PathBuf>,
    /// It may neither open connections nor signal what it did not start.
    alone: bool,
}

impl Bounds {
    /// Those of a program that only looks: it writes nowhere.
    pub(super) fn looking() -> Bounds {
        Bounds { write: Vec::new(), alone: true }
    }

    /// Those of a program that acts.
    pub(super) fn acting(workspace: &Path, more: &[PathBuf]) -> Bounds {
        Bounds { write: writable(workspace, more), alone: false }
    }

    /// The same, and it may write to this file.
    pub(super) fn and_writing(mut self, file: &Path) -> Bounds {
        self.write.push(file.to_owned());
        self
    }

    /// Starts a program within these bounds, as far as the kernel keeps them.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let confined = || {
            let sandbox = restrict(&self.write, self.alone).map_err(io::Error::other)?;
            warn(sandbox);
            command.spawn()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("confined".to_owned());
            let started = thread.spawn_scoped(scope, confined)?.join();
            started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it broke off")))
        })
    }
}

/// Says once that programs are not confined.
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

/// Restricts this thread for good.
#[cfg(target_os = "linux")]
fn restrict(write: &[PathBuf], alone: bool) -> Result<Sandbox, String> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
        RulesetStatus, Scope, path_beneath_rules,
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
    // By itself: a kernel without it (before 6.10) keeps all the rest.
    let without_terminals = || -> Result<_, RulesetError> {
        let ruleset = Ruleset::default().handle_access(AccessFs::IoctlDev)?;
        let rules = path_beneath_rules(devices_but_terminals(), AccessFs::IoctlDev);
        ruleset.create()?.add_rules(rules)?.restrict_self()
    };
    let failed = |error: RulesetError| format!("it cannot be confined: {error}");
    let status = restricted().map_err(failed)?;
    without_terminals().map_err(failed)?;
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
