//! Which rung this machine reaches: found out by a program that really runs there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, Once, PoisonError};

use ostler_kernel::port::CageRung;
use rustix::io::Errno;

use super::config::SandboxConfig;
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
}

/// Finds the highest rung that works, by trial. The answer holds for the whole process, unless the machine was short of something:
/// a step could bring that about, and no program of another step may lose its cage by it.
pub fn reached(config: &SandboxConfig) -> Reached {
    /// The helper and the program `bwrap`.
    type Programs = (Option<PathBuf>, Option<PathBuf>);
    static KNOWN: Mutex<BTreeMap<Programs, Reached>> = Mutex::new(BTreeMap::new());
    let key = (config.helper.clone(), config.bubblewrap.clone());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reached) = known.get(&key) {
        return reached.clone();
    }
    let found = match tried(config) {
        Ok(found) => found,
        Err(missing) => return Reached { is_short: true, ..none(missing) },
    };
    known.insert(key, found.clone());
    found
}

fn none(missing: String) -> Reached {
    Reached {
        rung: CageRung::None,
        helper: None,
        bubblewrap: None,
        ends_all: false,
        missing,
        is_short: false,
    }
}

/// Reason why a rung does not work.
#[derive(Debug, Clone)]
enum Lack {
    /// The machine does not have it.
    Absent(String),
    /// The machine was short of something.
    Short(String),
}

impl Lack {
    /// Text of a rung that the machine does not have.
    ///
    /// # Errors
    ///
    /// Text of a shortage.
    fn absent(self) -> Result<String, String> {
        match self {
            Lack::Absent(why) => Ok(why),
            Lack::Short(why) => Err(why),
        }
    }
}

/// # Errors
///
/// A shortage.
fn tried(config: &SandboxConfig) -> Result<Reached, String> {
    let Some(helper) = config.helper.clone().or_else(own_helper) else {
        let why = "this application has no helper: name the `ostler` binary as helper in [sandbox], or call ostler::sandbox::enter() first in main";
        return Ok(none(why.to_owned()));
    };
    let mut missing = Vec::new();
    let tried_first = bubblewrap(config).map_err(Lack::Absent).and_then(|program| {
        trial(CageRung::Bubblewrap, Role::Program, &helper, &program)?;
        Ok(program)
    });
    match tried_first {
        Ok(program) => {
            return Ok(Reached {
                rung: CageRung::Bubblewrap,
                helper: Some(helper),
                bubblewrap: Some(program),
                ends_all: true,
                missing: String::new(),
                is_short: false,
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
    })
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
    // A signal came from outside, such as that of the kernel when memory runs out.
    if output.status.code().is_none() { Err(Lack::Short(said)) } else { Err(lack(said)) }
}

/// Reads a shortage from a message: helper and `bwrap` say what failed in the words of the system.
fn lack(said: String) -> Lack {
    const SHORTAGES: [Errno; 5] = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR];
    let tells = |errno: Errno| {
        let error = std::io::Error::from(errno).to_string();
        // With the number in Rust's messages, without in those of C programs.
        said.contains(error.split(" (os error").next().unwrap_or(&error))
    };
    if SHORTAGES.into_iter().any(tells) { Lack::Short(said) } else { Lack::Absent(said) }
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
