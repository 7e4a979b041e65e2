//! The helper: this binary again, which confines itself and becomes the program.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ostler_kernel::port::CageRung;

use super::spec::{CageSpec, Role};

/// First argument of a call as the helper; the rest is between the two processes.
pub const HELPER_COMMAND: &str = "__sandbox";

/// Exit status of a helper that could not become the program.
const REPORTED: i32 = 125;

/// The first descriptor after the standard streams.
const FIRST_INHERITED: i32 = 3;

static IS_HELPER: OnceLock<PathBuf> = OnceLock::new();

/// Makes the running binary the helper of its cages. Call it first in `main`, before any thread: as the helper it does not return.
///
/// Descriptors above standard error that this process inherited stay open, and no program that it starts inherits them.
///
/// ```no_run
/// ostler_drivers::cage::enter();
/// // the application
/// ```
pub fn enter() {
    // A shell opens files for its commands, and a program in a cage could read and write them.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != HELPER_COMMAND) {
        // The file may be replaced by a new version while this one runs.
        IS_HELPER.get_or_init(|| PathBuf::from("/proc/self/exe"));
        return;
    }
    let (spec, program) = (arguments.next(), arguments.next());
    let report = match (spec.map(OsString::into_string), program) {
        (Some(Ok(spec)), Some(program)) => match serde_json::from_str::<CageSpec>(&spec) {
            Ok(spec) => become_program(spec, program.into(), arguments.collect()),
            Err(error) => Report::cage("", format!("its description: {error}")),
        },
        _ => Report::cage("", "ostler starts this command itself, to confine programs".to_owned()),
    };
    let _ = io::stderr().write_all(report.line().as_bytes());
    std::process::exit(REPORTED);
}

/// The binary that makes cages, if this one does.
pub(super) fn own_helper() -> Option<PathBuf> {
    IS_HELPER.get().cloned()
}

/// Returns only if the program cannot be started in the cage.
fn become_program(spec: CageSpec, file: PathBuf, argv: Vec<OsString>) -> Report {
    let nonce = &spec.nonce.clone();
    #[cfg(target_os = "linux")]
    let spec = match spec.role {
        Role::Around => match super::init::around(&spec) {
            Ok(spec) => spec,
            Err(what) => return Report::cage(nonce, what),
        },
        Role::Within(_) | Role::Program => spec,
    };
    let mut command = match confined(&spec, file, argv) {
        Ok(command) => command,
        Err(what) => return Report::cage(nonce, what),
    };
    let error = command.exec();
    not_become(&spec, Path::new(command.get_program()), &error)
}

/// The report of a helper that the system did not let become `file`: the program, or `bwrap`, which starts the helper again.
fn not_become(spec: &CageSpec, file: &Path, error: &io::Error) -> Report {
    let (nonce, file) = (spec.nonce.clone(), file.display());
    let is_out_of_reach = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    match (&spec.role, spec.rung) {
        (Role::Within(_), _) => {
            Report { nonce, errno: error.raw_os_error(), what: format!("{file}: {error}") }
        }
        // The error would be taken for that of the program.
        (_, CageRung::Bubblewrap) if is_out_of_reach => Report::cage(
            &nonce,
            format!(
                "{file}, which makes it: {error}; install it again, or start this process again, which finds what makes cages"
            ),
        ),
        _ => Report { nonce, errno: error.raw_os_error(), what: error.to_string() },
    }
}

#[cfg(target_os = "linux")]
fn confined(spec: &CageSpec, file: PathBuf, argv: Vec<OsString>) -> Result<Command, String> {
    use super::place::Place;
    use super::{bubblewrap, mounts, privileges};
    for group in &spec.groups {
        std::fs::write(group, "0").map_err(|error| format!("{}: {error}", group.display()))?;
    }
    match (&spec.role, spec.rung) {
        (Role::Within(places), _) => {
            places.iter().try_for_each(Place::check)?;
            privileges::limit(&spec.limits, true)?;
        }
        (_, CageRung::Bubblewrap) => {
            return bubblewrap::command(spec, &mounts::separate(spec)?, &file, &argv);
        }
        _ => confine(spec)?,
    }
    let mut argv = argv.into_iter();
    let mut command = Command::new(file);
    command.arg0(argv.next().unwrap_or_default()).args(argv);
    Ok(command)
}

/// Confines this process by what the rung `landlock` is made of.
#[cfg(target_os = "linux")]
fn confine(spec: &CageSpec) -> Result<(), String> {
    use super::{filter, mounts, privileges, rules};
    let is_own_user = mounts::separate(spec)?.for_landlock(spec)?;
    privileges::limit(&spec.limits, is_own_user || spec.is_own_user)?;
    privileges::drop_all()?;
    privileges::end_with(spec.parent)?;
    rules::restrict(spec)?;
    filter::install(spec)
}

#[cfg(not(target_os = "linux"))]
fn confined(_: &CageSpec, _: PathBuf, _: Vec<OsString>) -> Result<Command, String> {
    Err("only Linux has what a cage is made of".to_owned())
}

/// Why the helper did not become the program: the first line of its standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    nonce: String,
    /// The system's error for the program; `None`: the cage could not be made.
    pub errno: Option<i32>,
    pub what: String,
}

impl Report {
    fn cage(nonce: &str, what: String) -> Report {
        Report { nonce: nonce.to_owned(), errno: None, what }
    }

    fn line(&self) -> String {
        let Report { nonce, errno, what } = self;
        // Nobody reads such a line but a person.
        if nonce.is_empty() {
            return format!("{what}\n");
        }
        format!("{nonce} {} {what}\n", errno.unwrap_or(0))
    }

    /// Reads what came on standard error; `None` if the program itself wrote it.
    pub(crate) fn read(nonce: &str, text: &[u8]) -> Option<Report> {
        let text = std::str::from_utf8(text).ok()?.strip_prefix(nonce)?.strip_prefix(' ')?;
        let (errno, what) = text.trim_end().split_once(' ')?;
        let errno = errno.parse().ok().filter(|errno| *errno != 0);
        Some(Report { nonce: nonce.to_owned(), errno, what: what.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bwrap_that_is_gone_is_not_taken_for_the_program() {
        let report = |role, rung, file: &str, errno| {
            let spec = CageSpec::trial(rung, role, Path::new(""), Path::new(""));
            let Report { errno, what, .. } =
                not_become(&spec, Path::new(file), &io::Error::from_raw_os_error(errno));
            (errno, what)
        };
        let (none, no_memory) = (2, 12);
        let (errno, what) = report(Role::Program, CageRung::Bubblewrap, "/usr/bin/bwrap", none);
        assert_eq!(errno, None, "of no program");
        assert!(what.starts_with("/usr/bin/bwrap, which makes it: No such file"), "{what}");
        assert_eq!(
            report(Role::Program, CageRung::Bubblewrap, "/usr/bin/bwrap", no_memory).0,
            Some(no_memory)
        );
        assert_eq!(report(Role::Program, CageRung::Landlock, "/bin/sh", none).0, Some(none));
        let (errno, what) = report(Role::Within(Vec::new()), CageRung::Bubblewrap, "/bin/sh", none);
        assert!(errno == Some(none) && what.starts_with("/bin/sh: "), "{what}");
    }

    #[test]
    fn a_report_is_read_as_it_was_written_and_nothing_else_is_one() {
        let report = Report { nonce: "n".to_owned(), errno: Some(2), what: "not there".to_owned() };
        assert_eq!(Report::read("n", report.line().as_bytes()), Some(report));
        let report = Report::cage("n", "no rules".to_owned());
        assert_eq!(Report::read("n", report.line().as_bytes()), Some(report));
        for text in ["", "n", "m 2 not there", "n x", "nn 2 x"] {
            assert_eq!(Report::read("n", text.as_bytes()), None, "{text}");
        }
    }
}
