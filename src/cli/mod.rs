//! The `ostler` command.
//!
//! `command_line` declares the commands, and `commands` has a module for each of them. Commands reach runs through the `/v1` API;
//! `gc` and `doctor` also open the store itself, because they work on its files. `session` connects to the data folder and follows runs, `output` formats results, and `arguments` parses shared options.

mod arguments;
mod command_line;
mod commands;
mod exit;
mod output;
mod session;

use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing_subscriber::EnvFilter;

use crate::cli::command_line::typo::with_suggestion;
use crate::cli::command_line::{Cli, dispatch, parse};
use crate::cli::exit::Failure;
use crate::cli::output::screen::StatusWriter;
use crate::cli::output::terminal::status_line;
use crate::cli::output::{cells, hints, terminal, units};
use crate::cli::session::signals;

/// Levels that `OSTLER_LOG` takes.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Directive that hides what the MCP library logs about logins.
const LOGINS_OFF: &str = "rmcp::transport::auth=off";

/// Returns the log filter: `error`, unless `OSTLER_LOG` names a level or a directive. `EnvFilter` would
/// take an unknown level for the name of a target, and log nothing.
fn log_filter() -> EnvFilter {
    let requested = std::env::var("OSTLER_LOG").unwrap_or_default();
    let requested = requested.trim();
    let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(requested));
    let filter =
        Some(requested).filter(|requested| is_level || requested.contains('=')).map(EnvFilter::try_new);
    if let Some(Ok(filter)) = filter {
        // The library logs codes and identity tokens of logins.
        return filter.add_directive(LOGINS_OFF.parse().expect("it is a directive"));
    }
    if !requested.is_empty() {
        status_line(format!(
            "note: OSTLER_LOG={requested:?}: not one of {}; logging errors only",
            LEVELS.join(", ")
        ));
    }
    // The MCP library logs what its caller reports anyway.
    EnvFilter::new("error,rmcp=off")
}

/// Prints help, the version or a usage error, and returns the exit code.
fn print_parse_error(error: &clap::Error) -> u8 {
    let printed = error.print();
    if error.use_stderr() {
        return exit::code::INVALID;
    }
    terminal::record_write_result(printed);
    exit::code::SUCCEEDED
}

const THREAD_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            status_line(format!("error: cannot start threads: {error}"));
            return exit::code::INTERNAL.into();
        }
    };
    {
        let _within = runtime.enter();
        signals::ignore_file_size_signal();
    }
    let parsed =
        parse().inspect(hints::remember_location).and_then(|matches| Cli::from_arg_matches(&matches));
    let mut only_reads = true;
    let ended = match parsed {
        Ok(cli) => {
            only_reads = cli.only_reads();
            let log = tracing_subscriber::fmt().with_env_filter(log_filter()).with_writer(|| StatusWriter);
            // A log that nobody reads any more is no reason to stop: telling of it on the same stream would panic.
            log.log_internal_errors(false).init();
            raise_open_file_limit();
            match units::refused_time(units::now_ms()) {
                Some(refused) => Err(Failure::internal(refused)),
                None => runtime.block_on(dispatch(cli)),
            }
        }
        Err(error) => Ok(print_parse_error(&with_suggestion(error))),
    };
    // The last drop closes the journal. Threads that still block are abandoned.
    runtime.shutdown_timeout(THREAD_TIMEOUT);
    let ended = match (ended, terminal::write_error()) {
        (Ok(_), Some(error)) => Err(Failure::internal(format!(
            "standard output: cannot be written: {error}; the output is lost{}",
            if only_reads { "" } else { " but changes were made, so check before repeating the command" }
        ))),
        (ended, _) => ended,
    };
    match ended {
        Ok(code) => code.into(),
        Err(Failure { code, what }) => {
            if !what.is_empty() {
                status_line(format!("error: {}", cells::harmless_lines(&what)));
            }
            code.into()
        }
    }
}

/// Limit on open files that the process requests. The limit is no higher, because child processes inherit
/// it and some close every possible descriptor one by one.
const OPEN_FILES: u64 = 65_536;

/// Raises the soft limit on open files to at most [`OPEN_FILES`]. A failure is not an error.
fn raise_open_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let requested = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < requested)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(requested), ..limit })
    {
        tracing::debug!(%error, "the limit on open files stays");
    }
}
