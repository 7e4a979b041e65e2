//! Checks of runs and their results.

use std::collections::BTreeMap;

use ostler_server::wire::{
    ClientLine, DamagedResult, Health, ResultsRead, RunLine, RunList, Standing, Summary,
};

use crate::cli::commands::doctor::report::{PROBLEMS_SHOWN_MAX, Report};
use crate::cli::commands::doctor::{RESTORE, damage};
use crate::cli::exit::Failure;
use crate::cli::output::units::{bytes, plural};
use crate::cli::output::{credits, hints};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{Session, report};

/// Counts of open runs by state.
#[derive(Default)]
struct Unfinished {
    open: usize,
    in_doubt: usize,
    waiting: usize,
    set_aside: Vec<RunLine>,
}

impl Unfinished {
    fn count(&mut self, line: &RunLine) {
        self.in_doubt += line.waiting.iter().filter(|waiting| waiting.id.is_none()).count();
        match line.standing {
            Standing::Open => self.open += 1,
            Standing::Waiting if line.waiting.iter().any(|waiting| waiting.id.is_some()) => self.waiting += 1,
            Standing::Checkpointed => self.set_aside.push(line.clone()),
            Standing::Waiting | Standing::Running | Standing::Closed | Standing::Quarantined => {}
        }
    }

    fn add(&self, report: &mut Report) {
        if self.open > 0 {
            let what = format!("{} open", runs_text(self.open, "is", "are"));
            report.warn("open", what, "`ostler ps` lists them, `ostler resume` continues them");
        }
        if self.waiting > 0 {
            let what = format!("{} for a person", runs_text(self.waiting, "waits", "wait"));
            report.warn("waiting", what, "`ostler approvals` lists the requests");
        }
        if self.in_doubt > 0 {
            let what =
                format!("{} whose effect is unknown", plural(self.in_doubt, "attempt"));
            report.warn("in doubt", what, "`ostler ps` lists the commands that resolve them");
        }
        for RunLine { run, plan, reason, .. } in self.set_aside.iter().take(PROBLEMS_SHOWN_MAX) {
            let what = format!("run {run} ({plan}): {}", reason.as_deref().unwrap_or_default());
            report.warn("suspended", what, &format!("`{}` resumes it", hints::resume(run)));
        }
        let more = self.set_aside.len().saturating_sub(PROBLEMS_SHOWN_MAX);
        if more > 0 {
            let advice = "`ostler ps --state checkpointed` lists them";
            report.warn("suspended", plural(more, "more run"), advice);
        }
    }
}

fn runs_text(many: usize, one: &str, more: &str) -> String {
    format!("{} {}", plural(many, "run"), if many == 1 { one } else { more })
}

/// Recomputes every run from its records, and reads every result: each record must be legal, each digest
/// correct.
pub(crate) async fn check_runs(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    if session.client.is_remote() {
        let health: Health = session.get("/healthz").await?;
        let what = format!(
            "process {} answers: version {}, executes {}",
            health.pid,
            health.version,
            plural(health.active, "run")
        );
        report.pass("control.sock", what);
    }
    let (mut steps, mut count, mut artifacts, mut size) = (0_u64, 0, 0_u64, 0_u64);
    let mut unfinished = Unfinished::default();
    let mut problems: Vec<(&str, String)> = Vec::new();
    let mut short: BTreeMap<String, (ClientLine, usize)> = BTreeMap::new();
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
            if line.standing == Standing::Quarantined {
                let what = format!("run {}: {}", line.run, line.reason.unwrap_or_default());
                report.warn("quarantined", what, damage::QUARANTINED);
                continue;
            }
            count += 1;
            let path = format!("/v1/runs/{}", path_segment(&line.run));
            match session.get::<Summary>(&path).await {
                Ok(summary) => {
                    // A run that could not be read before, and now can be, counts as open.
                    unfinished.count(&line);
                    steps += summary.seq;
                    if let Some(line) = report::short(&session.client, &summary).await {
                        short.entry(line.client.clone()).or_insert((line, 0)).1 += 1;
                    }
                }
                Err(refused) => {
                    problems.push(("steps", Failure::from(refused).what));
                    continue;
                }
            }
            match session.get::<ResultsRead>(&format!("{path}/results")).await {
                Ok(results) => {
                    artifacts += results.read;
                    size += results.bytes;
                    let told = results.damaged.into_iter();
                    problems.extend(told.map(|DamagedResult { node, what }| {
                        ("artifacts", format!("run {} node {node}: {what}", line.run))
                    }));
                }
                Err(refused) => {
                    let what = Failure::from(refused).what;
                    problems.push(("artifacts", format!("run {}: {what}", line.run)));
                }
            }
        }
        next = list.next;
        if next.is_none() {
            break;
        }
    }
    for (name, what) in problems.iter().take(PROBLEMS_SHOWN_MAX) {
        report.fail(name, what, RESTORE);
    }
    if problems.len() > PROBLEMS_SHOWN_MAX {
        report.fail("more", format!("{} more of these", problems.len() - PROBLEMS_SHOWN_MAX), RESTORE);
    }
    if !problems.iter().any(|(name, _)| *name == "steps") {
        report.pass(
            "runs",
            format!("{count} with {steps} records, all legal"),
        );
    }
    if !problems.iter().any(|(name, _)| *name == "artifacts") {
        report.pass("results", format!("{artifacts} of {}, all digests correct", bytes(size)));
    }
    unfinished.add(report);
    for (whose, (line, runs)) in short.iter().take(PROBLEMS_SHOWN_MAX) {
        let what = format!("{} for credits of client {whose}", runs_text(*runs, "waits", "wait"));
        let credit = hints::deposit(whose, credits::deposit(line.left));
        let advice = format!("`{credit}`, then `ostler resume`");
        report.warn("credits", what, &advice);
    }
    Ok(())
}
