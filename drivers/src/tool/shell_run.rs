//! `shell.run`: starts a program. There is no shell: the arguments reach it as they are.

use std::path::PathBuf;
use std::process::ExitStatus;

use ostler_kernel::gate::{ArgvClass, ArgvTable, CallClass, OBSERVING_ENVIRONMENT, Permit};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking::off_runtime;
use super::config::ShellConfig;
use super::declare::{WORST, crash, object, params, spec, structural};
use super::process::{Finished, Folder, Group};
use super::workspace::Workspace;

/// Arguments of a program, its name included.
pub const SHELL_ARGV_MAX: usize = 1_000;
/// Bytes given to a program's standard input.
pub const SHELL_STDIN_BYTES_MAX: usize = 16 << 20;
/// Bytes of standard error that a failure shows: the last ones.
pub const SHELL_FAILURE_BYTES: usize = 2 << 10;

/// Runs a program in a process group of its own, in a folder of the workspace, with a handful of environment
/// variables and nothing else of ours. When the program ends, or when the call is given up, whatever is left
/// in its group is killed. A status that `allow_status` (default: 0) does not name is a failure.
#[derive(Debug)]
pub(super) struct ShellRun {
    spec: ToolSpec,
    allow: ArgvTable,
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
    pub(super) fn new(config: &ShellConfig) -> ShellRun {
        ShellRun {
            allow: config.allow.clone(),
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
            run(params(permit)?, observes, context).await
        })
    }
}

async fn run(params: Params, observes: bool, context: CallContext) -> ToolResult {
    let Params { argv, cwd, stdin, allow_status } = params;
    let shown = argv.first().cloned().unwrap_or_default();
    // What only looks is kept from starting what a repository's own settings name.
    let environment: &[_] = if observes { &OBSERVING_ENVIRONMENT } else { &[] };
    let started = off_runtime(move |_| {
        let workspace = Workspace::open(&context.workspace)?;
        let path = cwd.map_or(Ok(PathBuf::from(".")), |cwd| workspace.relative(&cwd))?;
        let folder = Folder { dir: workspace.folder(&path)?, path: context.workspace.join(&path) };
        Group::start(&argv, &folder, environment, stdin.is_some()).map(|group| (group, stdin))
    });
    let (group, stdin) = started.await?;
    let Finished { status, stdout, stderr } = group.finish(stdin).await?;
    judge(&shown, status, allow_status.as_deref().unwrap_or(&[0]), &stdout, &stderr)
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
