//! `ostler audit`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use ostler_kernel::event::{GateAnswer, GateVerdict, verify_verdicts};
use ostler_kernel::id::Digest;
use ostler_server::wire::{EventLine, RunList, Summary};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::labels::{self, short_id};
use crate::cli::output::live::View;
use crate::cli::output::terminal::{Out, Style, reader_gone};
use crate::cli::output::units::{clock_time, plural};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::follow::{Display, stream_events};
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The run: its id, a part of it, or @last [default: all]
    #[arg(value_parser = run_name)]
    run: Option<String>,
    /// Continue with the verdicts to come
    #[arg(short, long, conflicts_with = "verify")]
    follow: bool,
    /// Check the hash chains: no verdict was changed or inserted, none removed before the last
    #[arg(long)]
    verify: bool,
}

/// Time between two requests for the list of runs.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// The verdicts of one run.
#[derive(Default)]
struct Verdicts {
    run: String,
    /// Verdicts to check; empty unless `verifies` is set.
    kept: Vec<GateVerdict>,
    /// Records of verdicts that this program cannot read.
    unreadable: usize,
    verifies: bool,
    json: bool,
    /// The run that this one continues as a fork.
    forked_from: Option<String>,
    /// Verdicts of a fork to show once those of the other run are known.
    waiting: Vec<EventLine>,
    /// Hashes of the verdicts of the other run.
    inherited: Option<BTreeSet<Digest>>,
}

impl View for Verdicts {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        if line.kind == "approval_carried" && !self.verifies {
            self.carried(line, out);
        }
        if line.kind == "forked" {
            self.forked_from = line.body["from"].as_str().map(str::to_owned);
        }
        if line.kind != "gate_verdict" {
            return;
        }
        if self.forked_from.is_some() && self.inherited.is_none() && !self.verifies {
            self.waiting.push(line.clone());
            return;
        }
        let Ok(verdict) = serde_json::from_value::<GateVerdict>(line.body.clone()) else {
            self.unreadable += 1;
            return;
        };
        if self.verifies {
            self.kept.push(verdict);
            return;
        }
        let is_inherited = self.inherited.as_ref().is_some_and(|hashes| hashes.contains(&verdict.hash));
        let from = self.forked_from.as_deref().filter(|_| is_inherited);
        if self.json {
            let mut shown = json!({
                "type": "verdict", "run": self.run, "seq": line.seq, "at_ms": line.at_ms, "verdict": line.body,
            });
            if let Some(from) = from {
                shown["inherited_from"] = json!(from);
            }
            out.json(&shown);
        } else {
            let from = from.map_or(String::new(), |from| format!("  inherited from run {}", short_id(from)));
            out.line(described(&self.run, line.at_ms, &verdict, out) + &from);
        }
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

/// The hashes of a run's verdicts.
#[derive(Default)]
struct Hashes(BTreeSet<Digest>);

impl View for Hashes {
    fn record(&mut self, line: &EventLine, _: &mut Out) {
        if line.kind == "gate_verdict"
            && let Ok(verdict) = serde_json::from_value::<GateVerdict>(line.body.clone())
        {
            self.0.insert(verdict.hash);
        }
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

impl Verdicts {
    /// An approval of the repeated run that answered a question.
    fn carried(&self, line: &EventLine, out: &mut Out) {
        if self.json {
            out.json(&json!({
                "type": "approval_carried", "run": self.run, "seq": line.seq, "at_ms": line.at_ms, "approval": line.body,
            }));
            return;
        }
        let node = fit_name(line.body["node"].as_str().unwrap_or_default(), out.name_width(NAME_COLUMNS));
        let approved = harmless_line(&labels::carried(&line.body));
        out.line(format!(
            "{}  {}  {node:<NAME_COLUMNS$}  {approved}",
            clock_time(line.at_ms),
            short_id(&self.run),
        ));
    }
}

/// Width of the columns of nodes and tools, in terminal cells.
const NAME_COLUMNS: usize = 16;

fn described(run: &str, at_ms: i64, verdict: &GateVerdict, out: &Out) -> String {
    let GateVerdict { node, tool, answer, code, scope, intent, measured, .. } = verdict;
    let style = match answer {
        GateAnswer::Allow => Style::Success,
        GateAnswer::Deny | GateAnswer::Hold => Style::Bold,
    };
    let impact = measured.map_or("-".to_owned(), |(impact, _)| impact.to_string());
    let tainted = match verdict.tainted.is_empty() {
        true => String::new(),
        false => format!("  tainted {}", harmless_line(&verdict.tainted.join(", "))),
    };
    format!(
        "{}  {}  {:<NAME_COLUMNS$}  {:<NAME_COLUMNS$}  {}  {code}  impact {impact}  intent {intent}  scope {}{tainted}",
        clock_time(at_ms),
        short_id(run),
        fit_name(node.as_str(), out.name_width(NAME_COLUMNS)),
        fit_name(tool, out.name_width(NAME_COLUMNS)),
        out.styled(style, &format!("{:<5}", answer.as_str())),
        harmless_line(scope),
    )
}

pub(crate) async fn audit(globals: &Globals, args: AuditArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    if has_no_data_folder("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    if args.follow && args.run.is_none() {
        return follow_all(session, globals, &mut out).await;
    }
    let shown = match &args.run {
        Some(run) => tokio::select! {
            shown = one(&mut session, globals, &args, run, &mut out) => shown,
            () = reader_gone(), if args.follow => Ok(code::SUCCEEDED),
        },
        None => all(&mut session, globals, &args, &mut out).await,
    };
    session.stop().await;
    shown
}

async fn one(
    session: &mut Session,
    globals: &Globals,
    args: &AuditArgs,
    run: &str,
    out: &mut Out,
) -> Result<u8, Failure> {
    let summary: Summary = session.get(&format!("/v1/runs/{}", path_segment(run))).await?;
    let mut verdicts =
        Verdicts { run: summary.run, verifies: args.verify, json: globals.json, ..Verdicts::default() };
    let mut after = 0;
    show(session, &mut verdicts, &mut after, "now", out).await?;
    if args.follow && session.client.is_remote() {
        show(session, &mut verdicts, &mut after, "closed", out).await?;
    }
    if args.verify { report(&[verdicts], globals.json, out) } else { Ok(code::SUCCEEDED) }
}

async fn all(
    session: &mut Session,
    globals: &Globals,
    args: &AuditArgs,
    out: &mut Out,
) -> Result<u8, Failure> {
    let mut checked = Vec::new();
    for run in runs(session).await? {
        let mut verdicts = Verdicts { run, verifies: args.verify, json: globals.json, ..Verdicts::default() };
        show(session, &mut verdicts, &mut 0, "now", out).await?;
        checked.extend(args.verify.then_some(verdicts));
    }
    if args.verify { report(&checked, globals.json, out) } else { Ok(code::SUCCEEDED) }
}

/// Prints new verdicts of all runs until the command is ended, or its reader has gone. Holds the data folder only while it reads.
async fn follow_all(mut session: Session, globals: &Globals, out: &mut Out) -> Result<u8, Failure> {
    let mut shown = BTreeMap::new();
    loop {
        let stamp = session.journal_stamp();
        let is_remote = session.client.is_remote();
        match show_new(&mut session, globals, &mut shown, out).await {
            // The other process may be about to end; the next one has its verdicts.
            Ok(()) | Err(ApiError::ConnectionLost(_) | ApiError::NotSent(_)) if is_remote => {
                tokio::time::sleep(LIST_INTERVAL).await;
            }
            Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        if out.is_closed() {
            session.stop().await;
            return Ok(code::SUCCEEDED);
        }
        if !is_remote || !session.is_held().await {
            match session.wait_for_work(stamp, out).await? {
                Some(again) => session = again,
                None => return Ok(code::SUCCEEDED),
            }
        }
    }
}

/// Prints the verdicts that are not among the `shown` records, by run.
async fn show_new(
    session: &mut Session,
    globals: &Globals,
    shown: &mut BTreeMap<String, u64>,
    out: &mut Out,
) -> Result<(), ApiError> {
    for run in runs(session).await? {
        let after = shown.entry(run.clone()).or_insert(0);
        let mut verdicts = Verdicts { run, json: globals.json, ..Verdicts::default() };
        show(session, &mut verdicts, after, "now", out).await?;
    }
    Ok(())
}

/// All runs, the oldest first.
async fn runs(session: &mut Session) -> Result<Vec<String>, ApiError> {
    let (mut runs, mut after) = (Vec::new(), String::new());
    loop {
        let list: RunList = session.get(&format!("/v1/runs?limit=1000{after}")).await?;
        runs.extend(list.runs.into_iter().map(|line| line.run));
        match list.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    runs.reverse();
    Ok(runs)
}

async fn show(
    session: &Session,
    verdicts: &mut Verdicts,
    after: &mut u64,
    until: &str,
    out: &mut Out,
) -> Result<(), ApiError> {
    let path = format!("/v1/runs/{}", verdicts.run);
    read(session, &path, verdicts, (after, until), out).await?;
    let Some(from) = verdicts.forked_from.clone().filter(|_| verdicts.inherited.is_none()) else {
        return Ok(());
    };
    // Of a run that is gone, nobody can say what was inherited.
    let mut hashes = Hashes::default();
    match read(session, &format!("/v1/runs/{from}"), &mut hashes, (&mut 0, "now"), out).await {
        Ok(()) | Err(ApiError::Problem(_)) => {}
        Err(error) => return Err(error),
    }
    verdicts.inherited = Some(hashes.0);
    for line in std::mem::take(&mut verdicts.waiting) {
        verdicts.record(&line, out);
    }
    Ok(())
}

async fn read(
    session: &Session,
    path: &str,
    view: &mut (dyn View + Send),
    (after, until): (&mut u64, &str),
    out: &mut Out,
) -> Result<(), ApiError> {
    let mut display = Display { view, prompt: None, output: None, text: None, out };
    stream_events(&session.client, path, after, until, &mut display).await
}

/// Reports the chains; a broken one is an error.
fn report(checked: &[Verdicts], json: bool, out: &mut Out) -> Result<u8, Failure> {
    let (mut total, mut broken) = (0, 0);
    for Verdicts { run, kept, unreadable, .. } in checked {
        if *unreadable > 0 {
            broken += 1;
            if json {
                out.json(&json!({"type": "unreadable", "run": run, "verdicts": unreadable}));
            } else {
                out.line(format!("run {run}: {} cannot be read", plural(*unreadable, "verdict")));
            }
            continue;
        }
        match verify_verdicts(kept) {
            Ok(count) => total += count,
            Err(place) => {
                broken += 1;
                let node = kept[place].node.as_str();
                if json {
                    out.json(&json!({"type": "broken", "run": run, "verdict": place + 1, "node": node}));
                } else {
                    out.line(format!(
                        "run {run}: verdict {} (node {}) does not follow from those before it",
                        place + 1,
                        harmless_line(node)
                    ));
                }
            }
        }
    }
    if json {
        out.json(&json!({"type": "verified", "runs": checked.len(), "verdicts": total, "broken": broken}));
    } else {
        let runs = plural(checked.len(), "run");
        out.line(format!("{} of {runs} verified, {broken} broken", plural(total, "verdict")));
    }
    Ok(if broken == 0 { code::SUCCEEDED } else { code::STORE })
}
