//! `ostler doctor`.

mod damage;
mod disk;
mod environment;
mod market;
mod operators;
mod pipelines;
mod report;
mod runs;
mod templates;

use std::path::Path;

use clap::Args;
use ostler_server::wire::Lockdown;
use ostler_store::{OpenError, Store};

use crate::cli::arguments::Globals;
use crate::cli::commands::doctor::disk::{check_disk, folder_bytes, size_text};
use crate::cli::commands::doctor::environment::{check_configuration, check_programs};
use crate::cli::commands::doctor::operators::check_operators;
use crate::cli::commands::doctor::pipelines::check_pipelines;
use crate::cli::commands::doctor::report::Report;
use crate::cli::commands::doctor::runs::check_runs;
use crate::cli::commands::doctor::templates::check_templates;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;
use crate::cli::session::open_errors::newer_format;
use crate::cli::session::settings::{data_folder_exists, load_settings};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Quarantine damaged runs, keep their intact records, and change nothing else
    #[arg(long)]
    repair: bool,
}

impl DoctorArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        !self.repair
    }
}

pub(crate) async fn doctor(globals: &Globals, args: DoctorArgs) -> Result<u8, Failure> {
    let mut report = Report { out: Out::new(), json: globals.json, warnings: 0, failures: 0 };
    let (config, data) = load_settings(globals, Path::new("."))?;
    check_configuration(globals, &config, data.as_deref(), &mut report);
    check_programs(&config, &mut report);
    let Some(data) = data else {
        report.warn(
            "data folder",
            "none: runs are kept in memory, and are lost at the end of the command",
            IN_MEMORY,
        );
        return Ok(report.end());
    };
    let place = data.display();
    if data_folder_exists(&data)? {
        report.pass("data folder", format!("{place}, {}", size_text(folder_bytes(&data))));
        check_disk(&data, &mut report);
        check_templates(&data, &mut report);
        check_operators(&data, &mut report);
        check_store(globals, &data, args.repair, &mut report).await?;
    } else if let Err(error) = Store::check_place(&data) {
        let advice = match error {
            OpenError::LeadsNowhere { .. } => {
                "create that folder, or name another with --data or OSTLER_DATA"
            }
            _ => "name another with --data or OSTLER_DATA",
        };
        report.fail("data folder", error.to_string(), advice);
    } else {
        report.pass("data folder", format!("{place} does not exist yet: the first run creates it"));
        check_disk(&data, &mut report);
    }
    Ok(report.end())
}

const IN_MEMORY: &str = "to keep them, remove url = \"memory:\" from [store] of the configuration";

pub(crate) const RESTORE: &str =
    "do not change the folder; restore a backup, or keep it and start another with --data";

const NOT_LOOKED_AT: &str =
    "is read-only: its runs were not checked, and the end of the journal may be missing";

const COPY: &str = "copy it to a writable place, and name that with --data";

async fn check_store(
    globals: &Globals,
    data: &Path,
    repairs: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut is_held = false;
    let examined = if repairs { Store::repair(data) } else { Store::examine(data) };
    match examined {
        Ok(found) => {
            damage::add(&found, repairs, report);
            if !repairs && !found.is_sound() {
                return Ok(());
            }
            if found.read_only {
                report.warn("runs", format!("{} {NOT_LOOKED_AT}", data.display()), COPY);
                return Ok(());
            }
        }
        Err(OpenError::Held { pid, .. }) => {
            let who = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            if repairs {
                return Err(Failure::store(format!(
                    "journal: held by {who}; repair it after that process has ended"
                )));
            }
            let what = format!("held by {who}: checksums and index were not checked");
            report.warn("journal", what, "to check them too, repeat after that process has ended");
            is_held = true;
        }
        Err(error @ OpenError::NewerFormat { .. }) => {
            report.fail("format", error.to_string(), &newer_format(data));
            return Ok(());
        }
        Err(error @ OpenError::FormatDamaged { .. }) => {
            report.fail(
                "format",
                error.to_string(),
                "`ostler doctor --repair` writes it again, and changes no record",
            );
            return Ok(());
        }
        Err(error @ OpenError::ReadOnly { .. }) => {
            report.fail("journal", format!("{error}: nothing was repaired"), COPY);
            return Ok(());
        }
        Err(error) => {
            report.fail("journal", error.to_string(), RESTORE);
            return Ok(());
        }
    }
    let Some(mut session) = open(globals, is_held, report).await? else { return Ok(()) };
    if session.get::<Lockdown>("/v1/lockdown").await?.on {
        let what = "on: the gate denies every call, and a run whose call is denied fails";
        report.warn("lockdown", what, "`ostler lockdown off` ends it");
    }
    let mut result = check_runs(&mut session, report).await;
    if result.is_ok() {
        result = check_pipelines(&mut session, report).await;
    }
    if result.is_ok() {
        result = market::check_market(&mut session, report).await;
    }
    session.stop().await;
    result
}

/// Opens the folder, or reaches the process that holds it; `None`, with a failed check, if that process does not answer.
async fn open(globals: &Globals, is_held: bool, report: &mut Report) -> Result<Option<Session>, Failure> {
    match Session::open(globals, Path::new("."), AccessMode::Read).await {
        Err(Failure { code: code::STORE, what }) if is_held => {
            let (problem, advice) = what.split_once("; ").unwrap_or((&what, "repeat later"));
            report.fail("runs", format!("not checked: {problem}"), advice);
            Ok(None)
        }
        opened => opened.map(Some),
    }
}
