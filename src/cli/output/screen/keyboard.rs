//! Key-by-key input without echo while the alternate screen is shown.
//!
//! ^C, ^Z and ^\ still send signals.

use std::io::stdin;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Delivers each key at once. Has no effect without a terminal or on a second call.
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

/// Restores the terminal settings. In the background the shell already has.
pub(crate) fn restore(is_background: bool) {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(saved) = saved.filter(|_| !is_background) {
        // The terminal may be gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &saved);
    }
}
