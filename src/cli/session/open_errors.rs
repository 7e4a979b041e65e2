//! Error messages for a data folder that cannot be opened.

use std::path::Path;

use ostler::StartError;
use ostler_kernel::port::JournalError;
use ostler_store::{FORMAT, OpenError};

use crate::cli::exit::Failure;
use crate::cli::output::hints::with_location;
use crate::cli::output::units::duration;

/// Advice for a data folder whose format file names a format that this program does not know.
pub(crate) fn newer_format(data: &Path) -> String {
    let file = data.join("format");
    format!(
        "use that version; if no other version has ever opened the folder, {} is damaged, and the line \"ostler-store {FORMAT}\" mends it",
        file.display()
    )
}

/// Error for a holder that is shutting down; `wait_ms` is its timeout for attempts that change the world.
pub(crate) fn holder_stopping(held: &OpenError, wait_ms: u64) -> Failure {
    let wait = duration(i64::try_from(wait_ms).unwrap_or(i64::MAX));
    let what = format!(
        "{held}, which is shutting down and waits up to {wait} for attempts that change the world; repeat the command after that (`ostler ps` and `ostler cancel RUN` work now); nothing is lost"
    );
    Failure::store(with_location(&what))
}

pub(crate) fn start_failure(error: StartError) -> Failure {
    match error {
        StartError::Metrics { .. }
        | StartError::Telemetry(_)
        | StartError::Models(_)
        | StartError::Clearance(_)
        | StartError::Mcp(_) => Failure::invalid(error.to_string()),
        StartError::System(ostler_actors::StartError::Journal(error @ JournalError::Damaged { .. })) => {
            let what = format!("{error}, in a client record, which every command reads; {TO_REPAIR}");
            Failure::store(with_location(&what))
        }
        error => Failure::internal(error.to_string()),
    }
}

pub(crate) fn open_failure(data: &Path, error: &OpenError) -> Failure {
    let place = data.display();
    if !data.is_dir() {
        match error {
            OpenError::Io { error, .. } => {
                return Failure::store(format!("data folder {place}: cannot be created: {error}"));
            }
            OpenError::ReadOnly { .. } => {
                return Failure::store(format!(
                    "data folder {place}: cannot be created, its parent is not writable; name another with --data or OSTLER_DATA"
                ));
            }
            _ => {}
        }
    }
    let nothing_written = format!("; nothing was written; {TO_REPAIR}");
    let advice = match error {
        OpenError::Held { .. } => {
            ", which does not answer at control.sock; wait for it, or end it; nothing is lost"
        }
        OpenError::Damaged { .. } => &nothing_written,
        OpenError::FormatDamaged { .. } => {
            "; `ostler doctor --repair` writes it again, and changes no record"
        }
        OpenError::NewerFormat { path, .. } => &format!("; {}", newer_format(path)),
        OpenError::NotOurs { .. } | OpenError::Foreign { .. } | OpenError::NotAFolder { .. } => {
            "; --data names another folder"
        }
        OpenError::LeadsNowhere { .. } => "; create that folder, or name another with --data",
        OpenError::NotAFile { .. } => "; check what it is, and remove it",
        OpenError::Lost { .. } => "; check which process holds it, and try again",
        OpenError::ReadOnly { .. } => "; copy it to a writable place, and name that with --data",
        OpenError::Io { .. } => "",
    };
    let message = error.to_string();
    let place = place.to_string();
    let message = if message.contains(&place) { message } else { format!("{place}: {message}") };
    Failure::store(with_location(&format!("{message}{advice}")))
}

pub(crate) const TO_REPAIR: &str =
    "`ostler doctor` reports what is affected, `ostler doctor --repair` quarantines it";
