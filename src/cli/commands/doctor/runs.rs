//! Checks of runs and their results.

use std::collections::BTreeMap;

use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ClientRow, DamagedResult, Health, ResultsCheck, RunLine, RunList, Summary};

use crate::cli::commands::doctor::report::{PROBLEMS_SHOWN_MAX, Report};
use crate::cli::commands::doctor::{RESTORE, damage};
use crate::cli::exit::Failure;
use crate::cli::output::units::{bytes, plural};
use crate::cli::output::{credits, hints};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{Session, report};

#[derive(Default)]
struct Unfinished {
    idle: usize,
    in_doubt: usize,
    waiting: usize,
    suspended: Vec<RunLine>,
}

impl Unfinished {
    fn count(&mut self, line: &RunLine) {
        self.in_doubt += line.waiting.iter().filter(|waiting| waiting.id.is_none()).count();
        match line.status {
            RunStatus::Queued if line.is_idle() => self.idle += 1,
            RunStatus::Waiting if line.waiting.iter().any(|waiting| waiting.id.is_some()) => {
                self.waiting += 1
            }
            RunStatus::Suspended => self.suspended.push(line.clone()),
            _ => {}
        }
    }

    fn add(&self, report: &mut Report) {
        if self.idle > 0 {
            let what = format!("{} queued", runs_text(self.idle, "is", "are"));
            report.warn("queued", what, "`ostler ps` lists them, `ostler resume` continues them");
        }
        if self.waiting > 0 {
            let what = format!("{} for a person", runs_text(self.waiting, "waits", "wait"));
            report.warn("waiting", what, "`ostler approvals` lists the requests");
        }
        if self.in_doubt > 0 {
            let what = format!("{} whose effect is unknown", plural(self.in_doubt, "attempt"));
            report.warn("in doubt", what, "`ostler ps` lists the commands that resolve them");
        }
        for RunLine { run, plan, reason, .. } in self.suspended.iter().take(PROBLEMS_SHOWN_MAX) {
            let what = format!("run {run} ({plan}): {}", reason.as_deref().unwrap_or_default());
            report.warn("suspended", what, &format!("`{}` resumes it", hints::resume(run)));
        }
        let more = self.suspended.len().saturating_sub(PROBLEMS_SHOWN_MAX);
        if more > 0 {
            let advice = "`ostler ps --state suspended` lists them";
            report.warn("suspended", plural(more, "more run"), advice);
        }
    }
}

fn runs_text(many: usize, one: &str, more: &str) -> String {
    format!("{} {}", plural(many, "run"), if many == 1 { one } else { more })
}

#[derive(Default)]
struct Findings {
    runs: u64,
    records: u64,
    results: u64,
    result_bytes: u64,
    unfinished: Unfinished,
    problems: Vec<(&'static str, String)>,
    /// Runs with calls of models that ended with their process, and the number of those.
    lost_calls: Vec<(String, usize)>,
    /// Clients without credits, with the number of their waiting runs.
    without_credits: BTreeMap<String, (ClientRow, usize)>,
}

impl Findings {
    /// Recomputes a run from its records, and reads its results.
    async fn check_run(&mut self, session: &mut Session, line: &RunLine) {
        self.runs += 1;
        let path = format!("/v1/runs/{}", path_segment(&line.run));
        match session.get::<Summary>(&path).await {
            Ok(summary) => {
                // A run that could not be read before, and now can be, counts as open.
                self.unfinished.count(line);
                self.records += summary.seq;
                if !summary.lost_calls.is_empty() {
                    self.lost_calls.push((summary.run.clone(), summary.lost_calls.len()));
                }
                if let Some(client) = report::short(&session.client, &summary).await {
                    self.without_credits.entry(client.client.to_string()).or_insert((client, 0)).1 += 1;
                }
            }
            Err(refused) => return self.problems.push(("steps", Failure::from(refused).what)),
        }
        match session.get::<ResultsCheck>(&format!("{path}/results")).await {
            Ok(results) => {
                self.results += results.read;
                self.result_bytes += results.bytes;
                let damaged = results.damaged.into_iter();
                self.problems.extend(damaged.map(|DamagedResult { node, what }| {
                    ("artifacts", format!("run {} node {node}: {what}", line.run))
                }));
            }
            Err(refused) => {
                let what = Failure::from(refused).what;
                self.problems.push(("artifacts", format!("run {}: {what}", line.run)));
            }
        }
    }

    fn add(&self, report: &mut Report) {
        for (name, what) in self.problems.iter().take(PROBLEMS_SHOWN_MAX) {
            report.fail(name, what, RESTORE);
        }
        let more = self.problems.len().saturating_sub(PROBLEMS_SHOWN_MAX);
        if more > 0 {
            report.fail("more", format!("{more} more of these"), RESTORE);
        }
        let has_problem = |check: &str| self.problems.iter().any(|(name, _)| *name == check);
        if !has_problem("steps") {
            report.pass("runs", format!("{} with {} records, all legal", self.runs, self.records));
        }
        if !has_problem("artifacts") {
            let size = bytes(self.result_bytes);
            report.pass("results", format!("{} of {size}, all digests correct", self.results));
        }
        self.unfinished.add(report);
        for (run, count) in self.lost_calls.iter().take(PROBLEMS_SHOWN_MAX) {
            let whose = if *count == 1 { "its" } else { "their" };
            let what = format!("run {run}: {} of models ended with {whose} process", plural(*count, "call"));
            let advice = format!("`{}` says what they count; the provider may bill them", hints::show(run));
            report.warn("lost calls", what, &advice);
        }
        let more = self.lost_calls.len().saturating_sub(PROBLEMS_SHOWN_MAX);
        if more > 0 {
            report.warn(
                "lost calls",
                format!("in {}", plural(more, "more run")),
                "`ostler show RUN` lists them",
            );
        }
        for (client, (line, runs)) in self.without_credits.iter().take(PROBLEMS_SHOWN_MAX) {
            let what = format!("{} for credits of client {client}", runs_text(*runs, "waits", "wait"));
            let credit = hints::deposit(client, credits::deposit(line.left));
            let advice = format!("`{credit}`, then `ostler resume`");
            report.warn("credits", what, &advice);
        }
    }
}

/// Recomputes every run from its records, and reads every result: each record must be legal, each digest
/// correct.
pub(crate) async fn check_runs(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    if session.client.is_remote() {
        let health: Health = session.get("/healthz").await?;
        let runs = plural(health.active, "run");
        let what = format!("process {} answers: version {}, executes {runs}", health.pid, health.version);
        report.pass("control.sock", what);
    }
    let mut findings = Findings::default();
    let mut next: Option<String> = None;
    loop {
        let after = next.map(|cursor| format!("?after={cursor}")).unwrap_or_default();
        let list: RunList = match session.get(&format!("/v1/runs{after}")).await {
            Ok(list) => list,
            Err(refused) => {
                report.fail("runs", Failure::from(refused).what, RESTORE);
                return Ok(());
            }
        };
        for line in list.runs {
            if line.status == RunStatus::Quarantined {
                let what = format!("run {}: {}", line.run, line.reason.unwrap_or_default());
                report.warn("quarantined", what, damage::QUARANTINED);
            } else {
                findings.check_run(session, &line).await;
            }
        }
        next = list.next;
        if next.is_none() {
            break;
        }
    }
    findings.add(report);
    Ok(())
}
