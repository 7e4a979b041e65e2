//! Named pipe on which a program reports progress. Each line is a heartbeat; a non-empty line is also the resume token for the
//! next attempt, should this one fail.

use std::io;
use std::path::{Path, PathBuf};

use ostler_kernel::event::Failure;
use ostler_kernel::port::{AttemptLog, AttemptLogError, TOKEN_BYTES_MAX};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

use super::temporary_folder::TemporaryFolder;
use super::tool_spec::transient;

/// Environment variable with the path of the pipe.
pub const PROGRESS: &str = "OSTLER_PROGRESS";

/// Environment variable with the last token of the previous attempt; unset if there was none.
pub const RESUME_TOKEN: &str = "OSTLER_RESUME_TOKEN";

/// A named pipe in a temporary folder of its call, removed with it.
#[derive(Debug)]
pub(super) struct ProgressPipe {
    _folder: TemporaryFolder,
    path: PathBuf,
}

impl ProgressPipe {
    /// Creates a pipe that only this user can open, for a call of a data folder; blocks meanwhile.
    pub(super) fn make(owner: &str) -> Result<ProgressPipe, Failure> {
        let folder = TemporaryFolder::make(owner)?;
        let path = folder.path().join("progress");
        make_fifo(&path).map_err(unpiped)?;
        Ok(ProgressPipe { _folder: folder, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn open(&self) -> Result<ProgressReader, Failure> {
        let receiver = OpenOptions::new().open_receiver(&self.path).map_err(unpiped)?;
        let sender = OpenOptions::new().open_sender(&self.path).map_err(unpiped)?;
        Ok(ProgressReader { receiver, _open: sender, line: Vec::new(), is_long: false })
    }
}

fn unpiped(error: io::Error) -> Failure {
    transient(format!("cannot make a pipe for the program's progress: {error}"))
}

#[cfg(target_os = "linux")]
fn make_fifo(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

#[cfg(not(target_os = "linux"))]
fn make_fifo(_: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "no named pipes are made on this system"))
}

#[derive(Debug)]
pub(super) struct ProgressReader {
    receiver: Receiver,
    /// An open writer keeps the pipe from reaching end of file.
    _open: Sender,
    line: Vec<u8>,
    /// The current line exceeds the token limit.
    is_long: bool,
}

impl ProgressReader {
    /// Reports lines to the log until the future is dropped.
    pub(super) async fn report(&mut self, log: &dyn AttemptLog) {
        let mut piece = vec![0; 4 << 10];
        loop {
            match self.receiver.read(&mut piece).await {
                Ok(length @ 1..) => self.take(&piece[..length], log),
                // With a writer open there is no end of file, and a read error is not recoverable.
                Ok(0) | Err(_) => std::future::pending().await,
            }
        }
    }

    pub(super) fn report_rest(&mut self, log: &dyn AttemptLog) {
        let mut piece = vec![0; 4 << 10];
        // Reads directly, because the runtime may not have polled the pipe's readiness yet.
        while let Ok(length @ 1..) = rustix::io::read(&self.receiver, &mut piece) {
            self.take(&piece[..length], log);
        }
    }

    fn take(&mut self, piece: &[u8], log: &dyn AttemptLog) {
        for byte in piece {
            if *byte == b'\n' {
                self.end_line(log);
            } else if self.line.len() < TOKEN_BYTES_MAX {
                self.line.push(*byte);
            } else {
                self.is_long = true;
            }
        }
    }

    fn end_line(&mut self, log: &dyn AttemptLog) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\r');
        let is_long = std::mem::take(&mut self.is_long);
        if is_long {
            tracing::warn!(
                "a line of more than {TOKEN_BYTES_MAX} bytes is no resume token: a sign of life only"
            );
        }
        // An environment variable cannot contain NUL.
        if is_long || text.is_empty() || text.contains('\0') {
            return log.heartbeat();
        }
        match log.progress(Value::from(text)) {
            Ok(()) | Err(AttemptLogError::NoLog | AttemptLogError::AttemptEnded) => {}
            Err(error) => {
                tracing::warn!(%error, "a line that is no resume token: a sign of life only");
                log.heartbeat();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Value>>);

    impl AttemptLog for Heard {
        fn progress(&self, token: Value) -> Result<(), AttemptLogError> {
            self.0.lock().unwrap().push(token);
            Ok(())
        }

        fn heartbeat(&self) {
            self.0.lock().unwrap().push(Value::Null);
        }
    }

    #[tokio::test]
    async fn each_line_is_a_token_and_what_is_none_a_sign_of_life() {
        let pipe = ProgressPipe::make("progress").unwrap();
        let path = pipe.path.clone();
        let mut lines = pipe.open().unwrap();
        let log = Heard::default();
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        std::fs::write(pipe.path(), format!("one\n\ntwo\r\n{long}\nthr")).unwrap();
        lines.report_rest(&log);
        std::fs::write(pipe.path(), "ee\n").unwrap();
        lines.report_rest(&log);
        let heard = log.0.into_inner().unwrap();
        assert_eq!(heard, ["one".into(), Value::Null, "two".into(), Value::Null, Value::from("three")]);
        drop(pipe);
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn a_pipe_of_a_killed_process_is_removed_with_the_temporary_folders() {
        let owner = format!("progress {}", std::process::id());
        let pipe = ProgressPipe::make(&owner).unwrap();
        let path = pipe.path.clone();
        // A killed process drops nothing.
        std::mem::forget(pipe);
        TemporaryFolder::remove_all_of(&owner);
        assert!(!path.parent().unwrap().exists());
    }
}
