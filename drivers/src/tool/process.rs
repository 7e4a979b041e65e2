//! Runs a program in a process group of its own and kills the group and all other descendants at its end.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use ostler_kernel::event::Failure;
use ostler_kernel::port::{AttemptLog, OutputStream};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;

use super::data_folder::DataFolder;
use super::process_tree::{Leader, MARK, ProcessTree};
use super::sandbox::Confinement;
use super::tool_spec::{crash, structural, transient};
use super::workspace::is_out_of_resources;

/// Bytes kept from the start of an output.
pub const OUTPUT_HEAD_BYTES: usize = 768 << 10;
/// Bytes kept from the end of an output. Bytes in between are counted and dropped.
pub const OUTPUT_TAIL_BYTES: usize = 256 << 10;

/// Time to read remaining output after the program and its group have ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Search path if `PATH` is unset.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Environment variables passed on besides `PATH`. Any other variable may hold a secret.
const ENVIRONMENT: [&str; 11] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "USER",
];

#[derive(Debug)]
pub(super) struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

pub(super) struct Program<'a> {
    pub argv: &'a [String],
    pub folder: &'a Folder,
    /// Added to [`ENVIRONMENT`].
    pub environment: &'a [(String, String)],
    /// Connects standard input to a pipe.
    pub stdin: bool,
    /// The data folder that owns the program.
    pub works_for: Option<&'a DataFolder>,
    /// Kernel restrictions, if any.
    pub confinement: Option<&'a Confinement>,
}

/// A running program with its descendants. Killed on drop.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: KillOnDrop,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
    stdin: Option<std::process::ChildStdin>,
    stdout: std::process::ChildStdout,
    stderr: std::process::ChildStderr,
}

impl ProcessGroup {
    /// Starts the program; blocks meanwhile.
    pub(super) fn start(program: Program<'_>) -> Result<ProcessGroup, Failure> {
        let Program { argv, folder, environment, stdin, works_for, confinement } = program;
        let Some((program, arguments)) = argv.split_first() else {
            return Err(structural("argv is empty: it begins with the program"));
        };
        let path = search_path(std::env::var_os("PATH"));
        // With a name to be searched for in the new PATH, the standard library copies this process instead of sharing its memory
        // until the program is loaded, which takes milliseconds.
        let mut command = Command::new(find_program(program, &path));
        command.arg0(program).args(arguments).env_clear().env("PATH", path);
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let tree = ProcessTree::of_call(works_for.map_or("", DataFolder::id));
        command.envs(environment.iter().map(|(name, value)| (name, value))).env(MARK, tree.mark());
        command.current_dir(folder.place()).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
        let started = match confinement {
            Some(confinement) => confinement.spawn(&mut command),
            None => command.spawn(),
        };
        let mut child = started.map_err(|error| not_started(program, &error))?;
        let piped = "its output was asked for as a pipe";
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = (stdout.expect(piped), stderr.expect(piped));
        let started = Leader::new(Pid::from_child(&child));
        let pid = started.pid;
        let leader = KillOnDrop(Arc::new(Mutex::new(GroupLeader {
            child,
            process: started,
            tree: tree.clone(),
            reaped: false,
        })));
        let (send, ended) = oneshot::channel();
        let (awaited, works_for) = (leader.0.clone(), works_for.cloned());
        std::thread::Builder::new()
            .name(format!("wait-{}", pid.as_raw_nonzero()))
            .spawn(move || {
                // Written after the process can be killed, because the disk may be slow.
                let pid_file = works_for.and_then(|folder| folder.write_pid_file(pid.as_raw_nonzero().get()));
                let status = end(&awaited, started, &tree);
                drop(pid_file);
                send.send(status)
            })
            .map_err(|error| {
                let tree = locked(&leader.0).kill();
                let _ = end(&leader.0, started, &tree);
                transient(format!("cannot start a thread to wait for {program}: {error}"))
            })?;
        Ok(ProcessGroup { leader, ended, stdin, stdout, stderr })
    }

    /// Writes the input, reads the output, which the log keeps too, and waits for the end. Dropping the future kills the program.
    pub(super) async fn finish(
        self,
        input: Option<String>,
        log: &dyn AttemptLog,
    ) -> Result<Finished, Failure> {
        let ProcessGroup { leader: _leader, mut ended, stdin, stdout, stderr } = self;
        let pipe = |error| crash(format!("cannot open the pipes of the program: {error}"));
        let stdin = stdin.map(ChildStdin::from_std).transpose().map_err(pipe)?;
        let stdout = ChildStdout::from_std(stdout).map_err(pipe)?;
        let stderr = ChildStderr::from_std(stderr).map_err(pipe)?;
        let (mut out, mut err) = (OutputBuffer::default(), OutputBuffer::default());
        let status = {
            let out = out.drain(stdout, OutputStream::Stdout, log);
            let err = err.drain(stderr, OutputStream::Stderr, log);
            let talk = async { tokio::join!(feed(stdin, input), out, err) };
            let mut talk = std::pin::pin!(talk);
            let status = tokio::select! {
                status = &mut ended => {
                    // A descendant outside the group may keep the pipes open forever.
                    let _ = tokio::time::timeout(DRAIN_TIMEOUT, talk).await;
                    status
                }
                _ = &mut talk => ended.await,
            };
            status.map_err(|_| crash("the exit status of the program is lost"))?
        };
        let status = status.map_err(|error| crash(format!("cannot wait for the program: {error}")))?;
        Ok(Finished { status, stdout: out.text(), stderr: err.text() })
    }
}

/// Working directory of a program. Passed by descriptor on Linux, so that a concurrent rename of the path has no effect.
pub(super) struct Folder {
    pub dir: Dir,
    pub path: PathBuf,
}

impl Folder {
    fn place(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))
        } else {
            self.path.clone()
        }
    }
}

/// The program itself. Until the process is reaped, its id (also the id of the group) cannot be reused. The group is therefore
/// killed only before reaping, under the lock.
#[derive(Debug)]
struct GroupLeader {
    child: Child,
    process: Leader,
    tree: ProcessTree,
    reaped: bool,
}

#[derive(Debug)]
struct KillOnDrop(Arc<Mutex<GroupLeader>>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        locked(&self.0).kill();
    }
}

impl GroupLeader {
    /// Kills the program and its descendants. Descendants first, while their parent links still exist.
    fn kill(&self) -> ProcessTree {
        if !self.reaped {
            self.tree.kill(self.process);
            self.kill_group();
        }
        self.tree.clone()
    }

    fn kill_group(&self) {
        if !self.reaped {
            // Fails only if every member is gone or belongs to another user by now.
            let _ = kill_process_group(self.process.pid, Signal::KILL);
        }
    }
}

fn locked(leader: &Mutex<GroupLeader>) -> MutexGuard<'_, GroupLeader> {
    leader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the program, kills its group, reaps the program, and kills descendants outside the group.
fn end(leader: &Mutex<GroupLeader>, process: Leader, tree: &ProcessTree) -> io::Result<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(process.pid), options), Err(Errno::INTR)) {}
    let mut leader = locked(leader);
    leader.kill_group();
    leader.reaped = true;
    let status = leader.child.wait();
    drop(leader);
    tree.end(process);
    status
}

fn not_started(program: &str, error: &io::Error) -> Failure {
    use io::ErrorKind as K;
    match error.kind() {
        K::NotFound => {
            structural(format!("there is no program {program} (it, or what interprets it, is not found)"))
        }
        K::ResourceBusy | K::ExecutableFileBusy => transient(format!("cannot start {program}: {error}")),
        _ if is_out_of_resources(error) => transient(format!("cannot start {program}: {error}")),
        _ => structural(format!("cannot start {program}: {error}")),
    }
}

/// `PATH` without relative entries.
fn search_path(path: Option<OsString>) -> OsString {
    let absolute = path.as_ref().map(|path| std::env::split_paths(path).filter(|entry| entry.is_absolute()));
    absolute
        .and_then(|entries| std::env::join_paths(entries).ok())
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| DEFAULT_PATH.into())
}

/// The file of a program named without a folder: the first executable one on the path. The name itself if there is none.
fn find_program(name: &str, path: &OsStr) -> PathBuf {
    let is_executable =
        |file: &PathBuf| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    let found = || std::env::split_paths(path).map(|entry| entry.join(name)).find(is_executable);
    let is_bare = !name.is_empty() && !name.contains('/');
    is_bare.then(found).flatten().unwrap_or_else(|| name.into())
}

async fn feed(stdin: Option<ChildStdin>, input: Option<String>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        // A program may exit without reading its input.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

#[derive(Debug, Default)]
struct OutputBuffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl OutputBuffer {
    async fn drain(
        &mut self,
        mut output: impl AsyncRead + Unpin,
        stream: OutputStream,
        log: &dyn AttemptLog,
    ) {
        let mut piece = vec![0; 64 << 10];
        // A read error counts as the end.
        while let Ok(length @ 1..) = output.read(&mut piece).await {
            self.keep(&piece[..length]);
            log.output(stream, &piece[..length]);
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let (head, rest) = piece.split_at(piece.len().min(OUTPUT_HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(OUTPUT_TAIL_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// Lossy text: invalid UTF-8 becomes U+FFFD.
    fn text(mut self) -> String {
        if self.left_out > 0 {
            self.head.extend_from_slice(format!("\n[{} bytes left out]\n", self.left_out).as_bytes());
        }
        self.head.extend(self.tail);
        String::from_utf8(self.head)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::run::FailureCategory;

    use super::*;

    #[test]
    fn a_program_that_cannot_be_started_for_want_of_something_is_tried_again() {
        for (error, expected) in [
            (Errno::MFILE, FailureCategory::Transient),
            (Errno::NFILE, FailureCategory::Transient),
            (Errno::NOMEM, FailureCategory::Transient),
            (Errno::AGAIN, FailureCategory::Transient),
            (Errno::TXTBSY, FailureCategory::Transient),
            (Errno::NOENT, FailureCategory::Structural),
            (Errno::ACCESS, FailureCategory::Structural),
        ] {
            let failure = not_started("make", &error.into());
            assert_eq!(failure.category, expected, "{}", failure.message);
        }
    }
}
