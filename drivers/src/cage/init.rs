//! A process namespace around a call that has no control group: whatever the program starts ends with the namespace's first process,
//! double forks too.
//!
//! Three helpers, each started by the one before: one that makes the namespace and that the caller sees, the first process in it,
//! which reaps orphans, and one that confines itself and becomes the program.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};
use rustix::thread::UnshareFlags;

use super::mounts::unshare;
use super::privileges;
use super::spec::{CageSpec, Role};

/// Makes the namespace, and ends as its first process does. Returns only if that fails.
pub(super) fn around(spec: &CageSpec, file: &Path, argv: &[OsString]) -> Result<Infallible, String> {
    let is_own_user =
        unshare(UnshareFlags::NEWPID).map_err(|error| format!("no process namespace: {error}"))?;
    privileges::end_with(spec.parent)?;
    let (role, parent) = (Role::First, std::process::id());
    end_as(&CageSpec { role, parent, is_own_user, ..spec.clone() }, file, argv)
}

/// Starts the program as the first process of a namespace, reaps what is left behind, and ends as the program does.
pub(super) fn first(spec: &CageSpec, file: &Path, argv: &[OsString]) -> Result<Infallible, String> {
    // Its parent is in another namespace, so that only the /proc of that one has its id.
    privileges::end_with_one(spec.parent, || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    })?;
    let (role, parent) = (Role::Program, std::process::id());
    end_as(&CageSpec { role, parent, ..spec.clone() }, file, argv)
}

fn end_as(spec: &CageSpec, file: &Path, argv: &[OsString]) -> Result<Infallible, String> {
    let mut command = spec.command_by(Path::new("/proc/self/exe"), file, argv)?;
    let child = command.spawn().map_err(|error| format!("the helper again: {error}"))?;
    leave_streams().map_err(|error| format!("/dev/null: {error}"))?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Pid::from_child(&child) == pid => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                std::process::exit(status.exit_status().or(signal).unwrap_or(1));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("waiting for the program: {error}")),
        }
    }
}

/// What the program closes is closed: nobody else holds its streams.
fn leave_streams() -> std::io::Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
