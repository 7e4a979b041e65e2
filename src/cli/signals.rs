//! ^C and termination, also that of the terminal: the first asks, the second ends. ^Z: the screen is given back for as long as it lasts, and who
//! was asked something is asked again.

use std::io::{Write, stderr, stdin};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use ostler_drivers::tool::DataFolder;
use rustix::process::{Signal as Raw, getpgrp, getpid, getsid, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::advice::placed;
use super::exit::Failure;
use super::live::screen;

/// What interrupts.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal went away; `None` if the process was started so as to outlive it (`nohup`).
    hang_up: Option<Signal>,
    last: Arc<Mutex<Last>>,
    /// Whoever heard the first one has said what becomes of it.
    said: Arc<Notify>,
}

/// How long the second one waits for what is said of the first.
const SAID: Duration = Duration::from_millis(250);

/// What is done when the process ends at once.
#[derive(Default)]
struct Last {
    /// What is said; `None`: that everything is kept.
    words: Option<String>,
    /// Whose programs are killed: they would go on, and act, with nobody left to hear of it.
    programs: Option<DataFolder>,
}

/// From here on, a file that would become longer than this process may make one is an error of whoever writes, like a full disk, and
/// not the end of the process. Programs that it starts are not told: they end by it as they ever did.
pub(crate) fn outlive_long_files() {
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
            last: Arc::default(),
            said: Arc::default(),
        })
    }

    /// From here on, the process says this if it is made to end at once. What is to be said before that was said.
    pub(crate) fn will_say(&self, words: String) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).words = Some(words);
        self.said.notify_one();
    }

    /// From here on, the programs of this data folder, which this process holds, are killed if it is made to end at once.
    pub(crate) fn will_kill(&self, programs: Option<&DataFolder>) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).programs = programs.cloned();
    }

    /// Waits for the next one: the exit code it stands for. Dropping the future loses nothing. The one after it
    /// ends the process at once; but not that the terminal went away, which the shell tells, and then the system once more.
    pub(crate) async fn next(&mut self) -> u8 {
        let code = tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            () = hung_up(&mut self.hang_up) => 143,
        };
        let (last, said) = (self.last.clone(), self.said.clone());
        tokio::spawn(async move {
            if let Ok(mut again) = Signals::listen() {
                let code = tokio::select! {
                    _ = again.interrupt.recv() => 130,
                    _ = again.terminate.recv() => 143,
                };
                let _ = tokio::time::timeout(SAID, said.notified()).await;
                screen::close_if_free();
                let Last { words, programs } =
                    std::mem::take(&mut *last.lock().unwrap_or_else(PoisonError::into_inner));
                if let Some(programs) = programs {
                    programs.kill_running();
                }
                let words =
                    words.unwrap_or_else(|| placed("ended at once, state is kept: `ostler resume` goes on"));
                // Not by way of the screen, which may be in the middle of a drawing.
                let _ = writeln!(stderr(), "{words}");
                std::process::exit(code);
            }
        });
        code
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
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
pub(crate) struct GoesOn(Option<Signal>);

impl GoesOn {
    /// From here on. Where that cannot be listened for, it is never heard.
    pub(crate) fn listen() -> GoesOn {
        GoesOn(signal(SignalKind::from_raw(Raw::CONT.as_raw())).ok())
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
pub(crate) fn mind_stops() {
    static MINDED: Once = Once::new();
    let listen = |raw: Raw| signal(SignalKind::from_raw(raw.as_raw()));
    MINDED.call_once(|| {
        // Where these cannot be listened for, they do what they always do.
        if let (Ok(stop), Ok(go_on), Ok(quit)) = (listen(Raw::TSTP), listen(Raw::CONT), listen(Raw::QUIT)) {
            tokio::spawn(mind(stop, go_on, quit));
        }
    });
}

async fn mind(mut stop: Signal, mut go_on: Signal, mut quit: Signal) {
    loop {
        tokio::select! {
            _ = stop.recv() => {
                // Nobody could let a session's first process go on.
                if getsid(None).is_ok_and(|session| session == getpid()) {
                    continue;
                }
                screen::close();
                if kill_process(getpid(), Raw::STOP).is_ok() {
                    go_on.recv().await;
                }
                screen::open();
            }
            // It was stopped without being asked, and a shell has had the screen since.
            _ = go_on.recv() => screen::forget(),
            _ = quit.recv() => {
                screen::close_if_free();
                std::process::exit(131);
            }
        }
    }
}
