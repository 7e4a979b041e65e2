//! `shell.run`: starts a program. There is no shell: the arguments reach it as they are.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{ArgvClass, ArgvTable, CallClass, OBSERVING_ENVIRONMENT, Permit};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::port::{AttemptLog, BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking::{Stop, off_runtime};
use super::config::ShellConfig;
use super::data_folder::DataFolder;
use super::declare::{WORST, crash, exhausted, object, params, spec, structural, transient};
use super::git;
use super::process::{Finished, Folder, Group, OUTPUT_HEAD_BYTES, Program};
use super::progress::{PROGRESS, Pipe, RESUME_TOKEN};
use super::sandbox::Bounds;
use super::workspace::Workspace;

/// Arguments of a program, its name included.
pub const SHELL_ARGV_MAX: usize = 1_000;
/// Bytes given to a program's standard input.
pub const SHELL_STDIN_BYTES_MAX: usize = 16 << 20;
/// Bytes of standard error that a failure shows: the last ones.
pub const SHELL_FAILURE_BYTES: usize = 2 << 10;

/// Runs a program in a process group of its own, in a folder of the workspace, with a handful of environment
/// variables and nothing else of ours. When the program ends, or when the call is given up, whatever came of it
/// is killed. Where the kernel knows how, it may write only in the workspace, in the folder for temporary files,
/// and where the operator says; one that only looks may write nowhere. A status that `allow_status` (default: 0) does not name is a failure.
#[derive(Debug)]
pub(super) struct ShellRun {
    spec: ToolSpec,
    allow: ArgvTable,
    sandbox: bool,
    write: Vec<PathBuf>,
    data: Option<DataFolder>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    argv: Vec<String>,
    cwd: Option<String>,
    stdin: Option<String>,
    allow_status: Option<Vec<i32>>,
}

impl ShellRun {
    pub(super) fn new(config: &ShellConfig, data: Option<&DataFolder>) -> ShellRun {
        ShellRun {
            data: data.cloned(),
            allow: config.allow.clone(),
            sandbox: config.sandbox,
            write: config.write.clone(),
            spec: spec(
                "shell.run",
                "Run a program with arguments (no shell: no pipes, globs or variables) and give its output.",
                object(
                    &["argv"],
                    json!({
                        "argv": {
                            "type": "array",
                            "items": {"type": "string"},
                            "minItems": 1,
                            "maxItems": SHELL_ARGV_MAX,
                        },
                        "cwd": {"type": "string", "format": "path", "minLength": 1},
                        "stdin": {"type": "string", "maxLength": SHELL_STDIN_BYTES_MAX},
                        "allow_status": {
                            "type": "array",
                            "items": {"type": "integer", "minimum": 0, "maximum": 255},
                            "maxItems": 256,
                        },
                    }),
                ),
                object(
                    &["status", "stdout", "stderr"],
                    json!({
                        "status": {"type": "integer"},
                        "stdout": {"type": "string"},
                        "stderr": {"type": "string"},
                    }),
                ),
            ),
        }
    }
}

impl Tool for ShellRun {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        let argv = params.get("argv").and_then(Value::as_array);
        let argv = argv.and_then(|argv| argv.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let Some(argv) = argv else { return WORST };
        let ArgvClass { impact, effect } = self.allow.classify(&argv);
        let idem = if impact == 0 { Idempotency::Natural } else { Idempotency::None };
        CallClass { impact, effect, idem }
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            // By the table, not by the permit: a plan may have raised the impact.
            let observes = self.class(permit.params()).impact == 0;
            let bounds = || {
                if observes { Bounds::looking() } else { Bounds::acting(&context.workspace, &self.write) }
            };
            let bounds = self.sandbox.then(bounds);
            run(params(permit)?, Bearing { bounds, works_for: self.data.clone() }, observes, context).await
        })
    }
}

/// What all programs of a call go with.
#[derive(Clone)]
struct Bearing {
    bounds: Option<Bounds>,
    /// The data folder they work for.
    works_for: Option<DataFolder>,
}

async fn run(params: Params, bearing: Bearing, observes: bool, context: CallContext) -> ToolResult {
    let Params { argv, cwd, stdin, allow_status } = params;
    let shown = argv.first().cloned().unwrap_or_default();
    let log = Arc::clone(&context.attempt);
    let place = off_runtime(move |_| {
        let workspace = Workspace::open(&context.workspace)?;
        let path = cwd.map_or_else(|| Ok(PathBuf::from(".")), |cwd| workspace.relative(&cwd))?;
        Ok(Folder { dir: workspace.folder(&path)?, path: context.workspace.join(&path) })
    });
    let mut call = Call { argv, place: Arc::new(place.await?), environment: Vec::new(), bearing };
    if observes {
        // What only looks is kept from starting what a repository's own settings name.
        let listed = if git::is_git(&call.argv) { call.git_settings().await? } else { String::new() };
        call.environment = git::overriding(&OBSERVING_ENVIRONMENT, &listed);
        if git::is_git(&call.argv) {
            call.argv = git::only_looking(call.argv);
        }
    }
    let Finished { status, stdout, stderr } = call.finish_told(stdin, &*log).await?;
    judge(&shown, status, allow_status.as_deref().unwrap_or(&[0]), &stdout, &stderr)
}

/// A program and where and how it is started.
#[derive(Clone)]
struct Call {
    argv: Vec<String>,
    place: Arc<Folder>,
    environment: Vec<(String, String)>,
    bearing: Bearing,
}

impl Call {
    /// Starts it and waits for its end.
    async fn finish(self, stdin: Option<String>) -> Result<Finished, Failure> {
        let is_fed = stdin.is_some();
        off_runtime(move |stop| self.start(is_fed, stop)).await?.finish(stdin).await
    }

    /// Starts it, unless the call was given up before a thread was free for that.
    fn start(&self, is_fed: bool, stop: &Stop) -> Result<Group, Failure> {
        let Call { argv, place, environment, bearing } = self;
        let (works_for, bounds) = (bearing.works_for.as_ref(), bearing.bounds.as_ref());
        let program = Program { argv, folder: place, environment, stdin: is_fed, works_for, bounds };
        stop.act(|| Group::start(program))?
    }

    /// The same, of an attempt that is to give signs of life: it is told where to give them, and what the one before it told.
    async fn finish_told(mut self, stdin: Option<String>, log: &dyn AttemptLog) -> Result<Finished, Failure> {
        if log.heartbeat_ms().is_none() {
            return self.finish(stdin).await;
        }
        let unpiped = |error| transient(format!("cannot make a pipe for the program's progress: {error}"));
        let pipe = off_runtime(move |_| Pipe::make().map_err(unpiped)).await?;
        let mut lines = pipe.open().map_err(unpiped)?;
        self.bearing.bounds = self.bearing.bounds.map(|bounds| bounds.and_writing(pipe.path()));
        self.environment.push((PROGRESS.to_owned(), pipe.path().to_string_lossy().into_owned()));
        let token = log.resume_token().map_err(|error| crash(error.to_string()))?;
        self.environment.extend(token.map(|token| (RESUME_TOKEN.to_owned(), plain(token))));
        let finished = tokio::select! {
            finished = self.finish(stdin) => finished,
            () = lines.tell(log) => unreachable!("a pipe that is held open has no end"),
        };
        lines.tell_rest(log);
        finished
    }

    /// The names of the settings of git in the same place.
    async fn git_settings(&self) -> Result<String, Failure> {
        let argv = git::LIST_SETTINGS.map(str::to_owned).to_vec();
        let environment = git::overriding(&OBSERVING_ENVIRONMENT, "");
        let Finished { status, stdout, stderr } =
            Call { argv, environment, ..self.clone() }.finish(None).await?;
        judge("git config", status, &[0], "", &stderr)?;
        if stdout.len() > OUTPUT_HEAD_BYTES {
            return Err(exhausted(format!("the settings of git have more than {OUTPUT_HEAD_BYTES} bytes")));
        }
        Ok(stdout)
    }
}

/// A token as a program is given it: a text as it is, anything else as JSON.
fn plain(token: Value) -> String {
    match token {
        Value::String(text) => text,
        token => token.to_string(),
    }
}

fn judge(program: &str, status: ExitStatus, allowed: &[i32], stdout: &str, stderr: &str) -> ToolResult {
    let Some(code) = status.code() else {
        return Err(crash(format!("{program} was ended ({status}){}", tail(stderr))));
    };
    if !allowed.contains(&code) {
        return Err(structural(format!("{program} ended with status {code}{}", tail(stderr))));
    }
    Ok(json!({"status": code, "stdout": stdout, "stderr": stderr}))
}

fn tail(stderr: &str) -> String {
    let text = stderr.trim_end();
    if text.is_empty() {
        return String::new();
    }
    let mut start = text.len().saturating_sub(SHELL_FAILURE_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let cut = if start > 0 { "…" } else { "" };
    format!(": {cut}{}", &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_given_up_starts_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&folder.path().into()).unwrap();
        let place = Folder { dir: workspace.folder(".".as_ref()).unwrap(), path: folder.path().to_owned() };
        let call = Call {
            argv: vec!["no such program".to_owned()],
            place: Arc::new(place),
            environment: Vec::new(),
            bearing: Bearing { bounds: None, works_for: None },
        };
        for (stop, told) in [
            (
                Stop::default(),
                "there is no program no such program (it, or what interprets it, is not found)",
            ),
            (Stop::given_up(), "the call was given up"),
        ] {
            assert_eq!(call.start(false, &stop).unwrap_err().message, told);
        }
    }
}
