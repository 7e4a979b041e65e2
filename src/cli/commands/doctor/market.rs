//! Checks of credits, of calls of models, and of jobs.

use ostler_server::wire::{AuditView, JobList};

use crate::cli::commands::doctor::report::{PROBLEMS_SHOWN_MAX, Report};
use crate::cli::exit::Failure;
use crate::cli::output::units::plural;
use crate::cli::session::Session;

const ODD: &str =
    "do not change the folder, and keep a copy of it; `ostler credit CLIENT AMOUNT` corrects a balance";

/// Recomputes the credits, tokens and money of every metered client from its records, and counts unfinished jobs.
pub(crate) async fn check_market(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    let audit: AuditView = match session.get("/v1/audit").await {
        Ok(audit) => audit,
        Err(refused) => {
            report.fail("ledger", Failure::from(refused).what, super::RESTORE);
            return Ok(());
        }
    };
    let credits = audit.clients.iter().map(|line| (&line.client, &line.violations));
    check_sums(
        report,
        "ledger",
        credits.collect(),
        "metered client",
        "free, reserved and spent credits add up to the deposits after every record",
    );
    let calls = audit.calls.iter().map(|line| (&line.client, &line.violations));
    check_sums(
        report,
        "calls",
        calls.collect(),
        "client",
        "tokens and money of its calls add up, and no reservation exceeds a budget",
    );
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

/// Reports the violations of each client, or that there are none.
fn check_sums(
    report: &mut Report,
    what: &'static str,
    clients: Vec<(&String, &Vec<String>)>,
    noun: &str,
    fine: &str,
) {
    let of_client = |(client, violations): &(&String, &Vec<String>)| {
        violations.iter().map(|violation| format!("client {client}: {violation}")).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = clients.iter().flat_map(of_client).collect();
    for violation in wrong.iter().take(PROBLEMS_SHOWN_MAX) {
        report.fail(what, violation, ODD);
    }
    if wrong.len() > PROBLEMS_SHOWN_MAX {
        report.fail(what, format!("{} more of these", wrong.len() - PROBLEMS_SHOWN_MAX), ODD);
    }
    if wrong.is_empty() && !clients.is_empty() {
        report.pass(what, format!("{}: {fine}", plural(clients.len(), noun)));
    }
}
