//! Keys as they are pressed, one by one and unseen, for as long as the screen is ours.
//!
//! ^C, ^Z and ^\ stay what they are: signals.

use std::io::stdin;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// How the terminal read before, while it reads for us.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// From here on the terminal gives each key at once. Does nothing the second time, or where there is no terminal.
pub(super) fn take() {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if before.is_some() {
        return;
    }
    let Ok(found) = tcgetattr(stdin()) else { return };
    let mut ours = found.clone();
    ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    if tcsetattr(stdin(), OptionalActions::Now, &ours).is_ok() {
        *before = Some(found);
    }
}

/// The terminal reads as it did before. `away`: somebody else has it by now, and has seen to that.
pub(super) fn give_back(away: bool) {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before.filter(|_| !away) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}
