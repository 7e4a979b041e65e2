//! A process namespace around a call: whatever the program starts ends with the namespace's first process, double forks too, also
//! after the process that made the call was killed.
//!
//! Three helpers, each started by the one before: one that makes the namespace and that the caller sees, the first process in it,
//! which reaps orphans, and one that confines itself and becomes the program. The first of them waits for the caller's end as well, and
//! holds the marks that a program runs until all of the namespace has ended.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, getppid, pidfd_open, wait};
use rustix::thread::UnshareFlags;

use super::mounts::unshare;
use super::spec::{CageSpec, Role};
use super::{presence, privileges};

/// Makes the namespace, and ends as its first process does, or once the caller has ended. Returns only if that fails.
pub(super) fn around(spec: &CageSpec, file: &Path, argv: &[OsString]) -> Result<Infallible, String> {
    let _marks = presence::hold(&spec.marks).map_err(|error| format!("the marks of the call: {error}"))?;
    let caller = caller(spec.parent)?;
    let is_own_user =
        unshare(UnshareFlags::NEWPID).map_err(|error| format!("no process namespace: {error}"))?;
    let (role, parent) = (Role::First, std::process::id());
    let mut child = started(&CageSpec { role, parent, is_own_user, ..spec.clone() }, file, argv)?;
    let first = pidfd(Pid::from_child(&child))?;
    let mut either = [PollFd::new(&caller, PollFlags::IN), PollFd::new(&first, PollFlags::IN)];
    loop {
        match poll(&mut either, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("waiting for the program: {error}")),
        }
    }
    // A first process that has ended keeps its status. The kernel ends the namespace before it tells of its end.
    let _ = child.kill();
    let status = child.wait().map_err(|error| format!("waiting for the program: {error}"))?;
    let signal = status.signal().map(|signal| 128 + signal);
    std::process::exit(status.code().or(signal).unwrap_or(1))
}

/// The process that made the call, to wait for its end.
fn caller(parent: u32) -> Result<OwnedFd, String> {
    let is_there = |pid: &Pid| pid.as_raw_pid().unsigned_abs() == parent;
    let ended = || "the process that started it has ended".to_owned();
    let caller = pidfd(getppid().filter(is_there).ok_or_else(ended)?)?;
    // In between it may have ended, and another process may have got its id.
    getppid().filter(is_there).map(|_| caller).ok_or_else(ended)
}

fn pidfd(pid: Pid) -> Result<OwnedFd, String> {
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| format!("waiting for a process: {error}"))
}

/// Starts the program as the first process of a namespace, reaps what is left behind, and ends as the program does.
pub(super) fn first(spec: &CageSpec, file: &Path, argv: &[OsString]) -> Result<Infallible, String> {
    // Its parent is in another namespace, so that only the /proc of that one has its id.
    privileges::end_with_one(spec.parent, || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    })?;
    let (role, parent) = (Role::Program, std::process::id());
    let child = started(&CageSpec { role, parent, ..spec.clone() }, file, argv)?;
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

fn started(spec: &CageSpec, file: &Path, argv: &[OsString]) -> Result<Child, String> {
    let mut command = spec.command_by(Path::new("/proc/self/exe"), file, argv)?;
    let child = command.spawn().map_err(|error| format!("the helper again: {error}"))?;
    leave_streams().map_err(|error| format!("/dev/null: {error}"))?;
    Ok(child)
}

/// What the program closes is closed: nobody else holds its streams.
fn leave_streams() -> std::io::Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
