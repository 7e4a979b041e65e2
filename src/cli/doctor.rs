//! `ostler doctor`: is everything as it should be, and what is missing.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hyper::Method;
use ostler::config::Config;
use ostler_drivers::tool::{Sandbox, builtin, sandbox};
use ostler_server::wire::{GraphView, Health, RunList, Summary};
use ostler_store::{OpenError, Store};
use serde_json::json;

use super::Globals;
use super::client::{Client, part, whole};
use super::exit::{Failure, code};
use super::session::{Session, Want, settings};
use super::term::{Out, Paint, bytes};

/// Writes of the probe.
const PROBES: usize = 32;

/// Bytes of each.
const PROBE_BYTES: usize = 4_096;

/// A sync faster than this was not one: no disk that survives a loss of power is.
const SYNC_PLAUSIBLE: Duration = Duration::from_micros(15);

/// What is told of each kind of trouble before it is only counted.
const TROUBLES_TOLD_MAX: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    /// Nothing is broken, but somebody should know.
    Note,
    Bad,
}

struct Report {
    out: Out,
    json: bool,
    bad: bool,
}

impl Report {
    fn tell(&mut self, health: Verdict, name: &str, detail: impl AsRef<str>) {
        let detail = detail.as_ref();
        self.bad |= health == Verdict::Bad;
        if self.json {
            let word = match health {
                Verdict::Good => "good",
                Verdict::Note => "note",
                Verdict::Bad => "bad",
            };
            self.out.json(&json!({"type": "check", "name": name, "health": word, "detail": detail}));
            return;
        }
        let sign = match health {
            Verdict::Good => self.out.paint(Paint::Good, "✔"),
            Verdict::Note => self.out.paint(Paint::Care, "!"),
            Verdict::Bad => self.out.paint(Paint::Bad, "✘"),
        };
        self.out.line(format!("{sign} {name:<14} {detail}"));
    }
}

pub(crate) async fn doctor(globals: &Globals, _args: DoctorArgs) -> Result<u8, Failure> {
    let mut report = Report { out: Out::new(), json: globals.json, bad: false };
    let (config, data) = settings(globals, Path::new("."))?;
    configuration(globals, &config, data.as_deref(), &mut report);
    programs(&config, &mut report);
    let Some(data) = data else {
        report.tell(Verdict::Note, "store", "memory: nothing is kept");
        return Ok(code::SUCCEEDED);
    };
    probe(&data, &mut report);
    if data.join("journal").is_dir() {
        store(globals, &data, &mut report).await?;
    } else {
        report.tell(
            Verdict::Good,
            "store",
            format!("no data folder at {} yet: the first run makes it", data.display()),
        );
    }
    Ok(if report.bad { code::STORE } else { code::SUCCEEDED })
}

fn configuration(globals: &Globals, config: &Config, data: Option<&Path>, report: &mut Report) {
    let folder = data.unwrap_or(Path::new(ostler::DATA_FOLDER));
    match Config::find(globals.config.as_deref(), folder, Path::new(".")) {
        Some(path) => report.tell(Verdict::Good, "configuration", path.display().to_string()),
        None => report.tell(Verdict::Good, "configuration", "none: defaults"),
    }
    let tools = builtin(&config.tools);
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    report.tell(Verdict::Good, "tools", names.join(", "));
    let gate = config.gate(&tools);
    let scopes: Vec<String> =
        gate.scopes.iter().map(|(name, scope)| format!("{name} ({} tools)", scope.tools.len())).collect();
    report.tell(Verdict::Good, "scopes", scopes.join(", "));
    for (name, scope) in &gate.scopes {
        let unknown: Vec<&str> =
            scope.tools.keys().map(String::as_str).filter(|tool| !names.contains(tool)).collect();
        if !unknown.is_empty() {
            let what = format!("scope {name} names tools that are not there: {}", unknown.join(", "));
            report.tell(Verdict::Note, "scopes", what);
        }
    }
    if config.tools.http.egress_allow == Default::default() {
        report.tell(
            Verdict::Note,
            "egress",
            "closed: http.request reaches nothing ([tools.http] egress_allow)",
        );
    } else {
        report.tell(Verdict::Good, "egress", "open to what [tools.http] egress_allow lists");
    }
}

/// Programs that plans often call.
const PROGRAMS: [&str; 1] = ["git"];

fn programs(config: &Config, report: &mut Report) {
    if !config.tools.shell.enabled {
        report.tell(Verdict::Note, "shell.run", "switched off ([tools.shell] enabled)");
        return;
    }
    match (config.tools.shell.sandbox, sandbox()) {
        (false, _) => report.tell(Verdict::Note, "sandbox", "switched off ([tools.shell] sandbox)"),
        (true, Sandbox::Full) => {
            let what = "Landlock: programs write in the workspace and for a while, those of impact 0 nowhere";
            report.tell(Verdict::Good, "sandbox", what);
        }
        (true, Sandbox::Partial) => {
            let what =
                "in part: this kernel knows an old Landlock, which confines programs less than it should";
            report.tell(Verdict::Note, "sandbox", what);
        }
        (true, Sandbox::None) => {
            let what = "none: this kernel has no Landlock, so programs write wherever this user may";
            report.tell(Verdict::Note, "sandbox", what);
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for program in PROGRAMS {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
        match found {
            Some(file) => report.tell(Verdict::Good, program, file.display().to_string()),
            None => report.tell(Verdict::Note, program, "not on the PATH: plans that call it fail"),
        }
    }
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
                "median {:.2} ms, worst {:.2} ms: about {:.0} durable steps a second one at a time, more together",
                median.as_secs_f64() * 1e3,
                worst.as_secs_f64() * 1e3,
                1.0 / median.as_secs_f64().max(1e-9)
            );
            if median < SYNC_PLAUSIBLE {
                let what = format!(
                    "{told}; too fast to be true: this disk (a RAM disk?) does not survive a loss of power"
                );
                report.tell(Verdict::Note, "fsync", what);
            } else {
                report.tell(Verdict::Good, "fsync", told);
            }
        }
        Err(error) => {
            report.tell(Verdict::Bad, "fsync", format!("cannot write in {}: {error}", folder.display()));
        }
    }
}

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

async fn store(globals: &Globals, data: &Path, report: &mut Report) -> Result<(), Failure> {
    match Store::verify(data) {
        Ok(damages) => {
            for damage in damages.iter().take(TROUBLES_TOLD_MAX) {
                let health = if damage.torn { Verdict::Note } else { Verdict::Bad };
                report.tell(health, "journal", damage.to_string());
            }
            if damages.iter().any(|damage| !damage.torn) {
                return Ok(());
            }
            report.tell(Verdict::Good, "journal", "every record has the checksum it was written with");
        }
        Err(OpenError::Held { pid, .. }) => {
            let who = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            let what = format!("held by {who}: its checksums can be verified when nobody holds it");
            report.tell(Verdict::Note, "journal", what);
        }
        Err(error) => {
            report.tell(Verdict::Bad, "journal", error.to_string());
            return Ok(());
        }
    }
    let session = Session::open(globals, Path::new("."), Want::Look).await?;
    let looked = runs(&session.client, report).await;
    session.stop().await;
    looked
}

/// Folds every run, and reads every result: each step must be legal, each digest right.
async fn runs(client: &Client, report: &mut Report) -> Result<(), Failure> {
    if client.is_remote() {
        let health: Health = client.get("/healthz").await?;
        let what = format!(
            "process {} answers, version {}, drives {} runs",
            health.pid, health.version, health.active
        );
        report.tell(Verdict::Good, "control.sock", what);
    }
    let (mut steps, mut count, mut open, mut artifacts, mut size) = (0_u64, 0, 0, 0, 0_u64);
    let mut troubles: Vec<(&str, String)> = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let after = next.map(|cursor| format!("?after={cursor}")).unwrap_or_default();
        let list: RunList = match client.get(&format!("/v1/runs{after}")).await {
            Ok(list) => list,
            Err(refused) => {
                report.tell(Verdict::Bad, "runs", Failure::from(refused).what);
                return Ok(());
            }
        };
        for line in list.runs {
            count += 1;
            open += usize::from(line.closed_ms.is_none());
            let path = format!("/v1/runs/{}", part(&line.run));
            match client.get::<Summary>(&path).await {
                Ok(summary) => steps += summary.seq,
                Err(refused) => {
                    troubles.push(("steps", Failure::from(refused).what));
                    continue;
                }
            }
            let graph: GraphView = client.get(&format!("{path}/graph")).await?;
            for node in graph.nodes.iter().filter(|node| node.artifact.is_some()) {
                let place = format!("{path}/nodes/{}/artifact", part(&node.id));
                match client.ask(Method::GET, &place, "*/*", None).await {
                    Ok(response) => {
                        let digest = response.headers().get("etag").and_then(|tag| tag.to_str().ok());
                        let digest = digest.unwrap_or_default().trim_matches('"').to_owned();
                        artifacts += 1;
                        size += whole(response.into_body()).await?.len() as u64;
                        if Some(&digest) != node.artifact.as_ref() {
                            let what =
                                format!("run {} node {}: its bytes give digest {digest}", line.run, node.id);
                            troubles.push(("artifacts", what));
                        }
                    }
                    Err(refused) => {
                        let what = Failure::from(refused).what;
                        troubles.push(("artifacts", format!("run {} node {}: {what}", line.run, node.id)));
                    }
                }
            }
        }
        next = list.next;
        if next.is_none() {
            break;
        }
    }
    for (name, what) in troubles.iter().take(TROUBLES_TOLD_MAX) {
        report.tell(Verdict::Bad, name, what);
    }
    if troubles.len() > TROUBLES_TOLD_MAX {
        report.tell(Verdict::Bad, "more", format!("{} more", troubles.len() - TROUBLES_TOLD_MAX));
    }
    if !troubles.iter().any(|(name, _)| *name == "steps") {
        report.tell(
            Verdict::Good,
            "runs",
            format!("{count}, {open} open; each of {steps} records follows from those before it"),
        );
    }
    if !troubles.iter().any(|(name, _)| *name == "artifacts") {
        report.tell(
            Verdict::Good,
            "artifacts",
            format!("{artifacts} results, {}: every digest is right", bytes(size)),
        );
    }
    if open > 0 {
        report.tell(Verdict::Note, "open runs", "`ostler ps` lists them, `ostler resume` goes on");
    }
    Ok(())
}
