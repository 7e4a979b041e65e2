//! Checks of credits and jobs.

use ostler_server::wire::{AuditView, JobList};

use crate::cli::commands::doctor::report::{PROBLEMS_SHOWN_MAX, Report};
use crate::cli::exit::Failure;
use crate::cli::output::units::plural;
use crate::cli::session::Session;

const ODD: &str =
    "do not change the folder, and keep a copy of it; `ostler credit CLIENT AMOUNT` corrects a balance";

/// Recomputes the credits of every metered client from its records, and counts unfinished jobs.
pub(crate) async fn check_market(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    let audit: AuditView = match session.get("/v1/audit").await {
        Ok(audit) => audit,
        Err(refused) => {
            report.fail("ledger", Failure::from(refused).what, super::RESTORE);
            return Ok(());
        }
    };
    let wrong: Vec<String> = audit
        .clients
        .iter()
        .flat_map(|line| line.violations.iter().map(move |what| format!("client {}: {what}", line.client)))
        .collect();
    for what in wrong.iter().take(PROBLEMS_SHOWN_MAX) {
        report.fail("ledger", what, ODD);
    }
    if wrong.len() > PROBLEMS_SHOWN_MAX {
        report.fail("ledger", format!("{} more of these", wrong.len() - PROBLEMS_SHOWN_MAX), ODD);
    }
    if wrong.is_empty() && !audit.clients.is_empty() {
        let clients = plural(audit.clients.len(), "metered client");
        report.pass(
            "ledger",
            format!("{clients}: free, reserved and spent credits add up to the deposits after every record"),
        );
    }
    let jobs: JobList = session.get("/v1/market").await?;
    let open =
        jobs.jobs.iter().filter(|line| !matches!(line.stage.as_str(), "evaluation" | "failed")).count();
    if open > 0 && !session.client.is_remote() {
        let what =
            if open == 1 { "1 job is unfinished".to_owned() } else { format!("{open} jobs are unfinished") };
        report.warn("market", what, "`ostler market ls` lists them, `ostler resume` continues them");
    }
    Ok(())
}
