//! Damage in a data folder, the runs and clients that lost something, and the repair.

use ostler_store::{ClientLoss, Examination, Quarantined};

use crate::cli::commands::doctor::report::{PROBLEMS_SHOWN_MAX, Report, Verdict};
use crate::cli::output::units::{bytes, plural};

pub(crate) const QUARANTINED: &str = "no action needed: what is left is kept, and the run never continues; `ostler gc --quarantined --apply` removes it";

const REPAIR: &str = "`ostler doctor --repair` quarantines the affected runs and pipelines, and nothing else; or restore the folder from a backup";

const CLIENT: &str =
    "check `ostler ps --clients`, and correct it with `ostler client add` and `ostler credit`";

const INDEX: &str = "remove index.redb from the data folder while no process holds it: the next command rebuilds it from the journal";

const PIPELINE: &str = "declare it again with `ostler pipeline create`: it starts empty";

/// Adds the damage found, or with `repaired` the repairs done.
pub(crate) fn add(found: &Examination, repaired: bool, report: &mut Report) {
    let journal = &found.journal;
    let verdict = if repaired { Verdict::Warning } else { Verdict::Failure };
    let advice = if repaired { None } else { Some(REPAIR) };
    let is_torn_alone = journal.damages.iter().all(|damage| damage.torn);
    for damage in journal.damages.iter().filter(|damage| damage.torn) {
        let next = match (found.read_only, is_torn_alone || repaired) {
            (true, _) => {
                "copy the folder to a writable place: the next run there drops the torn end, or reports further losses"
            }
            (false, true) => "no action needed: the next run drops the torn end",
            (false, false) => "repair the damage below first: then the next run drops the torn end",
        };
        report.warn("journal", damage.to_string(), next);
    }
    let damaged: Vec<String> =
        journal.damages.iter().filter(|damage| !damage.torn).map(ToString::to_string).collect();
    let artifacts: Vec<String> = found.artifacts.iter().map(ToString::to_string).collect();
    let touched: Vec<String> = journal.runs.iter().map(run).collect();
    for (name, lines, advice) in
        [("journal", &damaged, advice), ("results", &artifacts, advice), ("touched", &touched, None)]
    {
        for what in lines.iter().take(PROBLEMS_SHOWN_MAX) {
            report.add(verdict, name, what, advice);
        }
        if lines.len() > PROBLEMS_SHOWN_MAX {
            report.add(verdict, name, &format!("{} more of these", lines.len() - PROBLEMS_SHOWN_MAX), None);
        }
    }
    if journal.list_damaged {
        report.add(verdict, "quarantine", "the list of quarantined runs is damaged", advice);
    }
    for loss in &journal.pipelines {
        let name = loss
            .pipeline
            .as_ref()
            .map_or("a pipeline of unknown name".to_owned(), |name| format!("pipeline {name}"));
        let what = match (repaired, loss.moved) {
            (true, 1..) => {
                format!("{name}: {}; the rest was moved to journal/{}", loss.what, loss.remains)
            }
            _ => format!("{name}: {}", loss.what),
        };
        report.add(verdict, "pipelines", &what, if repaired { Some(PIPELINE) } else { advice });
    }
    for loss in &journal.clients {
        report.add(verdict, "clients", &client(loss), Some(CLIENT));
    }
    if !damaged.is_empty() {
        lost(found, report);
    }
    if repaired && !found.is_sound() {
        told_repaired(found, report);
    }
    if damaged.is_empty() || repaired {
        report.pass("journal", "all checksums are correct");
    }
    if found.format_repaired {
        report.pass("format", "the format file was damaged, and was written again");
    }
    if found.format_missing {
        report.warn(
            "format",
            "the format file is missing; the records can be read without it",
            "no action needed: the next command that opens the folder writes it",
        );
    }
    index(found, report);
}

fn index(found: &Examination, report: &mut Report) {
    if found.index_broken {
        report.warn("index", "could not be read: rebuilt from the journal", "no action needed");
    }
    let differences = &found.index;
    for what in &differences.described {
        report.fail("index", what, INDEX);
    }
    let more = differences.count - differences.described.len() as u64;
    if more > 0 {
        report.fail("index", format!("{more} more of these"), INDEX);
    }
}

fn lost(found: &Examination, report: &mut Report) {
    let journal = &found.journal;
    if journal.charges_known {
        report.pass("charges", "charges in lost records are known from the index");
    } else {
        let what = format!(
            "{} of records are lost, and no index covers them: their charges count as never made",
            bytes(journal.bytes_lost)
        );
        report.warn(
            "charges",
            what,
            "to charge a client for them, withdraw credits: `ostler credit CLIENT -N`",
        );
    }
    if journal.clients_unsure {
        let what = "the lost records may include the last deposits, terms and agents of clients";
        report.warn("clients", what, CLIENT);
    }
}

fn told_repaired(found: &Examination, report: &mut Report) {
    let runs = match found.journal.runs.len() {
        0 => "no run quarantined".to_owned(),
        some => format!("{} quarantined, the rest of each in journal/ as RUN.remains", plural(some, "run")),
    };
    let kept = match found.journal.kept.len() {
        0 => String::new(),
        kept => format!("; {} kept as found in journal/ as *.damaged-*", plural(kept, "segment")),
    };
    let artifacts = match found.artifacts.len() {
        0 => String::new(),
        some => format!("; {} moved to artifacts/damaged", plural(some, "result")),
    };
    let what = format!("{runs}{kept}{artifacts}");
    report.add(Verdict::Warning, "repaired", &what, None);
}

fn run(one: &Quarantined) -> String {
    let row = &one.row;
    format!("run {} ({}, of client {}): {}", row.run, row.plan, row.client, one.why)
}

fn client(loss: &ClientLoss) -> String {
    let name =
        loss.client.as_ref().map_or("a client of unknown name".to_owned(), |name| format!("client {name}"));
    format!("{name}: {}; deposits, terms or agents may be missing", loss.what)
}
