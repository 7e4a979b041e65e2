//! `shell.run`: runs a program. No shell is involved; arguments are passed unchanged.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{ArgvClass, ArgvTable, CallClass, OBSERVING_ENVIRONMENT, Permit};
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    AttemptLog, BoxFuture, CageRung, CallContext, NamedFile, NoLog, Tool, ToolResult, ToolSpec, WorkspaceUse,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking_tool::{CancelFlag, off_runtime};
use super::config::ToolConfig;
use super::data_folder::DataFolder;
use super::git;
use super::named_files::{Naming, named_files};
use super::process::{Finished, Folder, OUTPUT_HEAD_BYTES, ProcessGroup, Program};
use super::progress::{PROGRESS, ProgressPipe, RESUME_TOKEN};
use super::tool_spec::{WORST, crash, exhausted, object, params, spec, structural, transient};
use super::workspace::Workspace;
use crate::cage::{CageSpec, CagedCall, Cages, writable};

/// Maximum arguments, including the program's name.
pub const SHELL_ARGV_MAX: usize = 1_000;
/// Maximum bytes of standard input.
pub const SHELL_STDIN_BYTES_MAX: usize = 16 << 20;
/// Bytes of standard error in a failure, from its end.
pub const SHELL_FAILURE_BYTES: usize = 2 << 10;

/// Runs a program in a process group of its own, in a folder of the workspace, with a minimal environment. At the program's end, or
/// when the call is dropped, all descendants are killed. The program runs in a [cage](crate::cage). An exit status outside
/// `allow_status` (default: 0) is a failure, which is transient if the call may be repeated.
#[derive(Debug)]
pub(super) struct ShellRun {
    spec: ToolSpec,
    allow: ArgvTable,
    cages: Cages,
    /// `write` of `[tools.shell]`.
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
    pub(super) fn new(config: &ToolConfig, data: Option<&DataFolder>) -> ShellRun {
        let shell = &config.shell;
        ShellRun {
            data: data.cloned(),
            allow: shell.allow.clone(),
            write: shell.write.clone(),
            cages: Cages::new(&config.sandbox, &shell.write, shell.sandbox, data),
            spec: spec(
                "shell.run",
                "Run a program with arguments (no shell: no pipes, globs or variables) and give its output. Of a long output, the beginning and the end are kept; `stdout_bytes_left_out` and `stderr_bytes_left_out` count what is missing between them.",
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
                        "stdout_bytes_left_out": {"type": "integer", "minimum": 0},
                        "stderr_bytes_left_out": {"type": "integer", "minimum": 0},
                    }),
                ),
            ),
        }
    }
}

impl ShellRun {
    /// Where the search path is not to be trusted. A program that a step put there would get the network that an entry gives to the one
    /// of this name; any other class gives it nothing that it does not have anyway.
    fn distrusted(&self, argv: &[String], workspace: &Path) -> Vec<PathBuf> {
        match self.allow.listed(argv) {
            Some(ArgvClass { effect: Effect::External, .. }) => writable(workspace, &self.write),
            _ => Vec::new(),
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

    fn named_files(
        &self,
        params: &Map<String, Value>,
        workspace: Arc<Path>,
    ) -> BoxFuture<'_, Vec<NamedFile>> {
        let argv = params.get("argv").and_then(Value::as_array);
        let argv: Vec<String> =
            argv.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let (stdin, cwd) = (text("stdin"), text("cwd"));
        let (cages, root) = (self.cages.clone(), Arc::clone(&workspace));
        let naming = move || {
            let of_run = std::iter::once(root.to_path_buf()).chain(cages.written());
            let written = of_run.chain(cages.written_by_others(&root)).collect();
            Naming { argv, stdin, cwd, written, hidden: cages.unseen() }
        };
        Box::pin(named_files(naming, workspace))
    }

    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::BOTH
    }

    fn writes_outside(&self) -> bool {
        self.cages.written().next().is_some() || !self.cages.are_certain()
    }

    fn reads_outside(&self, workspace: &Path) -> Vec<PathBuf> {
        self.cages.shown().into_iter().chain(self.cages.repository(workspace)).collect()
    }

    fn reads_strangers_outside(&self) -> bool {
        true
    }

    fn confinement(&self) -> Option<Digest> {
        Some(self.cages.digest())
    }

    fn sends_out(&self) -> bool {
        true
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            // From the table, not from the permit: a plan may have raised the impact.
            let CallClass { impact, effect, .. } = self.class(permit.params());
            let (cages, workspace) = (self.cages.clone(), context.workspace.clone());
            let caged = move |_: &CancelFlag| {
                cages.cage(CagedCall { workspace: &workspace, writes: impact > 0, impact, effect })
            };
            let held = context.turn.as_ref().and_then(|turn| turn.hold());
            let supervision =
                Supervision { cage: off_runtime(caged).await?, works_for: self.data.clone(), held };
            let rung = supervision.cage.as_ref().map_or(CageRung::None, CageSpec::rung);
            context.attempt.caged(rung);
            let params: Params = params(permit)?;
            let distrusted = self.distrusted(&params.argv, &context.workspace);
            run(params, supervision, distrusted, impact == 0, context).await
        })
    }
}

/// Cage and owner of all programs of a call.
#[derive(Clone)]
struct Supervision {
    cage: Option<CageSpec>,
    works_for: Option<DataFolder>,
    /// Kept until all programs have ended.
    held: Option<Arc<dyn Any + Send + Sync>>,
}

async fn run(
    params: Params,
    supervision: Supervision,
    distrusted: Vec<PathBuf>,
    observes: bool,
    context: CallContext,
) -> ToolResult {
    let Params { argv, cwd, stdin, allow_status } = params;
    let shown = argv.first().cloned().unwrap_or_default();
    let log = Arc::clone(&context.attempt);
    let repeatable = context.repeatable;
    let place = off_runtime(move |_| {
        let workspace = Workspace::open(&context.workspace)?;
        let path = cwd.map_or_else(|| Ok(PathBuf::from(".")), |cwd| workspace.relative(&cwd))?;
        Ok(Folder { dir: workspace.folder(&path)?, path: context.workspace.join(&path) })
    });
    let mut call =
        Call { argv, place: Arc::new(place.await?), environment: Vec::new(), supervision, distrusted };
    if observes {
        // Keeps a repository's settings from starting programs.
        let listed = if git::is_git(&call.argv) { call.git_settings().await? } else { String::new() };
        call.environment = git::overriding(&OBSERVING_ENVIRONMENT, &listed);
        if git::is_git(&call.argv) {
            call.argv = git::without_programs(call.argv);
        }
    }
    let rung = call.supervision.cage.as_ref().map_or(CageRung::None, CageSpec::rung);
    let finished = call.finish_with_progress(stdin, &*log).await?;
    // The retries of the node apply, unless the program may have done a part of something that may not be repeated.
    let failed = if repeatable { transient } else { structural };
    judge(&shown, finished, allow_status.as_deref().unwrap_or(&[0]), rung, failed)
}

#[derive(Clone)]
struct Call {
    argv: Vec<String>,
    place: Arc<Folder>,
    environment: Vec<(String, String)>,
    supervision: Supervision,
    distrusted: Vec<PathBuf>,
}

impl Call {
    async fn finish(self, stdin: Option<String>, log: &dyn AttemptLog) -> Result<Finished, Failure> {
        let is_fed = stdin.is_some();
        off_runtime(move |cancel| self.start(is_fed, cancel)).await?.finish(stdin, log).await
    }

    /// Starts the program, unless the call was dropped before a blocking thread was free.
    fn start(&self, is_fed: bool, cancel: &CancelFlag) -> Result<ProcessGroup, Failure> {
        let Call { argv, place, environment, supervision, distrusted } = self;
        let Supervision { works_for, cage, held } = supervision.clone();
        let (works_for, cage) = (works_for.as_ref(), cage.as_ref());
        let program =
            Program { argv, folder: place, environment, stdin: is_fed, works_for, cage, distrusted, held };
        cancel.act(|| ProcessGroup::start(program))?
    }

    /// Same as [`Call::finish`] for an attempt with heartbeats: passes the progress pipe and the resume token.
    async fn finish_with_progress(
        mut self,
        stdin: Option<String>,
        log: &dyn AttemptLog,
    ) -> Result<Finished, Failure> {
        if log.heartbeat_ms().is_none() {
            return self.finish(stdin, log).await;
        }
        let owner = self.supervision.works_for.as_ref().map_or("", DataFolder::id).to_owned();
        let pipe = off_runtime(move |_| ProgressPipe::make(&owner)).await?;
        let mut lines = pipe.open()?;
        self.supervision.cage = self.supervision.cage.map(|cage| cage.allow_writing(pipe.path()));
        self.environment.push((PROGRESS.to_owned(), pipe.path().to_string_lossy().into_owned()));
        let token = log.resume_token().map_err(|error| crash(error.to_string()))?;
        self.environment.extend(token.map(|token| (RESUME_TOKEN.to_owned(), plain(token))));
        let finished = tokio::select! {
            finished = self.finish(stdin, log) => finished,
            () = lines.report(log) => unreachable!("a pipe that is held open has no end"),
        };
        lines.report_rest(log);
        finished
    }

    /// Names of the effective git settings in this folder.
    async fn git_settings(&self) -> Result<String, Failure> {
        let argv = git::LIST_SETTINGS.map(str::to_owned).to_vec();
        let environment = git::overriding(&OBSERVING_ENVIRONMENT, "");
        let mut finished = Call { argv, environment, ..self.clone() }.finish(None, &NoLog).await?;
        let stdout = std::mem::take(&mut finished.stdout);
        judge("git config", finished, &[0], CageRung::None, structural)?;
        if stdout.text.len() > OUTPUT_HEAD_BYTES {
            return Err(exhausted(format!("the settings of git have more than {OUTPUT_HEAD_BYTES} bytes")));
        }
        Ok(stdout.text)
    }
}

/// A token for the environment: a string as is, any other value as JSON.
fn plain(token: Value) -> String {
    match token {
        Value::String(text) => text,
        token => token.to_string(),
    }
}

/// Messages of the system where a file is out of reach.
const OUT_OF_REACH: [&str; 3] = ["Permission denied", "Read-only file system", "Operation not permitted"];

/// True if the output of a program names a file that a cage may keep from it.
pub fn lacks_file(output: &str) -> bool {
    OUT_OF_REACH.iter().any(|sign| output.contains(sign))
}

/// The status of a program that a shell found and could not execute.
const NOT_EXECUTABLE: i32 = 126;

/// Judges how a program ended; `failed` makes the failure for a status that is not allowed.
fn judge(
    program: &str,
    finished: Finished,
    allowed: &[i32],
    rung: CageRung,
    failed: fn(String) -> Failure,
) -> ToolResult {
    let Finished { status, stdout, stderr } = finished;
    // A program that fails tells why on standard error; some, such as test runners, on standard output.
    let said = match stderr.text.trim().is_empty() {
        true => tail(&stdout.text),
        false => tail(&stderr.text),
    };
    let Some(code) = status.code() else {
        return Err(crash(format!("{program} was ended ({status}){said}")));
    };
    if !allowed.contains(&code) {
        let lacks = code == NOT_EXECUTABLE || lacks_file(&said);
        let cage = match rung {
            CageRung::None => String::new(),
            rung if lacks => format!(" in a cage ({rung}) that may keep it from a file"),
            _ => String::new(),
        };
        return Err(failed(format!("{program} ended with status {code}{cage}{said}")));
    }
    Ok(json!({
        "status": code,
        "stdout": stdout.text,
        "stderr": stderr.text,
        "stdout_bytes_left_out": stdout.left_out,
        "stderr_bytes_left_out": stderr.left_out,
    }))
}

fn tail(printed: &str) -> String {
    let text = printed.trim_end();
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
    use super::super::process::Printed;
    use super::*;

    #[test]
    fn a_failure_that_a_cage_may_have_caused_names_the_cage() {
        use std::os::unix::process::ExitStatusExt;
        let check = |code: i32, stderr: &str, rung, expected: &str| {
            let stderr = Printed { text: stderr.to_owned(), left_out: 0 };
            let status = std::process::ExitStatus::from_raw(code << 8);
            let finished = Finished { status, stdout: Printed::default(), stderr };
            assert_eq!(judge("p", finished, &[0], rung, structural).unwrap_err().message, expected);
        };
        let caged = "in a cage (landlock) that may keep it from a file";
        let (landlock, none) = (CageRung::Landlock, CageRung::None);
        check(126, "x", landlock, &format!("p ended with status 126 {caged}: x"));
        for sign in OUT_OF_REACH {
            let said = format!("touch: {sign}");
            check(1, &said, landlock, &format!("p ended with status 1 {caged}: {said}"));
            check(1, &said, none, &format!("p ended with status 1: {said}"));
        }
        check(2, "no such rule", landlock, "p ended with status 2: no such rule");
    }

    #[test]
    fn a_call_that_was_given_up_starts_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&folder.path().into()).unwrap();
        let place = Folder { dir: workspace.folder(".".as_ref()).unwrap(), path: folder.path().to_owned() };
        let call = Call {
            argv: vec!["no such program".to_owned()],
            place: Arc::new(place),
            environment: Vec::new(),
            supervision: Supervision { cage: None, works_for: None, held: None },
            distrusted: Vec::new(),
        };
        for (cancel, told) in [
            (
                CancelFlag::default(),
                "there is no program no such program (it, or what interprets it, is not found)",
            ),
            (CancelFlag::cancelled(), "the call was cancelled"),
        ] {
            assert_eq!(call.start(false, &cancel).unwrap_err().message, told);
        }
    }
}
