//! Key-by-key input without echo while the alternate screen is shown.
//!
//! ^C, ^Z and ^\ still send signals.

use std::io::stdin;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// How the terminal read before, while it reads for us.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// From here on the terminal gives each key at once. Does nothing the second time, or where there is no terminal.
pub(crate) fn enable_key_mode() {
    let mut saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
    if saved.is_some() {
        return;
    }
    let Ok(found) = tcgetattr(stdin()) else { return };
    let mut ours = found.clone();
    ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    if tcsetattr(stdin(), OptionalActions::Now, &ours).is_ok() {
        *saved = Some(found);
    }
}

/// The terminal reads as it did before. `away`: somebody else has it by now, and has seen to that.
pub(crate) fn restore(is_background: bool) {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(saved) = saved.filter(|_| !is_background) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &saved);
    }
}
