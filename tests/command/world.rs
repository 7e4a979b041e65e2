//! A temporary folder for running the command.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder with a workspace and, later, a data folder.
pub(crate) struct World {
    folder: tempfile::TempDir,
    /// The user's own configuration, away from where programs write.
    config: tempfile::TempDir,
}

/// Time limit of a command and of a wait.
const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never came to be that {what}");
        std::thread::yield_now();
    }
}

/// Kills a process at the time limit; the test then fails with its output.
pub(crate) struct Watchdog {
    /// Dropped when the process has ended.
    _done: mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn of(child: &Child) -> Watchdog {
        let (done, ended) = mpsc::channel();
        let pid = child.id().to_string();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-s", "KILL", &pid]).status();
            }
        });
        Watchdog { _done: done }
    }
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that stdout contains a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Ended {
        assert!(self.out.contains(text), "no {text:?} in stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that stderr contains a text.
    #[track_caller]
    pub(crate) fn complains(self, text: &str) -> Ended {
        assert!(self.err.contains(text), "no {text:?} in stderr:\n{}\nstdout:\n{}", self.err, self.out);
        self
    }

    /// Parses every line of stdout as JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    }
}

impl World {
    pub(crate) fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let config = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        World { folder, config }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The folder that `XDG_CONFIG_HOME` names.
    pub(crate) fn config(&self) -> &Path {
        self.config.path()
    }

    /// Writes a file beside the workspace.
    pub(crate) fn file(&self, name: &str, text: &str) -> &World {
        std::fs::write(self.path().join(name), text).unwrap();
        self
    }

    /// Content of a file in the workspace; empty if missing.
    pub(crate) fn work(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join("work").join(name)).unwrap_or_default()
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.current_dir(self.path()).args(line.split_whitespace());
        command.env_remove("OSTLER_DATA").env_remove("OSTLER_CONFIG").env_remove("OSTLER_LOG");
        command.env("XDG_CONFIG_HOME", self.config());
        command.env("OSTLER_DATA", self.data()).env("TZ", "UTC").env("USER", "ann").stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn ostler(&self, line: &str) -> Ended {
        ended(&mut self.command(line))
    }

    /// Starts a command whose stdout is read while it runs.
    pub(crate) fn start(&self, line: &str) -> Started {
        let mut child = self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let watchdog = Watchdog::of(&child);
        Started { child, lines, said: String::new(), _watchdog: watchdog }
    }
}

/// A running command.
pub(crate) struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: String,
    _watchdog: Watchdog,
}

impl Started {
    /// Waits for a line that contains this text, and returns it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            self.said.push_str(&line);
            self.said.push('\n');
            if line.contains(text) {
                return line;
            }
        }
        panic!("it never said {text:?}: {}", self.said);
    }

    /// Sends a signal, such as `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        // The process may have ended without being reaped: then nothing happens.
        Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
    }

    /// Resident memory, in bytes.
    pub(crate) fn rss_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// CPU time, which other processes do not affect.
    pub(crate) fn busy(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Field 3 is the state; fields 14 and 15 are hundredths of a second.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks: u64 = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * ticks)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn end(mut self) -> Ended {
        for line in self.lines.by_ref().map_while(Result::ok) {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        let mut err = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut err).unwrap();
        let code = self.child.wait().unwrap().code();
        Ended { code, out: std::mem::take(&mut self.said), err }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
