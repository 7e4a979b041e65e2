//! ^C and termination: the first asks, the second ends.

use std::io::Write;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Failure;

/// Shows the cursor again.
pub(crate) const SHOW_CURSOR: &str = "\u{1b}[?25h";

/// What interrupts.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on, neither ends the process by itself.
    pub(crate) fn listen() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one: the exit code it stands for. Dropping the future loses nothing. The one after it
    /// ends the process at once.
    pub(crate) async fn next(&mut self) -> u8 {
        let code = tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        };
        tokio::spawn(async {
            if let Ok(mut again) = Signals::listen() {
                let code = tokio::select! {
                    _ = again.interrupt.recv() => 130,
                    _ = again.terminate.recv() => 143,
                };
                let mut out = std::io::stdout();
                if std::io::IsTerminal::is_terminal(&out) {
                    let _ = write!(out, "{SHOW_CURSOR}");
                }
                std::process::exit(code);
            }
        });
        code
    }
}
