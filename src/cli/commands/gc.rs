//! `ostler gc`.

use std::path::Path;
use std::time::SystemTime;

use clap::Args;
use ostler::config::RetentionConfig;
use ostler_kernel::plan::HumanDuration;
use ostler_store::{Garbage, OpenError, RetentionPolicy, Store};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::duration;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::{bytes, plural};
use crate::cli::session::open_errors::open_failure;
use crate::cli::session::settings::{load_settings, no_runs_text};

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Remove the data; without it, only list what would be removed
    #[arg(long)]
    apply: bool,
    /// Minimum age of closed runs, such as 30d or 12h [default: `keep` in [retention] of the configuration]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = age)]
    older_than: Option<HumanDuration>,
    /// Also remove runs quarantined by `ostler doctor --repair`, and the damaged segments and results it
    /// kept
    #[arg(long)]
    quarantined: bool,
}

impl GcArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        !self.apply
    }
}

fn age(text: &str) -> Result<HumanDuration, String> {
    let span = duration(text)?;
    let most = RetentionConfig::KEEP_DAYS_MAX;
    let refused = || format!("give a duration above zero, up to {most}d, such as 30d");
    RetentionConfig::takes(span).then_some(span).ok_or_else(refused)
}

pub(crate) fn gc(globals: &Globals, args: GcArgs) -> Result<u8, Failure> {
    let (config, data) = load_settings(globals, Path::new("."))?;
    let nothing = no_runs_text(data.as_deref())?;
    let keep = args.older_than.or(config.retention.keep);
    let retention = RetentionConfig { keep, reuse: config.retention.reuse }.policy(SystemTime::now());
    let retention = RetentionPolicy { quarantined: args.quarantined, ..retention };
    let (garbage, holder) = match data {
        Some(data) if nothing.is_none() => collect(&data, retention, args.apply)?,
        _ => (Garbage::default(), None),
    };
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({
            "type": "gc",
            "applied": args.apply,
            "held": holder.is_some(),
            "runs": garbage.runs,
            "quarantined": garbage.quarantined,
            "kept_for_reuse": garbage.kept_for_reuse,
            "pipeline_events": garbage.pipeline_events,
            "stage_records": garbage.stage_records,
            "journal_bytes_before": garbage.journal_bytes_before,
            "journal_bytes_after": garbage.journal_bytes_after,
            "artifacts": garbage.artifacts,
            "artifact_bytes": garbage.artifact_bytes,
            "outputs": garbage.outputs,
            "output_bytes": garbage.output_bytes,
            "damaged": garbage.damaged,
            "damaged_bytes": garbage.damaged_bytes,
        }));
        return Ok(code::SUCCEEDED);
    }
    if let Some(nothing) = nothing {
        status_line(nothing);
        return Ok(code::SUCCEEDED);
    }
    print(&garbage, args.apply, holder.is_some(), &mut out);
    if garbage.kept_for_reuse > 0 {
        let runs = plural(garbage.kept_for_reuse, "expired run");
        status_line(format!("{runs} kept, because reuse may need the results: `reuse` in [retention]"));
    }
    if let Some(holder) = holder {
        status_line(format!("the folder is held by {holder}; --apply needs that process to have ended"));
    }
    if keep.is_none() {
        status_line(
            "runs are kept without limit; set `keep` in [retention] of the configuration, or --older-than",
        );
    }
    Ok(code::SUCCEEDED)
}

/// The garbage, and the process that holds the folder. Beside a holder nothing can be removed, only listed.
fn collect(
    data: &Path,
    retention: RetentionPolicy,
    apply: bool,
) -> Result<(Garbage, Option<String>), Failure> {
    match Store::collect(data, retention, apply) {
        Ok(garbage) => Ok((garbage, None)),
        Err(OpenError::Held { pid, .. }) => {
            let holder = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            if apply {
                return Err(Failure::store(format!(
                    "{}: held by {holder}; repeat the command after that process has ended",
                    data.display()
                )));
            }
            match Store::garbage_beside_holder(data, retention) {
                Ok(garbage) => Ok((garbage, Some(holder))),
                Err(error) => Err(open_failure(data, &error)),
            }
        }
        Err(error) => Err(open_failure(data, &error)),
    }
}

/// Most listed runs.
const RUNS_MAX: usize = 20;

/// Lists the runs that would be removed, oldest first.
fn print_runs(garbage: &Garbage, out: &mut Out) {
    let expired = garbage.runs.iter().map(|run| format!("  {run}"));
    let quarantined = garbage.quarantined.iter().map(|run| format!("  {run}  quarantined"));
    expired.chain(quarantined).take(RUNS_MAX).for_each(|line| out.line(line));
    let all = garbage.runs.len() + garbage.quarantined.len();
    if all > RUNS_MAX {
        out.line(format!("  … and {} more: --json lists all", all - RUNS_MAX));
    }
}

fn print(garbage: &Garbage, applied: bool, held: bool, out: &mut Out) {
    let of_runs = [(garbage.runs.len(), "run", ""), (garbage.quarantined.len(), "quarantined run", "")];
    let of_pipelines = [
        (garbage.pipeline_events as usize, "event", " over the quota of their pipeline"),
        (garbage.stage_records as usize, "record", " of stages that later ones supersede"),
    ];
    let records = of_runs.iter().chain(&of_pipelines).filter(|(some, ..)| *some > 0);
    let records: Vec<String> = records.map(|(some, noun, which)| plural(*some, noun) + which).collect();
    if records.is_empty() && garbage.artifacts + garbage.outputs + garbage.damaged == 0 {
        return out.line("nothing to remove");
    }
    let (go, are) = if applied { ("removed", "are") } else { ("would be removed", "would be") };
    if !records.is_empty() {
        let (before, after) = (bytes(garbage.journal_bytes_before), bytes(garbage.journal_bytes_after));
        out.line(format!("{} {go}: of {before} of records, {after} {are} left", records.join(" and ")));
    }
    if !applied {
        print_runs(garbage, out);
    }
    if garbage.artifacts > 0 {
        let results = plural(garbage.artifacts as usize, "result");
        out.line(format!("{results} without a record {go}: {}", bytes(garbage.artifact_bytes)));
    }
    if garbage.outputs > 0 {
        let outputs = plural(garbage.outputs as usize, "output");
        out.line(format!("{outputs} of programs {go}: {}", bytes(garbage.output_bytes)));
    }
    if garbage.damaged > 0 {
        let results = plural(garbage.damaged as usize, "damaged result");
        out.line(format!("{results} {go}: {}", bytes(garbage.damaged_bytes)));
    }
    if !applied && !held {
        out.line("nothing was removed; use --apply to remove");
    }
}
