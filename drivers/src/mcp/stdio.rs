//! A server as a child process, over standard input and output.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ostler_kernel::plan::Effect;
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::bounded::{Bounded, BoundedLines, Breach};
use super::config::McpConfig;
use super::given_up::GivenUp;
use crate::cage::{CagedCall, Cages, SandboxConfig};
use crate::tool::DataFolder;
use crate::tool::{Folder, ProcessGroup, Program, RunningProgram};

/// Bytes kept of standard error, for the reason that a server ended.
const STDERR_BYTES_KEPT: usize = 2 << 10;

/// Keeps Python from writing byte code. What it writes beside a module that is pinned would hold the server at its next start, because
/// Python runs byte code in the place of its source.
const NO_BYTE_CODE: &str = "PYTHONDONTWRITEBYTECODE";

/// Time for a program to end after the end of its output.
const END: Duration = Duration::from_millis(500);

/// Surroundings of the programs of servers.
#[derive(Debug, Clone)]
pub struct Place {
    /// Working directory.
    pub folder: PathBuf,
    /// The data folder. The next process that holds the folder ends programs that outlive this process.
    pub data: Option<PathBuf>,
    /// `[sandbox]`: the cage around programs.
    pub sandbox: SandboxConfig,
    /// The user's own folder, where logins are kept; `None`: nobody logs in.
    pub user: Option<PathBuf>,
}

/// A running program of a server. Killed on drop, with its descendants.
pub(super) struct StdioServer {
    program: RunningProgram,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Ends with the standard error; `None` once that was waited for.
    reader: Option<JoinHandle<()>>,
}

pub(super) type StdioTransport = Bounded<AsyncRwTransport<RoleClient, BoundedLines<ChildStdout>, ChildStdin>>;

impl StdioServer {
    /// Starts the program of a server. `breach` is set if the server breaks a limit; `given_up` is told of answers and of the program's end.
    pub(super) async fn start(
        name: &str,
        config: &McpConfig,
        place: &Place,
        breach: &Breach,
        given_up: &GivenUp,
    ) -> Result<(StdioServer, StdioTransport), String> {
        let mut argv = config.command.clone();
        if let Some(program) = argv.first_mut().filter(|program| program.contains('/')) {
            *program = place.folder.join(&*program).to_string_lossy().into_owned();
        }
        let environment = config.env.iter().map(|variable| {
            let value = std::env::var(variable);
            value.map(|value| (variable.clone(), value)).map_err(|_| {
                format!("the environment variable {variable}, which [mcp.{name}] names, is not set")
            })
        });
        let mut environment: Vec<(String, String)> = environment.collect::<Result<_, _>>()?;
        if !config.env.contains(NO_BYTE_CODE) {
            environment.push((NO_BYTE_CODE.to_owned(), "1".to_owned()));
        }
        let Place { folder: path, data, mut sandbox, user: _ } = place.clone();
        let rooted = |paths: &[PathBuf]| paths.iter().map(|given| named(&path, given)).collect();
        let (read, write): (Vec<PathBuf>, Vec<PathBuf>) = (rooted(&config.read), rooted(&config.write));
        sandbox.read.extend(read);
        let (is_caged, effect) =
            (config.sandbox.0, if config.network { Effect::External } else { Effect::Write });
        let held = Some(given_up.program());
        let started = tokio::task::spawn_blocking(move || {
            let folder = open(&path)?;
            let data = data.and_then(|data| DataFolder::of(&data).ok());
            let cages = Cages::new(&sandbox, &write, is_caged, data.as_ref());
            let call = CagedCall { workspace: &path, writes: false, impact: 1, effect };
            let cage = if is_caged { cages.cage(call).map_err(|failure| failure.message)? } else { None };
            let program = Program {
                argv: &argv,
                folder: &folder,
                environment: &environment,
                stdin: true,
                works_for: data.as_ref(),
                cage: cage.as_ref(),
                distrusted: &[],
                held,
            };
            ProcessGroup::start(program).map_err(|failure| failure.message)
        });
        let started = started.await.map_err(|error| error.to_string())??;
        let (program, stdin, stdout, stderr) =
            started.into_pipes().map_err(|error| format!("cannot open the pipes of the program: {error}"))?;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let reader = Some(tokio::spawn(keep_tail(stderr, Arc::clone(&kept))));
        let lines = BoundedLines::new(stdout, breach.clone());
        let transport = AsyncRwTransport::new(lines, stdin).with_max_line_length(usize::MAX);
        Ok((
            StdioServer { program, stderr: kept, reader },
            Bounded::new(transport, breach.clone(), given_up.clone()),
        ))
    }

    /// Reason for the end of the connection: the exit status or, if the program still runs, `plain`, with the last line of standard
    /// error.
    pub(super) async fn why(&mut self, plain: &str) -> String {
        let status = tokio::time::timeout(END, self.program.ended()).await;
        // Its last words may still be in the pipe, which its own children may hold open.
        if let Some(reader) = self.reader.take_if(|_| matches!(status, Ok(Ok(_)))) {
            let _ = tokio::time::timeout(END, reader).await;
        }
        let ended = match status {
            Ok(Ok(status)) => format!("its program ended ({status})"),
            Ok(Err(_)) | Err(_) => plain.to_owned(),
        };
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&stderr);
        let last: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        match last.last() {
            Some(line) => format!("{ended}: {}", super::result::clipped(line)),
            None => ended,
        }
    }

    /// Waits at most `time` for the program to end by itself.
    pub(super) async fn end_within(&mut self, time: Duration) {
        let _ = tokio::time::timeout(time, self.program.ended()).await;
    }
}

/// A path of the configuration: absolute, below `~/`, or within its folder. Its links stay, so that the cage can judge who may have made
/// them.
fn named(folder: &Path, given: &Path) -> PathBuf {
    match (given.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => folder.join(given),
    }
}

fn open(path: &Path) -> Result<Folder, String> {
    let dir = Dir::open_ambient_dir(path, ambient_authority());
    let dir = dir.map_err(|error| format!("folder {}: cannot be opened: {error}", path.display()))?;
    Ok(Folder { dir, path: path.to_owned() })
}

async fn keep_tail(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 4 << 10];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&piece[..length]);
        let over = kept.len().saturating_sub(STDERR_BYTES_KEPT);
        kept.drain(..over);
    }
}
