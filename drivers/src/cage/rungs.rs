//! Which rung this machine reaches: found out by a program that really runs there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, Once, PoisonError};

use ostler_kernel::port::CageRung;
use rustix::io::Errno;

use super::config::{CallLimits, SandboxConfig};
use super::helper::{Report, own_helper};
use super::paths::SYSTEM_READ;
use super::spec::{CageSpec, Role};
use super::workspaces::Workspaces;

/// The highest rung that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The rung.
    pub rung: CageRung,
    /// The binary that makes cages.
    pub helper: Option<PathBuf>,
    /// The program `bwrap`, if the rung needs it.
    pub bubblewrap: Option<PathBuf>,
    /// Whatever a program starts ends with its call, also where the call has no control group.
    pub ends_all: bool,
    /// Why higher rungs do not work; empty at the highest.
    pub missing: String,
    /// The machine was short of processes, descriptors or memory when a rung was tried, so the answer says nothing.
    pub is_short: bool,
    /// A signal ended so many trials in a row that another one would not help: programs are refused until this process starts again.
    pub is_killed: bool,
}

/// Trials in a row that a signal may end, such as that of the kernel when memory runs out.
const KILLED_MAX: u32 = 3;

/// Knowledge of this process about one pair of programs.
#[derive(Debug, Default)]
struct Tried {
    reached: Option<Reached>,
    /// Trials in a row that a signal ended.
    killed: u32,
}

/// Finds the highest rung that works, by trial. The answer holds for the whole process, unless the machine was short of something:
/// a step could bring that about, and no program of another step may lose its cage by it.
pub fn reached(config: &SandboxConfig) -> Reached {
    /// The helper and the program `bwrap`.
    type Programs = (Option<PathBuf>, Option<PathBuf>);
    static KNOWN: Mutex<BTreeMap<Programs, Tried>> = Mutex::new(BTreeMap::new());
    let key = (config.helper.clone(), config.bubblewrap.clone());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.entry(key).or_default();
    if let Some(reached) = &known.reached {
        return reached.clone();
    }
    let found = match tried(config) {
        Ok(found) => found,
        Err(Shortage { what, is_killed }) => {
            known.killed = if is_killed { known.killed + 1 } else { 0 };
            let found = Reached { is_short: true, is_killed: known.killed >= KILLED_MAX, ..none(what) };
            if !found.is_killed {
                return found;
            }
            found
        }
    };
    known.reached.insert(found).clone()
}

fn none(missing: String) -> Reached {
    Reached {
        rung: CageRung::None,
        helper: None,
        bubblewrap: None,
        ends_all: false,
        missing,
        is_short: false,
        is_killed: false,
    }
}

/// The machine was short of something, so a trial says nothing.
#[derive(Debug, Clone)]
struct Shortage {
    what: String,
    /// A signal from outside ended the trial.
    is_killed: bool,
}

/// Reason why a rung does not work.
#[derive(Debug, Clone)]
enum Lack {
    /// The machine does not have it.
    Absent(String),
    Short(Shortage),
}

impl Lack {
    /// Text of a rung that the machine does not have.
    ///
    /// # Errors
    ///
    /// A shortage.
    fn absent(self) -> Result<String, Shortage> {
        match self {
            Lack::Absent(why) => Ok(why),
            Lack::Short(shortage) => Err(shortage),
        }
    }
}

/// # Errors
///
/// A shortage.
fn tried(config: &SandboxConfig) -> Result<Reached, Shortage> {
    let Some(helper) = config.helper.clone().or_else(own_helper) else {
        let why = "this application has no helper: name the `ostler` binary as helper in [sandbox], or call ostler::sandbox::enter() first in main";
        return Ok(none(why.to_owned()));
    };
    let is_written = |file: &PathBuf| config.workspaces.as_ref().is_some_and(|notes| notes.is_written(file));
    if config.helper.as_ref().is_some_and(is_written) {
        let why = "lies where programs of steps write; name another in [sandbox] helper";
        return Ok(none(format!("{} {why}", helper.display())));
    }
    let mut missing = Vec::new();
    let tried_first = bubblewrap(config).map_err(Lack::Absent).and_then(|program| {
        trial(CageRung::Bubblewrap, Role::Program, &helper, &program)?;
        Ok(program)
    });
    match tried_first {
        Ok(program) => {
            // A program can change the first process of bubblewrap's namespace, which is its user's.
            let around = trial(CageRung::Bubblewrap, Role::Around, &helper, &program);
            let around = around.err().map(Lack::absent).transpose()?;
            return Ok(Reached {
                rung: CageRung::Bubblewrap,
                helper: Some(helper),
                bubblewrap: Some(program),
                ends_all: around.is_none(),
                missing: around.unwrap_or_default(),
                is_short: false,
                is_killed: false,
            });
        }
        Err(lack) => missing.push(format!("bubblewrap: {}", lack.absent()?)),
    }
    let landlock = |role| trial(CageRung::Landlock, role, &helper, Path::new(""));
    let around = landlock(Role::Around).err().map(Lack::absent).transpose()?;
    if around.is_some()
        && let Err(lack) = landlock(Role::Program)
    {
        missing.push(lack.absent()?);
        return Ok(none(missing.join("; ")));
    }
    if let Some(why) = &around {
        missing.push(format!(
            "{why}: what forks twice and clears its environment may outlive a call that has no control group"
        ));
    }
    Ok(Reached {
        rung: CageRung::Landlock,
        bubblewrap: None,
        ends_all: around.is_none(),
        missing: missing.join("; "),
        helper: Some(helper),
        is_short: false,
        is_killed: false,
    })
}

impl CageSpec {
    /// A cage that shows only the system, for trials.
    pub(super) fn trial(rung: CageRung, role: Role, helper: &Path, bubblewrap: &Path) -> CageSpec {
        CageSpec {
            rung,
            role,
            is_own_user: false,
            helper: helper.to_owned(),
            bubblewrap: bubblewrap.to_owned(),
            parent: std::process::id(),
            nonce: "trial".to_owned(),
            read: SYSTEM_READ.iter().map(PathBuf::from).filter(|path| path.exists()).collect(),
            write: Vec::new(),
            links: BTreeMap::new(),
            hide: Vec::new(),
            pin: Vec::new(),
            freeze: Vec::new(),
            network: false,
            observes: true,
            limits: CallLimits::default(),
            groups: Vec::new(),
            marks: Vec::new(),
            presence: None,
        }
    }
}

/// Runs `true` in a cage.
fn trial(rung: CageRung, role: Role, helper: &Path, bubblewrap: &Path) -> Result<(), Lack> {
    let program = of_system("true", None);
    let program = program.ok_or_else(|| Lack::Absent("no program `true` to try it with".to_owned()))?;
    let spec = CageSpec::trial(rung, role, helper, bubblewrap);
    let made = spec.command(&program, &["true".to_owned()]);
    let mut command = made.map_err(|failure| lack(failure.message))?;
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| lack(format!("{}: {error}", helper.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = match Report::read(spec.nonce(), &output.stderr) {
        Some(report) => report.what,
        None => String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned(),
    };
    let said =
        if said.is_empty() { format!("{} ended with {}", helper.display(), output.status) } else { said };
    match output.status.signal() {
        Some(_) => Err(Lack::Short(Shortage { what: said, is_killed: true })),
        None => Err(lack(said)),
    }
}

/// Errors of a machine that is short of something for the moment.
const SHORTAGES: [Errno; 5] = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR];

/// Their words in the C libraries of Linux, for `bwrap`, which tells no numbers. It runs without a locale.
const SHORTAGE_WORDS: [&str; 7] = [
    "Resource temporarily unavailable",
    "Too many open files",
    "No file descriptors available",
    "Cannot allocate memory",
    "Out of memory",
    "Interrupted system call",
    "Try again",
];

/// Reads a shortage from a message: by the numbers of errors in those of the helper, by words only where there is no number.
fn lack(said: String) -> Lack {
    let mut numbers =
        said.split("(os error ").skip(1).filter_map(|rest| rest.split_once(')')?.0.parse().ok());
    let is_short = match numbers.next() {
        Some(first) => std::iter::once(first)
            .chain(numbers)
            .any(|number: i32| SHORTAGES.iter().any(|errno| errno.raw_os_error() == number)),
        None => SHORTAGE_WORDS.iter().any(|words| said.contains(words)),
    };
    if is_short { Lack::Short(Shortage { what: said, is_killed: false }) } else { Lack::Absent(said) }
}

/// The program `bwrap`. A step may have put one into a folder of the search path, so what the operator did not name has to be the
/// system's.
fn bubblewrap(config: &SandboxConfig) -> Result<PathBuf, String> {
    let notes = config.workspaces.as_ref();
    let Some(named) = &config.bubblewrap else {
        return of_system("bwrap", notes).ok_or_else(|| "not installed in a folder of the system".to_owned());
    };
    let file = named.canonicalize().map_err(|error| format!("{}: {error}", named.display()))?;
    match notes.is_some_and(|notes| notes.is_written(&file)) {
        true => Err(format!(
            "{} lies where programs of steps write; name another in [sandbox] bubblewrap",
            named.display()
        )),
        false => Ok(file),
    }
}

/// A program of the search path, or of `/usr/bin` or `/bin`, that belongs to the system.
fn of_system(name: &str, notes: Option<&Workspaces>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/bin".into(), "/bin".into()]);
    let files = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    files.filter_map(|file| file.canonicalize().ok()).find(|real| is_of_system(real, notes))
}

/// Whether only root can change a file, which lies beneath the system's folders and where no program of a step wrote.
fn is_of_system(real: &Path, notes: Option<&Workspaces>) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let is_roots = |path: &Path| {
        path.metadata().is_ok_and(|found| {
            let mode = found.mode();
            let is_guarded = mode & WRITABLE_BY_OTHERS == 0 || (found.is_dir() && mode & STICKY != 0);
            found.uid() == 0 && is_guarded
        })
    };
    SYSTEM_READ.iter().any(|system| real.starts_with(system))
        && real.is_file()
        && real.ancestors().all(is_roots)
        && !notes.is_some_and(|notes| notes.is_written(real))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, is_short: bool) {
        assert_eq!(matches!(lack(said.to_owned()), Lack::Short(_)), is_short, "{said}");
    }

    #[test]
    fn the_number_of_an_error_tells_a_shortage_and_words_only_without_one() {
        check("the helper again: Ressource vorübergehend nicht verfügbar (os error 11)", true);
        check("/x: No file descriptors available (os error 24)", true);
        check("Landlock: Operation not permitted (os error 1)", false);
        check("/Too many open files/x: No such file or directory (os error 2)", false);
        check("bwrap: Creating new namespace failed: Resource temporarily unavailable", true);
        check("bwrap: No permissions to create a new namespace", false);
    }
}
