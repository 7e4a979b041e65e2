//! A program in a process group of its own, which ends with it, as does whatever came of it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use ostler_kernel::event::Failure;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;

use super::data_folder::DataFolder;
use super::declare::{crash, structural, transient};
use super::family::{Family, MARK};
use super::sandbox::Bounds;
use super::workspace::is_of_want;

/// Bytes kept of the beginning of an output.
pub const OUTPUT_HEAD_BYTES: usize = 768 << 10;
/// Bytes kept of the end of an output. What lies between is read, counted and left out.
pub const OUTPUT_TAIL_BYTES: usize = 256 << 10;

/// How long output is still read after the program and its group have ended.
const DRAIN: Duration = Duration::from_millis(500);

/// Where programs are looked for if `PATH` does not say.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The environment variables a program gets to see besides `PATH`. Anything else may be a secret.
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

/// What a program left.
#[derive(Debug)]
pub(super) struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A program to start.
pub(super) struct Program<'a> {
    pub argv: &'a [String],
    pub folder: &'a Folder,
    /// Added to the little that all get.
    pub environment: &'a [(String, String)],
    /// Whether it is fed.
    pub stdin: bool,
    /// The data folder it works for.
    pub works_for: Option<&'a DataFolder>,
    /// What the kernel is to keep it from; nothing, if there are none.
    pub bounds: Option<&'a Bounds>,
}

/// A running program and all that came of it. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Group {
    leader: KillOnDrop,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
    stdin: Option<std::process::ChildStdin>,
    stdout: std::process::ChildStdout,
    stderr: std::process::ChildStderr,
}

impl Group {
    /// Starts it. Blocks for as long as starting takes.
    pub(super) fn start(program: Program<'_>) -> Result<Group, Failure> {
        let Program { argv, folder, environment, stdin, works_for, bounds } = program;
        let Some((program, arguments)) = argv.split_first() else {
            return Err(structural("argv is empty: it begins with the program"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", search_path(std::env::var_os("PATH")));
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let family = Family::of_call(works_for.map_or("", DataFolder::id));
        command.envs(environment.iter().map(|(name, value)| (name, value))).env(MARK, family.mark());
        command.current_dir(folder.place()).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
        let started = match bounds {
            Some(bounds) => bounds.spawn(&mut command),
            None => command.spawn(),
        };
        let mut child = started.map_err(|error| not_started(program, &error))?;
        let piped = "its output was asked for as a pipe";
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = (stdout.expect(piped), stderr.expect(piped));
        let pid = Pid::from_child(&child);
        let leader =
            KillOnDrop(Arc::new(Mutex::new(Leader { child, pid, family: family.clone(), reaped: false })));
        let (send, ended) = oneshot::channel();
        let (awaited, works_for) = (leader.0.clone(), works_for.cloned());
        std::thread::Builder::new()
            .name(format!("wait-{}", pid.as_raw_nonzero()))
            .spawn(move || {
                // Not before it can be killed: a disk may take its time.
                let noted = works_for.and_then(|folder| folder.note(pid.as_raw_nonzero().get()));
                let status = end(&awaited, pid, &family);
                drop(noted);
                send.send(status)
            })
            .map_err(|error| {
                let family = locked(&leader.0).kill();
                let _ = end(&leader.0, pid, &family);
                transient(format!("cannot watch over {program}: {error}"))
            })?;
        Ok(Group { leader, ended, stdin, stdout, stderr })
    }

    /// Feeds it, reads its output, and waits for its end. Dropping the future kills it.
    pub(super) async fn finish(self, input: Option<String>) -> Result<Finished, Failure> {
        let Group { leader: _leader, mut ended, stdin, stdout, stderr } = self;
        let pipe = |error| crash(format!("cannot talk to the program: {error}"));
        let stdin = stdin.map(ChildStdin::from_std).transpose().map_err(pipe)?;
        let stdout = ChildStdout::from_std(stdout).map_err(pipe)?;
        let stderr = ChildStderr::from_std(stderr).map_err(pipe)?;
        let (mut out, mut err) = (Kept::default(), Kept::default());
        let status = {
            let talk = async { tokio::join!(feed(stdin, input), out.drain(stdout), err.drain(stderr)) };
            let mut talk = std::pin::pin!(talk);
            let status = tokio::select! {
                status = &mut ended => {
                    // Whoever left the group may hold the pipes open for ever.
                    let _ = tokio::time::timeout(DRAIN, talk).await;
                    status
                }
                _ = &mut talk => ended.await,
            };
            status.map_err(|_| crash("nobody waits for the program any more"))?
        };
        let status = status.map_err(|error| crash(format!("cannot wait for the program: {error}")))?;
        Ok(Finished { status, stdout: out.text(), stderr: err.text() })
    }
}

/// The folder a program starts in: by descriptor where that works, so it is the one that was opened, whatever
/// its path leads to by now.
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

/// The program itself. While it is not reaped its id, which is that of its group, cannot be given to anybody
/// else: so the group is only ever killed before that, under the lock.
#[derive(Debug)]
struct Leader {
    child: Child,
    pid: Pid,
    family: Family,
    reaped: bool,
}

#[derive(Debug)]
struct KillOnDrop(Arc<Mutex<Leader>>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        locked(&self.0).kill();
    }
}

impl Leader {
    /// Kills it and all that came of it, before anybody is orphaned by that.
    fn kill(&self) -> Family {
        if !self.reaped {
            self.family.kill(self.pid);
            self.kill_group();
        }
        self.family.clone()
    }

    fn kill_group(&self) {
        if !self.reaped {
            // Fails only if every member is gone or has become somebody else's: then there is nothing to do.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }
}

fn locked(leader: &Mutex<Leader>) -> MutexGuard<'_, Leader> {
    leader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of the program, kills what it left in its group, reaps it, and kills what it left elsewhere.
fn end(leader: &Mutex<Leader>, pid: Pid, family: &Family) -> io::Result<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
    let mut leader = locked(leader);
    leader.kill_group();
    leader.reaped = true;
    let status = leader.child.wait();
    drop(leader);
    family.end();
    status
}

fn not_started(program: &str, error: &io::Error) -> Failure {
    use io::ErrorKind as K;
    match error.kind() {
        K::NotFound => {
            structural(format!("there is no program {program} (it, or what interprets it, is not found)"))
        }
        K::ResourceBusy | K::ExecutableFileBusy => transient(format!("cannot start {program}: {error}")),
        _ if is_of_want(error) => transient(format!("cannot start {program}: {error}")),
        _ => structural(format!("cannot start {program}: {error}")),
    }
}

/// `PATH` without entries that depend on the folder one is in.
fn search_path(path: Option<OsString>) -> OsString {
    let absolute = path.as_ref().map(|path| std::env::split_paths(path).filter(|entry| entry.is_absolute()));
    absolute
        .and_then(|entries| std::env::join_paths(entries).ok())
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| DEFAULT_PATH.into())
}

async fn feed(stdin: Option<ChildStdin>, input: Option<String>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        // A program need not read all it is given.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

/// What is kept of an output: its beginning and its end.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    async fn drain(&mut self, mut output: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 64 << 10];
        // An error of a pipe is its end.
        while let Ok(length @ 1..) = output.read(&mut piece).await {
            self.keep(&piece[..length]);
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

    /// As text; bytes that are not UTF-8 become U+FFFD.
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
