//! SIGINT, SIGTERM and SIGHUP: the first starts an orderly exit, the second ends the process at once.
//!
//! Stopping the process (^Z) removes the live display until it continues.

use std::io::{Write, stderr, stdin};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use ostler_drivers::tool::DataFolder;
use rustix::process::{Signal as Raw, getpgrp, getpid, getsid, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::cli::exit::Failure;
use crate::cli::output::hints::with_location;
use crate::cli::output::screen;

/// What interrupts.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal went away; `None` if the process was started so as to outlive it (`nohup`).
    hang_up: Option<Signal>,
    exit_actions: Arc<Mutex<ExitActions>>,
    /// Whoever heard the first one has said what becomes of it.
    message_set: Arc<Notify>,
}

/// How long the second one waits for what is said of the first.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(250);

/// What is done when the process ends at once.
#[derive(Default)]
struct ExitActions {
    /// What is said; `None`: that everything is kept.
    message: Option<String>,
    /// Whose programs are killed: they would go on, and act, with nobody left to hear of it.
    programs: Option<DataFolder>,
}

/// From here on, a file that would become longer than this process may make one is an error of whoever writes, like a full disk, and
/// not the end of the process. Programs that it starts are not told: they end by it as they ever did.
pub(crate) fn ignore_file_size_signal() {
    // The handler stays when what listens is gone; without one, the process is as it was.
    drop(signal(SignalKind::from_raw(Raw::XFSZ.as_raw())));
}

impl Signals {
    /// From here on, none of them ends the process by itself.
    pub(crate) fn listen() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: if outlives_terminal() { None } else { Some(listen(SignalKind::hangup())?) },
            exit_actions: Arc::default(),
            message_set: Arc::default(),
        })
    }

    /// From here on, the process says this if it is made to end at once. What is to be said before that was said.
    pub(crate) fn set_exit_message(&self, message: String) {
        self.exit_actions.lock().unwrap_or_else(PoisonError::into_inner).message = Some(message);
        self.message_set.notify_one();
    }

    /// From here on, the programs of this data folder, which this process holds, are killed if it is made to end at once.
    pub(crate) fn kill_on_exit(&self, programs: Option<&DataFolder>) {
        self.exit_actions.lock().unwrap_or_else(PoisonError::into_inner).programs = programs.cloned();
    }

    /// Waits for the next one: the exit code it stands for. Dropping the future loses nothing. The one after it
    /// ends the process at once; but not that the terminal went away, which the shell tells, and then the system once more.
    pub(crate) async fn next(&mut self) -> u8 {
        let code = tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            () = hang_up_received(&mut self.hang_up) => 143,
        };
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
                    with_location("ended at once, state is kept: `ostler resume` goes on")
                });
                // Not by way of the screen, which may be in the middle of a drawing.
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

/// Whether who started the process had it ignore that its terminal goes away. Where there is no `/proc`, that cannot be seen, and what
/// was set stays.
fn outlives_terminal() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return true };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & 1 << (Raw::HUP.as_raw() - 1) != 0)
}

/// Hears that the process was stopped, and goes on with the terminal: what stood there may be gone.
pub(crate) struct ContinueSignal(Option<Signal>);

impl ContinueSignal {
    /// From here on. Where that cannot be listened for, it is never heard.
    pub(crate) fn listen() -> ContinueSignal {
        ContinueSignal(signal(SignalKind::from_raw(Raw::CONT.as_raw())).ok())
    }

    /// Waits until the process goes on in the foreground. Dropping the future loses nothing.
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

/// Whether this process has the terminal. One in the background that reads from it would be stopped.
pub(crate) fn is_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// From here on, the screen is given back before the process stops for ^Z or ends for ^\, and taken again when
/// it goes on. Call it inside the runtime; the second call does nothing.
pub(crate) fn restore_screen_on_stop() {
    static STARTED: Once = Once::new();
    let listen = |raw: Raw| signal(SignalKind::from_raw(raw.as_raw()));
    STARTED.call_once(|| {
        // Where these cannot be listened for, they do what they always do.
        if let (Ok(stop), Ok(resume), Ok(quit)) = (listen(Raw::TSTP), listen(Raw::CONT), listen(Raw::QUIT)) {
            tokio::spawn(handle_stops(stop, resume, quit));
        }
    });
}

async fn handle_stops(mut stop: Signal, mut resume: Signal, mut quit: Signal) {
    loop {
        tokio::select! {
            _ = stop.recv() => {
                // Nobody could let a session's first process go on.
                if getsid(None).is_ok_and(|session| session == getpid()) {
                    continue;
                }
                screen::close();
                if kill_process(getpid(), Raw::STOP).is_ok() {
                    resume.recv().await;
                }
                screen::open();
            }
            // It was stopped without being asked, and a shell has had the screen since.
            _ = resume.recv() => screen::forget(),
            _ = quit.recv() => {
                screen::try_close();
                std::process::exit(131);
            }
        }
    }
}

/// From here on, something may be drawn on the terminal that is taken away whatever ends the process. Call it inside
/// the runtime.
pub(crate) fn begin() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(screen::clear_on_panic);
    screen::open();
    restore_screen_on_stop();
}
