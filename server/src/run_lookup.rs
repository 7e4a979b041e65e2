//! From the name of a run to its id.

use ostler_actors::System;
use ostler_kernel::id::RunId;
use ostler_kernel::port::RunsPage;

use axum::http::StatusCode;

use crate::problem::Problem;

/// Fewest characters of a partial id.
pub const RUN_PART_CHARS_MIN: usize = 4;

/// Rows of the table of runs read at once.
const ROWS_READ: usize = 64;

const CANDIDATES_TOLD_MAX: usize = 5;

/// Parses the id for a new run; `code` is the problem's code if it is unusable.
pub(crate) fn chosen_id(text: &str, code: &'static str) -> Result<RunId, Problem> {
    let run = text.parse::<RunId>().ok().filter(|run| run.may_be_chosen());
    run.ok_or_else(|| {
        let version = RunId::CHOSEN_VERSION;
        Problem::bad(code, format!("{text:?} is no id for a run: give a UUID of version {version}"))
    })
}

/// The run with the id, with an id that begins or ends so and is unique, or `@last`: the newest run that no attempt
/// opened.
pub(crate) fn find(system: &System, name: &str) -> Result<RunId, Problem> {
    let unknown = |what: String| Problem::new(StatusCode::NOT_FOUND, "run_unknown", what);
    if let Ok(run) = name.parse() {
        return Ok(run);
    }
    if name == "@last" {
        return newest(system)?.ok_or_else(|| unknown("there is no run yet".to_owned()));
    }
    let runs: Vec<RunId> = system.runs(false)?.into_iter().map(|row| row.run).collect();
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if name.len() < RUN_PART_CHARS_MIN || !name.bytes().all(is_part) {
        return Err(Problem::bad(
            "run_name",
            format!(
                "{name:?} names no run: give its id, {RUN_PART_CHARS_MIN} or more characters of it, or @last"
            ),
        ));
    }
    let part = name.to_ascii_lowercase();
    let fits = |fits: fn(&str, &str) -> bool| -> Vec<RunId> {
        runs.iter().copied().filter(|run| fits(&run.to_string(), &part)).collect()
    };
    let mut found = fits(|run, part| run.starts_with(part));
    if found.is_empty() {
        // Ids begin with the time, so runs of one hour differ at their ends.
        found = fits(|run, part| run.ends_with(part));
    }
    match found.as_slice() {
        [] => Err(unknown(format!("no run has an id that begins or ends with {name}"))),
        [run] => Ok(*run),
        several => {
            let told: Vec<String> =
                several.iter().rev().take(CANDIDATES_TOLD_MAX).map(ToString::to_string).collect();
            Err(Problem::new(
                StatusCode::CONFLICT,
                "run_ambiguous",
                format!("{name} fits {} runs, such as {}: give more of it", several.len(), told.join(", ")),
            ))
        }
    }
}

/// The newest run that no attempt opened.
fn newest(system: &System) -> Result<Option<RunId>, Problem> {
    let mut before = None;
    loop {
        let rows = system.runs_page(RunsPage { open_only: false, before, limit: ROWS_READ })?;
        // Attempts open runs with hashed ids.
        if let Some(row) = rows.iter().find(|row| !row.run.is_hashed()) {
            return Ok(Some(row.run));
        }
        match rows.last() {
            Some(row) if rows.len() == ROWS_READ => before = Some(row.place()),
            _ => return Ok(None),
        }
    }
}
