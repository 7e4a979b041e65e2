//! A process namespace around a call: whatever the program starts ends with the namespace's first process, double forks too, also
//! after the process that made the call was killed.
//!
//! Three processes: the helper, which makes the namespace and which the caller sees; a copy of it, the first process in there, which
//! reaps orphans; and a copy of that one, which confines itself and becomes the program. The helper waits for the caller's end as well,
//! and holds the marks that a program runs until all of the namespace has ended. Copies are made because a start of the whole binary
//! takes many times as long; the helper has one thread, so that a copy lacks nothing.

use std::fs;
use std::os::fd::OwnedFd;

use fork::Fork;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getppid, kill_process, pidfd_open, wait, waitpid,
};
use rustix::thread::UnshareFlags;

use super::mounts::unshare;
use super::spec::{CageSpec, Role};
use super::{presence, privileges};

/// Makes the namespace. Returns in the process that is to become the program, and otherwise only if that fails: the calling process
/// ends as the program does, or once the caller has ended.
pub(super) fn around(spec: &CageSpec) -> Result<CageSpec, String> {
    let marks = presence::hold(&spec.marks).map_err(|error| format!("the marks of the call: {error}"))?;
    let caller = caller(spec.parent)?;
    let is_own_user =
        unshare(UnshareFlags::NEWPID).map_err(|error| format!("no process namespace: {error}"))?;
    let parent = std::process::id();
    let Some(child) = copied()? else {
        drop((marks, caller));
        return first(CageSpec { role: Role::Program, parent, is_own_user, ..spec.clone() });
    };
    let first = pidfd(child)?;
    let mut either = [PollFd::new(&caller, PollFlags::IN), PollFd::new(&first, PollFlags::IN)];
    loop {
        match poll(&mut either, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(waiting(error)),
        }
    }
    // A first process that has ended keeps its status. The kernel ends the namespace before it tells of its end.
    let _ = kill_process(child, Signal::KILL);
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => end_as(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(waiting(error)),
        }
    }
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
    pidfd_open(pid, PidfdFlags::empty()).map_err(waiting)
}

fn waiting(error: Errno) -> String {
    format!("waiting for the program: {error}")
}

/// Makes the process of the program as the first one of a namespace, and returns in it. The first process reaps what is left behind, and
/// ends as the program does.
fn first(spec: CageSpec) -> Result<CageSpec, String> {
    // Its parent is in another namespace, so that only the /proc of that one has its id.
    privileges::end_with_one(spec.parent, || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    })?;
    let parent = std::process::id();
    let Some(program) = copied()? else { return Ok(CageSpec { parent, ..spec }) };
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => end_as(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(waiting(error)),
        }
    }
}

/// Copies this process. The original gets the id of the copy and leaves its streams; the copy gets `None`.
fn copied() -> Result<Option<Pid>, String> {
    let copied = fork::fork().map_err(|error| format!("the helper again: {error}"))?;
    let Fork::Parent(child) = copied else { return Ok(None) };
    leave_streams().map_err(|error| format!("/dev/null: {error}"))?;
    Ok(Pid::from_raw(child))
}

/// Ends this process with the status of a program, that of a signal as shells tell it.
fn end_as(status: WaitStatus) -> ! {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    std::process::exit(status.exit_status().or(signal).unwrap_or(1))
}

/// What the program closes is closed: nobody else holds its streams.
fn leave_streams() -> std::io::Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
