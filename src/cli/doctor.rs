//! `ostler doctor`: is everything as it should be, and what is missing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use ostler::config::Config;
use ostler_drivers::tool::{Sandbox, builtin, sandbox, writable};
use ostler_server::wire::{
    ClientLine, DamagedResult, Health, ResultsRead, RunLine, RunList, Standing, Summary,
};
use ostler_store::{OpenError, Store};
use serde_json::json;

use super::advice::{self, placed};
use super::cells::wrapped;
use super::client::part;
use super::exit::{Failure, code};
use super::session::{Session, Want, is_there, settings};
use super::term::{Out, Paint, bytes, count, span_written};
use super::{Globals, clients, pipelines};

mod damage;
mod market;

/// Writes of the probe.
const PROBES: usize = 32;

/// Bytes of each.
const PROBE_BYTES: usize = 4_096;

/// A sync faster than this was not one: no disk that survives a loss of power is.
const SYNC_PLAUSIBLE: Duration = Duration::from_micros(15);

/// Columns before what was found, and those that it has at least.
const BEFORE_DETAIL: usize = 17;
const DETAIL_MIN: usize = 20;

/// What is told of each kind of trouble before it is only counted.
const TROUBLES_TOLD_MAX: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Set aside the runs that something damaged belongs to, and nothing else; what is left of them is kept
    #[arg(long)]
    repair: bool,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    /// Nothing is broken, but somebody should know.
    Note,
    Bad,
}

/// What to do about something, told below it.
type Mend<'a> = Option<&'a str>;

struct Report {
    out: Out,
    json: bool,
    noted: usize,
    broken: usize,
}

impl Report {
    fn good(&mut self, name: &str, detail: impl AsRef<str>) {
        self.tell(Verdict::Good, name, detail.as_ref(), None);
    }

    fn note(&mut self, name: &str, detail: impl AsRef<str>, mend: &str) {
        self.tell(Verdict::Note, name, detail.as_ref(), Some(mend));
    }

    fn bad(&mut self, name: &str, detail: impl AsRef<str>, mend: &str) {
        self.tell(Verdict::Bad, name, detail.as_ref(), Some(mend));
    }

    fn tell(&mut self, verdict: Verdict, name: &str, detail: &str, mend: Mend<'_>) {
        let (detail, mend) = (placed(detail), mend.map(placed));
        let (word, sign) = match verdict {
            Verdict::Good => ("good", self.out.paint(Paint::Good, "✔")),
            Verdict::Note => ("note", self.out.paint(Paint::Care, "!")),
            Verdict::Bad => ("bad", self.out.paint(Paint::Bad, "✘")),
        };
        self.noted += usize::from(verdict == Verdict::Note);
        self.broken += usize::from(verdict == Verdict::Bad);
        if self.json {
            let told = json!({"type": "check", "name": name, "health": word, "detail": detail, "mend": mend});
            self.out.json(&told);
            return;
        }
        let room = self.room();
        let mut lines = detail.lines().flat_map(|line| wrapped(line, room, room, usize::MAX));
        self.out.line(format!("{sign} {name:<14} {}", lines.next().unwrap_or_default()));
        lines.for_each(|line| self.out.line(format!("{:BEFORE_DETAIL$}{line}", "")));
        if let Some(mend) = mend {
            self.out.line(format!("  {:<14} → {mend}", ""));
        }
    }

    /// Columns for a detail: of a terminal, those that are left of it.
    fn room(&self) -> usize {
        if self.out.is_terminal() {
            self.out.size().0.saturating_sub(BEFORE_DETAIL).max(DETAIL_MIN)
        } else {
            usize::MAX
        }
    }

    /// The last line, and the exit code.
    fn end(mut self) -> u8 {
        if !self.json {
            let told = match (self.broken, self.noted) {
                (0, 0) => "nothing is broken".to_owned(),
                (0, _) => "nothing is broken; what is marked with ! you should know".to_owned(),
                (1, _) => "one thing is broken".to_owned(),
                (broken, _) => format!("{broken} things are broken"),
            };
            self.out.line(told);
        }
        if self.broken > 0 { code::STORE } else { code::SUCCEEDED }
    }
}

pub(crate) async fn doctor(globals: &Globals, args: DoctorArgs) -> Result<u8, Failure> {
    let mut report = Report { out: Out::new(), json: globals.json, noted: 0, broken: 0 };
    let (config, data) = settings(globals, Path::new("."))?;
    configuration(globals, &config, data.as_deref(), &mut report);
    programs(&config, data.as_deref(), &mut report);
    let Some(data) = data else {
        report.note("data folder", "none: runs are kept in memory, and end with the command", IN_MEMORY);
        return Ok(report.end());
    };
    let place = data.display();
    if is_there(&data)? {
        report.good("data folder", format!("{place}, {}", held(folder_bytes(&data))));
        probe(&data, &mut report);
        store(globals, &data, args.repair, &mut report).await?;
    } else if let Err(error) = Store::check_place(&data) {
        let mend = match error {
            OpenError::LeadsNowhere { .. } => "make that folder, or name another with --data, or OSTLER_DATA",
            _ => "name another with --data, or OSTLER_DATA",
        };
        report.bad("data folder", error.to_string(), mend);
    } else {
        report.good("data folder", format!("no data folder at {place} yet: the first run makes it"));
        probe(&data, &mut report);
    }
    Ok(report.end())
}

const IN_MEMORY: &str = "to keep them, take url = \"memory:\" out of [store] of the configuration";

/// What a folder holds, for people.
/// What the blocks of a file are counted in, whatever the disk has (`st_blocks`).
const BLOCK_BYTES: u64 = 512;

fn held((files, size): (u64, u64)) -> String {
    format!("{} in {files} files", bytes(size))
}

/// Files of a folder and of the folders in it, and the bytes that they take on the disk. What cannot be read counts for nothing.
fn folder_bytes(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) if about.is_file() => sum = (sum.0 + 1, sum.1 + about.blocks() * BLOCK_BYTES),
                _ => {}
            }
        }
    }
    sum
}

fn configuration(globals: &Globals, config: &Config, data: Option<&Path>, report: &mut Report) {
    let folder = data.unwrap_or(Path::new(ostler::DATA_FOLDER));
    match Config::find(globals.config.as_deref(), folder, Path::new(".")) {
        Some(path) => report.good("configuration", format!("{} is read", path.display())),
        None => {
            let folder = folder.display();
            report.good("configuration", format!("no ostler.toml in {folder} or here: the defaults hold"));
        }
    }
    let tools = builtin(&config.tools, None);
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    report.good("tools", names.join(", "));
    let gate = config.gate(&tools);
    for (name, scope) in &gate.scopes {
        let unknown: Vec<&str> =
            scope.tools.keys().map(String::as_str).filter(|tool| !names.contains(tool)).collect();
        let what = format!("{name} may call {} tools", scope.tools.len() - unknown.len());
        if unknown.is_empty() {
            report.good("scope", what);
        } else {
            let mend =
                format!("mend or remove {} in [scopes.{name}] of the configuration", unknown.join(", "));
            report.note("scope", format!("{what}; it names others that are not there"), &mend);
        }
    }
    if config.tools.http.egress_allow == Default::default() {
        report.note("network", "http.request reaches nothing", OPEN_NETWORK);
    } else {
        report.good("network", "http.request reaches what [tools.http] egress_allow lists");
    }
    if data.is_some() {
        report.good("retention", kept(config));
    }
}

/// How long runs are kept.
fn kept(config: &Config) -> String {
    match config.retention.keep {
        Some(keep) => format!(
            "runs are removed {} after they are over, as a command opens the data folder to run something",
            span_written(keep)
        ),
        None => "runs are kept for ever".to_owned(),
    }
}

const OPEN_NETWORK: &str =
    "if plans need it: egress_allow = [\"HOST:PORT\"] in [tools.http] of the configuration";

/// Programs that plans often call.
const PROGRAMS: [&str; 1] = ["git"];

fn programs(config: &Config, data: Option<&Path>, report: &mut Report) {
    if !config.tools.shell.enabled {
        report.note("shell.run", "is switched off", "to switch it on: enabled = true in [tools.shell]");
        return;
    }
    confinement(config, data, report);
    let path = std::env::var_os("PATH").unwrap_or_default();
    for program in PROGRAMS {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
        match found {
            Some(file) => report.good(program, file.display().to_string()),
            None => {
                report.note(program, "is not there: nodes that call it fail", "install it, or mend the PATH")
            }
        }
    }
}

/// What keeps the programs of steps from changing what they should not.
fn confinement(config: &Config, data: Option<&Path>, report: &mut Report) {
    match (config.tools.shell.sandbox, sandbox()) {
        (true, Sandbox::Full) => report.good("sandbox", CONFINED),
        (false, _) => {
            let what = format!("is switched off: {UNCONFINED}");
            report.note("sandbox", what, "to switch it on, take sandbox = false out of [tools.shell]");
        }
        (true, Sandbox::Partial) => report.note(
            "sandbox",
            format!("works in part: {CONFINED}; {OLD_LANDLOCK}"),
            "use Linux 6.12 or later",
        ),
        (true, Sandbox::None) => {
            report.note("sandbox", format!("this system has none: {UNCONFINED}"), NO_LANDLOCK);
        }
    }
    let is_confined = config.tools.shell.sandbox && sandbox() != Sandbox::None;
    let Some(data) = data.map(resolved).filter(|_| is_confined) else { return };
    let around = writable(Path::new("."), &config.tools.shell.write);
    if let Some(folder) = around.into_iter().map(|folder| resolved(&folder)).find(|it| data.starts_with(it)) {
        let what = format!(
            "the data folder lies in {}, where programs may write: one that may act can change what is recorded of runs",
            folder.display()
        );
        report.note("records", what, "to rule that out, keep it elsewhere: --data DIR, or OSTLER_DATA");
    }
}

const CONFINED: &str = "programs that steps start change files only in the workspace, in the folder for temporary files and in what \
                        [tools.shell] write names; those that only look change none; modes, owners, times and attributes \
                        of files that are yours are not confined";

const UNCONFINED: &str = "programs that steps start can change whatever you can change, in the workspace or not, the records of runs too";

const OLD_LANDLOCK: &str = "but this Linux is old: those that only look can still use the network and signal others, and before Linux 6.2 \
                            any can empty files elsewhere";

const NO_LANDLOCK: &str = "use Linux 6.12 or later with Landlock switched on (`lsm=` of its command line), or run plans as a user, or in \
                           a container, that can reach only what they may change";

/// A path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|part| {
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        part.canonicalize().ok().map(|real| (real, part))
    });
    let Some((real, part)) = found else { return path.to_owned() };
    let missing = path.strip_prefix(part).unwrap_or(Path::new(""));
    if missing.as_os_str().is_empty() { real } else { real.join(missing) }
}

/// Measures what a durable write costs where the journal is.
fn probe(data: &Path, report: &mut Report) {
    let mut folder: PathBuf = data.to_owned();
    while !folder.is_dir() {
        match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => folder = parent.to_owned(),
            _ => folder = PathBuf::from("."),
        }
    }
    let file = folder.join(format!(".ostler-probe-{}", std::process::id()));
    let measured = measure(&file);
    let _ = fs::remove_file(&file);
    match measured {
        Ok(mut spans) => {
            spans.sort_unstable();
            let (median, worst) = (spans[spans.len() / 2], spans[spans.len() - 1]);
            let told = format!(
                "a write is safe after {:.2} ms, at worst {:.2} ms: about {:.0} steps a second one at a time, more together",
                median.as_secs_f64() * 1e3,
                worst.as_secs_f64() * 1e3,
                1.0 / median.as_secs_f64().max(1e-9)
            );
            if median < SYNC_PLAUSIBLE {
                report.note("disk", format!("{told}; too fast to be true"), MEMORY_DISK);
            } else {
                report.good("disk", told);
            }
        }
        Err(error) => {
            let what = format!("cannot write in {}: {error}", folder.display());
            report.bad("disk", what, "make room, change the rights, or name another folder with --data");
        }
    }
}

const MEMORY_DISK: &str = "if runs must survive a loss of power, name a folder on a real disk with --data";

fn measure(path: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let block = [0x5a_u8; PROBE_BYTES];
    (0..PROBES)
        .map(|_| {
            let begun = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            Ok(begun.elapsed())
        })
        .collect()
}

const RESTORE: &str =
    "change nothing in the folder; put a backup in its place, or keep it and begin another with --data";

const NOT_LOOKED_AT: &str =
    "may only be read: its runs are not gone through, nor is it known whether the end of the journal is gone";

const COPY: &str = "copy it to where you may write, and name that with --data";

async fn store(globals: &Globals, data: &Path, repairs: bool, report: &mut Report) -> Result<(), Failure> {
    let examined = if repairs { Store::repair(data) } else { Store::examine(data) };
    match examined {
        Ok(found) => {
            damage::tell(&found, repairs, report);
            if !repairs && !found.is_sound() {
                return Ok(());
            }
            if found.read_only {
                report.note("runs", format!("{} {NOT_LOOKED_AT}", data.display()), COPY);
                return Ok(());
            }
        }
        Err(OpenError::Held { pid, .. }) => {
            let who = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            if repairs {
                return Err(Failure::store(format!("held by {who}: nothing is repaired until it has ended")));
            }
            let what = format!("held by {who}: its checksums and its index are not looked at");
            report.note("journal", what, "to verify them too, ask again when that process has ended");
        }
        Err(error @ OpenError::NewerFormat { .. }) => {
            report.bad("journal", error.to_string(), "nothing of it is damaged: use that one");
            return Ok(());
        }
        Err(error @ OpenError::ReadOnly { .. }) => {
            report.bad("journal", format!("{error}: nothing is repaired"), COPY);
            return Ok(());
        }
        Err(error) => {
            report.bad("journal", error.to_string(), RESTORE);
            return Ok(());
        }
    }
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let mut looked = runs(&mut session, report).await;
    if looked.is_ok() {
        looked = pipelines(&mut session, report).await;
    }
    if looked.is_ok() {
        looked = market::look(&mut session, report).await;
    }
    session.stop().await;
    looked
}

/// Folds every pipeline, and tells what was too much for its stages, and what they missed.
async fn pipelines(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    let lines = match pipelines::lines(session, None).await {
        Ok(lines) if lines.is_empty() => return Ok(()),
        Ok(lines) => lines,
        Err(failure) => {
            report.bad("pipelines", failure.what, RESTORE);
            return Ok(());
        }
    };
    let events: u64 = lines.iter().map(|line| line.head).sum();
    let events = count(events as usize, "event");
    report.good("pipelines", format!("{} with {events}, each in its place", lines.len()));
    for line in &lines {
        for stage in &line.stages {
            let name = format!("stage {} of pipeline {}", stage.stage, line.pipeline);
            if stage.missed > 0 {
                let missed = count(stage.missed as usize, "event");
                let what = format!("{name} missed {missed}, gone before it came there");
                report.note(
                    "missed",
                    what,
                    "to keep more of them, raise `keep` of the next pipeline of this kind",
                );
            }
            if let Some(first) = pipelines::troubles(&line.pipeline, stage).first() {
                let what = format!("{name}: {first}; {} parked in all", stage.parked_total);
                let of = [line.pipeline.as_str(), &stage.stage];
                let mend = match stage.state.as_str() {
                    "stopped" | "down" => {
                        format!("to let it go on: `{}`", advice::command("pipeline release", &of, ""))
                    }
                    _ => format!(
                        "when it is mended: `{}`",
                        advice::command("pipeline catch-up", &of, "--from SEQ")
                    ),
                };
                report.note("parked", what, &mend);
            }
        }
    }
    Ok(())
}

/// Runs that are not over, by how they stand.
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

    fn tell(&self, report: &mut Report) {
        if self.open > 0 {
            let what = format!("{} open", runs_that(self.open, "is", "are"));
            report.note("open", what, "`ostler ps` lists them, `ostler resume` goes on");
        }
        if self.waiting > 0 {
            let what = format!("{} for a person", runs_that(self.waiting, "waits", "wait"));
            report.note("waiting", what, "`ostler approvals` shows for what");
        }
        if self.in_doubt > 0 {
            let what =
                format!("{} of which nobody knows whether it took effect", count(self.in_doubt, "attempt"));
            report.note("in doubt", what, "`ostler ps` lists the commands that settle that");
        }
        for RunLine { run, plan, reason, .. } in self.set_aside.iter().take(TROUBLES_TOLD_MAX) {
            let what = format!("run {run} ({plan}): {}", reason.as_deref().unwrap_or_default());
            report.note("set aside", what, &format!("`{}` goes on with it", advice::resume(run)));
        }
        let more = self.set_aside.len().saturating_sub(TROUBLES_TOLD_MAX);
        if more > 0 {
            let mend = "`ostler ps --state checkpointed` lists them";
            report.note("set aside", count(more, "more run"), mend);
        }
    }
}

/// So many runs, and what they do.
fn runs_that(many: usize, one: &str, more: &str) -> String {
    format!("{} {}", count(many, "run"), if many == 1 { one } else { more })
}

/// Folds every run, and reads every result: each step must be legal, each digest right.
async fn runs(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    if session.client.is_remote() {
        let health: Health = session.get("/healthz").await?;
        let what = format!(
            "process {} answers, version {}, drives {}",
            health.pid,
            health.version,
            count(health.active, "run")
        );
        report.good("control.sock", what);
    }
    let (mut steps, mut count, mut artifacts, mut size) = (0_u64, 0, 0_u64, 0_u64);
    let mut unfinished = Unfinished::default();
    let mut troubles: Vec<(&str, String)> = Vec::new();
    let mut short: BTreeMap<String, (ClientLine, usize)> = BTreeMap::new();
    let mut next: Option<String> = None;
    loop {
        let after = next.map(|cursor| format!("?after={cursor}")).unwrap_or_default();
        let list: RunList = match session.get(&format!("/v1/runs{after}")).await {
            Ok(list) => list,
            Err(refused) => {
                report.bad("runs", Failure::from(refused).what, RESTORE);
                return Ok(());
            }
        };
        for line in list.runs {
            if line.standing == Standing::Quarantined {
                let what = format!("run {}: {}", line.run, line.reason.unwrap_or_default());
                report.note("quarantined", what, damage::QUARANTINED);
                continue;
            }
            count += 1;
            let path = format!("/v1/runs/{}", part(&line.run));
            match session.get::<Summary>(&path).await {
                Ok(summary) => {
                    // One that was set aside as it could not be read goes on now that it can.
                    unfinished.count(&line);
                    steps += summary.seq;
                    if let Some(line) = clients::short(&session.client, &summary).await {
                        short.entry(line.client.clone()).or_insert((line, 0)).1 += 1;
                    }
                }
                Err(refused) => {
                    troubles.push(("steps", Failure::from(refused).what));
                    continue;
                }
            }
            match session.get::<ResultsRead>(&format!("{path}/results")).await {
                Ok(results) => {
                    artifacts += results.read;
                    size += results.bytes;
                    let told = results.damaged.into_iter();
                    troubles.extend(told.map(|DamagedResult { node, what }| {
                        ("artifacts", format!("run {} node {node}: {what}", line.run))
                    }));
                }
                Err(refused) => {
                    let what = Failure::from(refused).what;
                    troubles.push(("artifacts", format!("run {}: {what}", line.run)));
                }
            }
        }
        next = list.next;
        if next.is_none() {
            break;
        }
    }
    for (name, what) in troubles.iter().take(TROUBLES_TOLD_MAX) {
        report.bad(name, what, RESTORE);
    }
    if troubles.len() > TROUBLES_TOLD_MAX {
        report.bad("more", format!("{} more of these", troubles.len() - TROUBLES_TOLD_MAX), RESTORE);
    }
    if !troubles.iter().any(|(name, _)| *name == "steps") {
        report.good(
            "runs",
            format!("{count} with {steps} records, each of which follows from those before it"),
        );
    }
    if !troubles.iter().any(|(name, _)| *name == "artifacts") {
        report.good("results", format!("{artifacts} of {}: every digest is right", bytes(size)));
    }
    unfinished.tell(report);
    for (whose, (line, runs)) in short.iter().take(TROUBLES_TOLD_MAX) {
        let what = format!("{} for credits of client {whose}", runs_that(*runs, "waits", "wait"));
        let credit = advice::deposit(whose, clients::deposit(line.left));
        let mend = format!("`{credit}`, then `ostler resume`");
        report.note("credits", what, &mend);
    }
    Ok(())
}
