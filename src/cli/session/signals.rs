//! SIGINT, SIGTERM and SIGHUP: the first starts an orderly exit, the second ends the process at once.
//!
//! Stopping the process (^Z) removes the live display until it continues.

use std::fs::DirEntry;
use std::io::{Write, stderr, stdin};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use ostler_drivers::tool::DataFolder;
use rustix::process::{Pid, Signal as Raw, getpgrp, getpid, getsid, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::cli::exit::Failure;
use crate::cli::output::hints::with_location;
use crate::cli::output::screen;

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Closing of the terminal; `None` if the process ignores that (`nohup`).
    hang_up: Option<Signal>,
    /// SIGINT ends a turn of a conversation, and not the process.
    has_turns: bool,
    exit_actions: Arc<Mutex<ExitActions>>,
    /// Notified once the message for an immediate exit is set.
    message_set: Arc<Notify>,
}

/// How long the second signal waits for the message.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Default)]
struct ExitActions {
    /// The last message; `None`: a default.
    message: Option<String>,
    /// Child processes to kill: they would continue to act without a record.
    programs: Option<DataFolder>,
}

/// Turns a write beyond the file size limit into an error of the writer, like a full disk, instead of the
/// end of the process. Child processes keep the default.
pub(crate) fn ignore_file_size_signal() {
    // The handler stays installed after the listener is dropped.
    drop(signal(SignalKind::from_raw(Raw::XFSZ.as_raw())));
}

impl Signals {
    /// Installs handlers, so that no signal ends the process by default.
    pub(crate) fn listen() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: if outlives_terminal() { None } else { Some(listen(SignalKind::hangup())?) },
            has_turns: false,
            exit_actions: Arc::default(),
            message_set: Arc::default(),
        })
    }

    /// For a conversation: a SIGINT is no beginning of the exit, so a second one does not end the process.
    pub(crate) fn of_turns(self) -> Signals {
        Signals { has_turns: true, ..self }
    }

    /// Sets the last message of an immediate exit. Earlier messages are printed by now.
    pub(crate) fn set_exit_message(&self, message: String) {
        self.exit_actions.lock().unwrap_or_else(PoisonError::into_inner).message = Some(message);
        self.message_set.notify_one();
    }

    /// Sets the child processes that an immediate exit kills.
    pub(crate) fn kill_on_exit(&self, programs: Option<&DataFolder>) {
        self.exit_actions.lock().unwrap_or_else(PoisonError::into_inner).programs = programs.cloned();
    }

    /// Does work that a signal ends; the error is its exit code.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, u8> {
        tokio::select! {
            biased;
            code = self.next() => Err(code),
            done = work => Ok(done),
        }
    }

    /// Waits for a signal and returns its exit code. Cancel-safe. The next SIGINT or SIGTERM ends the
    /// process at once; SIGHUP does not, because both the shell and the kernel send one.
    pub(crate) async fn next(&mut self) -> u8 {
        let code = tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            () = hang_up_received(&mut self.hang_up) => 143,
        };
        if code == 130 && self.has_turns {
            return code;
        }
        let (exit_actions, message_set) = (self.exit_actions.clone(), self.message_set.clone());
        tokio::spawn(async move {
            if let Ok(mut again) = Signals::listen() {
                let code = tokio::select! {
                    _ = again.interrupt.recv() => 130,
                    _ = again.terminate.recv() => 143,
                };
                let _ = tokio::time::timeout(MESSAGE_TIMEOUT, message_set.notified()).await;
                screen::try_close();
                let ExitActions { message, programs } =
                    std::mem::take(&mut *exit_actions.lock().unwrap_or_else(PoisonError::into_inner));
                if let Some(programs) = programs {
                    programs.kill_running();
                }
                let message = message.unwrap_or_else(|| {
                    with_location("stopped at once, state is kept: `ostler resume` continues")
                });
                // Bypasses the screen, which may be in the middle of a drawing.
                let _ = writeln!(stderr(), "{message}");
                std::process::exit(code);
            }
        });
        code
    }
}

async fn hang_up_received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Returns whether this process started with SIGHUP ignored, as under `nohup`. If `/proc` is not mounted, that is
/// unknown; the signal then keeps the effect it had, so that a `nohup` is never undone.
fn outlives_terminal() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return true };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & 1 << (Raw::HUP.as_raw() - 1) != 0)
}

/// Detects that the process was stopped and continued, so that the screen has to be redrawn.
pub(crate) struct ContinueSignal(Option<Signal>);

impl ContinueSignal {
    /// Without a handler, [`ContinueSignal::next`] never returns.
    pub(crate) fn listen() -> ContinueSignal {
        ContinueSignal(signal(SignalKind::from_raw(Raw::CONT.as_raw())).ok())
    }

    /// Waits until the process continues in the foreground. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        while let Some(signal) = &mut self.0 {
            if signal.recv().await.is_none() {
                break;
            }
            if is_foreground() {
                return;
            }
        }
        std::future::pending().await
    }
}

/// Returns whether this process group has the terminal. A background read would stop the process.
pub(crate) fn is_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// Removes the display before the process stops for ^Z or ends for ^\, and restores it afterwards. Requires
/// a runtime; only the first call has an effect.
pub(crate) fn restore_screen_on_stop() {
    static STARTED: Once = Once::new();
    let listen = |raw: Raw| signal(SignalKind::from_raw(raw.as_raw()));
    STARTED.call_once(|| {
        // Without handlers, the signals keep their default effect.
        if let (Ok(stop), Ok(resume), Ok(quit)) = (listen(Raw::TSTP), listen(Raw::CONT), listen(Raw::QUIT)) {
            tokio::spawn(handle_stops(stop, resume, quit));
        }
    });
}

async fn handle_stops(mut stop: Signal, mut resume: Signal, mut quit: Signal) {
    loop {
        tokio::select! {
            _ = stop.recv() => {
                // The first process of a session could not be continued by anyone.
                if getsid(None).is_ok_and(|session| session == getpid()) {
                    continue;
                }
                screen::close();
                continue_starting_programs();
                if kill_process(getpid(), Raw::STOP).is_ok() {
                    resume.recv().await;
                }
                screen::open();
            }
            // The process was stopped by SIGSTOP, and a shell used the screen.
            _ = resume.recv() => screen::forget(),
            _ = quit.recv() => {
                screen::try_close();
                std::process::exit(131);
            }
        }
    }
}

/// Continues the children that are not yet the program that they were started for.
///
/// ^Z reaches a child that was forked and has not left the group of this process yet. It stops before it loads its program,
/// and until then the thread that started it cannot stop (`vfork`): the shell would wait for both for ever. The
/// signal to continue also takes back a stop that the child has blocked.
fn continue_starting_programs() {
    if let Ok(own) = executable("self") {
        continue_children(&own);
    }
}

/// Continues the children that run this executable.
fn continue_children(file: &Path) {
    for child in children() {
        let runs_it = executable(&child.to_string()).is_ok_and(|other| other == file);
        if let Some(pid) = Pid::from_raw(child).filter(|_| runs_it) {
            let _ = kill_process(pid, Raw::CONT);
        }
    }
}

fn executable(process: &str) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/exe"))
}

/// The children of this process; none where the system does not list them.
fn children() -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let of = |thread: DirEntry| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let children = threads.flatten().map(of).collect::<String>();
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Prepares the terminal for the live display, so that a panic, a signal or the end of the process removes
/// it. Requires a runtime.
pub(crate) fn begin() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(screen::clear_on_panic);
    screen::open();
    restore_screen_on_stop();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};
    use std::process::{Command, Stdio};

    #[cfg(target_os = "linux")]
    #[test]
    fn only_children_that_run_the_executable_are_continued() {
        let stopped = |program: &str, arguments: &[&str]| {
            let child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().unwrap();
            let pid = Pid::from_child(&child);
            kill_process(pid, Raw::STOP).unwrap();
            waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
            (child, pid)
        };
        let (mut starting, pid) = stopped("cat", &[]);
        let (mut other, other_pid) = stopped("sh", &["-c", "read line"]);
        continue_children(&executable(&starting.id().to_string()).unwrap());
        assert!(waitpid(Some(pid), WaitOptions::CONTINUED).unwrap().unwrap().1.continued());
        assert!(waitpid(Some(other_pid), WaitOptions::CONTINUED | WaitOptions::NOHANG).unwrap().is_none());
        for child in [&mut starting, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
