//! Runs a program in a process group of its own and kills the group and all other descendants at its end.

use std::any::Any;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
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
use super::temporary_folder::TemporaryFolder;
use super::tool_spec::{crash, structural, transient};
use super::workspace::is_out_of_resources;
use crate::cage::{CageSpec, CallGroup, Presence, Report};

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
    pub stdout: Printed,
    pub stderr: Printed,
}

/// Output of a program on one stream.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub text: String,
    /// Bytes left out of the middle.
    pub left_out: u64,
}

pub(crate) struct Program<'a> {
    pub argv: &'a [String],
    pub folder: &'a Folder,
    /// Added to [`ENVIRONMENT`].
    pub environment: &'a [(String, String)],
    /// Connects standard input to a pipe.
    pub stdin: bool,
    /// The data folder that owns the program.
    pub works_for: Option<&'a DataFolder>,
    pub cage: Option<&'a CageSpec>,
    /// Folders of the search path at or below these come last.
    pub distrusted: &'a [PathBuf],
    /// Dropped once the program and all that it started have ended.
    pub held: Option<Arc<dyn Any + Send + Sync>>,
}

/// A running program with its descendants. Killed on drop.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    name: String,
    /// The word with which the helper of its cage reports.
    nonce: Option<String>,
    /// Its end by a signal is told as a status above 128.
    signals_as_shells: bool,
    leader: KillOnDrop,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
    stdin: Option<std::process::ChildStdin>,
    stdout: std::process::ChildStdout,
    stderr: std::process::ChildStderr,
}

impl ProcessGroup {
    /// Starts the program; blocks meanwhile.
    pub(crate) fn start(program: Program<'_>) -> Result<ProcessGroup, Failure> {
        let name = program.argv.first().cloned().unwrap_or_default();
        let nonce = program.cage.map(|cage| cage.nonce().to_owned());
        let (works_for, held) = (program.works_for.cloned(), program.held.clone());
        let prepared = Prepared::of(program)?;
        let signals_as_shells = prepared.signals_as_shells;
        let (send_started, started) = mpsc::sync_channel(1);
        let (send_ended, ended) = oneshot::channel();
        // The kernel ends a caged program with the thread that started it, so that one waits for it too.
        let thread = std::thread::Builder::new().name("program".to_owned()).spawn(move || {
            let begun = match prepared.spawn() {
                Ok(begun) => begun,
                Err(error) => return drop(send_started.send(Err(error))),
            };
            let Begun { child, process, tree, group, temporary, presence } = begun;
            let mut child = child;
            let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let leader = GroupLeader { child, process, tree: tree.clone(), group, reaped: false };
            let leader = Arc::new(Mutex::new(leader));
            // If nobody waits for it any more, the program is killed here.
            let _ = send_started.send(Ok((KillOnDrop(leader.clone()), pipes)));
            // Written after the process can be killed, because the disk may be slow.
            let pid = process.pid.as_raw_nonzero().get();
            let pid_file = works_for.and_then(|folder| folder.write_pid_file(pid));
            let status = end(&leader, process, &tree);
            drop((pid_file, temporary, presence, held));
            let _ = send_ended.send(status);
        });
        thread.map_err(|error| transient(format!("cannot start a thread to wait for {name}: {error}")))?;
        let started =
            started.recv().map_err(|_| crash(format!("the thread that started {name} panicked")))?;
        let is_caged = nonce.is_some();
        let (leader, (stdin, stdout, stderr)) = started.map_err(|error| match is_caged {
            true => transient(format!("cannot start the helper that makes the cage of {name}: {error}")),
            false => not_started(&name, &error),
        })?;
        let piped = "its output was asked for as a pipe";
        let (stdout, stderr) = (stdout.expect(piped), stderr.expect(piped));
        Ok(ProcessGroup { name, nonce, signals_as_shells, leader, ended, stdin, stdout, stderr })
    }

    /// Separates a long-running program from its pipes. Must be called within a runtime.
    pub(crate) fn into_pipes(self) -> io::Result<(RunningProgram, ChildStdin, ChildStdout, ChildStderr)> {
        let ProcessGroup { leader, ended, stdin, stdout, stderr, .. } = self;
        let stdin = stdin.ok_or_else(|| io::Error::other("its input was not asked for as a pipe"))?;
        let (stdin, stdout) = (ChildStdin::from_std(stdin)?, ChildStdout::from_std(stdout)?);
        Ok((RunningProgram { _leader: leader, ended }, stdin, stdout, ChildStderr::from_std(stderr)?))
    }

    /// Writes the input, reads the output, which the log keeps too, and waits for the end. Dropping the future kills the program.
    pub(super) async fn finish(
        self,
        input: Option<String>,
        log: &dyn AttemptLog,
    ) -> Result<Finished, Failure> {
        let ProcessGroup { name, nonce, signals_as_shells, leader, mut ended, stdin, stdout, stderr } = self;
        let _leader = leader;
        let pipe = |error| crash(format!("cannot open the pipes of the program: {error}"));
        let stdin = stdin.map(ChildStdin::from_std).transpose().map_err(pipe)?;
        let stdout = ChildStdout::from_std(stdout).map_err(pipe)?;
        let stderr = ChildStderr::from_std(stderr).map_err(pipe)?;
        let (mut out, mut err) = (OutputBuffer::default(), OutputBuffer::default());
        err.nonce = nonce;
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
        if let Some(report) = err.report {
            return Err(uncaged(&name, &report));
        }
        let status = if signals_as_shells { with_signal(status) } else { status };
        Ok(Finished { status, stdout: out.printed(), stderr: err.printed() })
    }
}

/// A program that can be started.
struct Prepared {
    command: Command,
    signals_as_shells: bool,
    tree: ProcessTree,
    group: Option<CallGroup>,
    temporary: Option<TemporaryFolder>,
    presence: Option<Arc<Presence>>,
}

/// A program that was started, and what lasts as long as it does.
struct Begun {
    child: Child,
    process: Leader,
    tree: ProcessTree,
    group: Option<CallGroup>,
    temporary: Option<TemporaryFolder>,
    presence: Option<Arc<Presence>>,
}

impl Prepared {
    fn of(program: Program<'_>) -> Result<Prepared, Failure> {
        let Program { argv, folder, environment, stdin, works_for, cage, distrusted, .. } = program;
        let Some((program, arguments)) = argv.split_first() else {
            return Err(structural("argv is empty: it begins with the program"));
        };
        let path = search_path(std::env::var_os("PATH"), distrusted);
        // With a name to be searched for in the new PATH, the standard library copies this process instead of sharing its memory
        // until the program is loaded, which takes milliseconds.
        let file = find_program(program, &path);
        let owner = works_for.map_or("", DataFolder::id);
        let (mut group, mut temporary, mut signals_as_shells) = (None, None, false);
        let mut command = match cage {
            Some(cage) => {
                check_program(folder, &file).map_err(|error| not_started(program, &error))?;
                let mut cage = cage.clone();
                if !cage.observes() {
                    let made = temporary.insert(TemporaryFolder::make(owner)?);
                    cage = cage.allow_writing(made.path());
                }
                group = CallGroup::make(owner, cage.limits());
                cage = cage.in_groups(group.as_ref().map(CallGroup::entrances).unwrap_or_default());
                signals_as_shells = cage.tells_signals_as_shells_do();
                cage.command(&file, argv)?
            }
            None => {
                let mut command = Command::new(file);
                command.arg0(program).args(arguments);
                command
            }
        };
        command.env_clear().env("PATH", path);
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        if cage.is_some() {
            command.env_remove("TMPDIR");
        }
        command.envs(temporary.iter().map(|folder| ("TMPDIR", folder.path())));
        let tree = ProcessTree::of_call(owner);
        command.envs(environment.iter().map(|(name, value)| (name, value))).env(MARK, tree.mark());
        command.current_dir(folder.place()).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if stdin { Stdio::piped() } else { Stdio::null() });
        let presence = cage.and_then(CageSpec::presence);
        Ok(Prepared { command, signals_as_shells, tree, group, temporary, presence })
    }

    fn spawn(self) -> io::Result<Begun> {
        let Prepared { mut command, tree, group, temporary, presence, .. } = self;
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                if let Some(group) = group {
                    group.end();
                }
                return Err(error);
            }
        };
        let process = Leader::new(Pid::from_child(&child));
        Ok(Begun { child, process, tree, group, temporary, presence })
    }
}

/// A program without its pipes. Killed on drop, with its descendants.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    _leader: KillOnDrop,
    ended: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl RunningProgram {
    /// Waits for the end of the program. Must not be called again after the end.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        (&mut self.ended)
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the exit status of the program is lost")))
    }
}

/// Working directory of a program. Passed by descriptor on Linux, so that a concurrent rename of the path has no effect.
pub(crate) struct Folder {
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
    group: Option<CallGroup>,
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
    /// Kills the program and its descendants. Without a control group descendants first, while their parent links still exist.
    fn kill(&self) {
        if self.reaped {
            return;
        }
        match &self.group {
            Some(group) => group.kill(),
            None => self.tree.kill(self.process),
        }
        self.kill_group();
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
    let group = leader.group.take();
    if let Some(group) = &group {
        group.kill();
    }
    let status = leader.child.wait();
    drop(leader);
    match group {
        Some(group) => group.end(),
        None => tree.end(process),
    }
    status
}

/// The status of a program whose end by a signal was told as a status above 128, as shells do.
fn with_signal(status: ExitStatus) -> ExitStatus {
    match status.code() {
        Some(code @ 129..=159) => ExitStatus::from_raw(code - 128),
        _ => status,
    }
}

/// Fails for a file that cannot be executed, before a cage is made for it.
fn check_program(folder: &Folder, file: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    if file.components().count() == 1 && !file.is_absolute() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = folder.place().join(file);
    if !std::fs::metadata(&file)?.is_file() {
        return Err(Errno::ACCESS.into());
    }
    Ok(access(&file, Access::EXEC_OK)?)
}

/// Failure of a program that its cage's helper did not become.
fn uncaged(program: &str, report: &Report) -> Failure {
    let Some(errno) = report.errno else {
        return structural(format!("cannot make the cage of {program}: {}", report.what));
    };
    let mut failure = not_started(program, &io::Error::from_raw_os_error(errno));
    if [Errno::ACCESS.raw_os_error(), Errno::NOENT.raw_os_error()].contains(&errno) {
        failure.message.push_str("; it, or what interprets it, may lie where the cage shows nothing: name its folder in read of [sandbox]");
    }
    failure
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

/// `PATH` without relative entries, and with those at or below `distrusted` folders at its end.
fn search_path(path: Option<OsString>, distrusted: &[PathBuf]) -> OsString {
    let distrusted: Vec<PathBuf> = distrusted.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let is_distrusted = |entry: &PathBuf| {
        let real = entry.canonicalize();
        let mut names = [Some(entry), real.as_ref().ok()].into_iter().flatten();
        names.any(|name| distrusted.iter().any(|folder| name.starts_with(folder)))
    };
    let entries = path.as_ref().map(std::env::split_paths).into_iter().flatten();
    let (last, first): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.filter(|entry| entry.is_absolute()).partition(is_distrusted);
    std::env::join_paths(first.into_iter().chain(last))
        .ok()
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| DEFAULT_PATH.into())
}

/// The folders in which programs are found.
pub(super) fn program_folders() -> Vec<PathBuf> {
    std::env::split_paths(&search_path(std::env::var_os("PATH"), &[])).collect()
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
    /// Begins a report of the cage's helper, which is nothing that the program printed.
    nonce: Option<String>,
    report: Option<Report>,
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
            // Such a report is written at once, and only before the program is there.
            if let Some(nonce) = self.nonce.take() {
                self.report = Report::read(&nonce, &piece[..length]);
                if self.report.is_some() {
                    continue;
                }
            }
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
    fn printed(mut self) -> Printed {
        if self.left_out > 0 {
            self.head.extend_from_slice(format!("\n[{} bytes left out]\n", self.left_out).as_bytes());
        }
        self.head.extend(self.tail);
        let text = String::from_utf8(self.head)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Printed { text, left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::run::FailureCategory;

    use super::*;

    #[test]
    fn folders_where_programs_write_come_last_if_they_are_distrusted() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("ws/bin")).unwrap();
        std::os::unix::fs::symlink("ws/bin", root.join("bin")).unwrap();
        let at = |name: &str| root.join(name).display().to_string();
        let path = Some(format!("{}:{}:here:/usr/bin", at("ws/bin"), at("bin")).into());
        let given: OsString = format!("{}:{}:/usr/bin", at("ws/bin"), at("bin")).into();
        assert_eq!(search_path(path, &[]), given);
        let safe: OsString = format!("/usr/bin:{}:{}", at("ws/bin"), at("bin")).into();
        assert_eq!(search_path(Some(given), &[root.join("ws")]), safe);
        assert_eq!(search_path(Some("here".into()), &[]), DEFAULT_PATH);
    }

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
