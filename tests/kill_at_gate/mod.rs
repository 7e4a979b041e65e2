//! A process that is killed exactly at the first approval of a case study.

use std::io::{BufRead, BufReader, Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable that makes a test binary the worker: its folder.
const WORKER: &str = "OSTLER_TEST_HELD";

/// Folder of the worker, if this process is one.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(WORKER).map(PathBuf::from)
}

/// Runs the test `worker` in a process of its own, and kills it after its first approval.
pub(crate) fn kill_at_first_gate(folder: &Path) {
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker.args(["worker", "--exact", "--nocapture", "--test-threads=1"]).env(WORKER, folder);
    let mut worker = worker.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines().map_while(Result::ok);
    let passed = lines.any(|line| line.contains("gate  "));
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(passed, "it ended before its first gate");
}

/// Output that blocks after the line of the first approval.
pub(crate) struct Held {
    out: Stdout,
    is_at_gate: bool,
}

impl Held {
    pub(crate) fn new() -> Held {
        Held { out: std::io::stdout(), is_at_gate: false }
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.is_at_gate |= bytes.starts_with(b"gate");
        let written = self.out.write(bytes)?;
        self.out.flush()?;
        while self.is_at_gate && bytes.ends_with(b"\n") {
            std::thread::park();
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
