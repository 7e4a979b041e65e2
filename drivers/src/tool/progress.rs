//! The pipe through which a program tells how far it has come: each line that it writes there is a sign of life, and a line that
//! is not empty is what the next attempt is given, if this one fails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ostler_kernel::port::{AttemptLog, AttemptLogError, TOKEN_BYTES_MAX};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// The environment variable that tells a program where the pipe is.
pub const PROGRESS: &str = "OSTLER_PROGRESS";

/// The environment variable that gives a program what the attempt before it told last; absent if that told nothing.
pub const RESUME_TOKEN: &str = "OSTLER_RESUME_TOKEN";

/// A pipe in a folder of its own, which goes with it.
#[derive(Debug)]
pub(super) struct Pipe {
    folder: PathBuf,
    path: PathBuf,
}

impl Pipe {
    /// Makes one that only this user can open. Blocks for as long as that takes.
    pub(super) fn make() -> io::Result<Pipe> {
        static PIPES: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let number = PIPES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ostler-{}-{number}-{nanos:x}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        let pipe = Pipe { path: folder.join("progress"), folder };
        make_fifo(&pipe.path)?;
        Ok(pipe)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for reading; it has no end as long as this is there.
    pub(super) fn open(&self) -> io::Result<Lines> {
        let receiver = OpenOptions::new().open_receiver(&self.path)?;
        let sender = OpenOptions::new().open_sender(&self.path)?;
        Ok(Lines { receiver, _open: sender, line: Vec::new(), is_long: false })
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // What cannot be removed lies among the temporary files.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_dir(&self.folder);
    }
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

/// What comes out of the pipe.
#[derive(Debug)]
pub(super) struct Lines {
    receiver: Receiver,
    /// So that there is somebody who might write.
    _open: Sender,
    line: Vec<u8>,
    /// The line that is being read is longer than a token may be.
    is_long: bool,
}

impl Lines {
    /// Tells the log of every line, for as long as this is waited for.
    pub(super) async fn tell(&mut self, log: &dyn AttemptLog) {
        let mut piece = vec![0; 4 << 10];
        loop {
            match self.receiver.read(&mut piece).await {
                Ok(length @ 1..) => self.take(&piece[..length], log),
                // It has no end, and no errors but those of who reads it.
                Ok(0) | Err(_) => std::future::pending().await,
            }
        }
    }

    /// Tells the log of what is in the pipe by now.
    pub(super) fn tell_rest(&mut self, log: &dyn AttemptLog) {
        let mut piece = vec![0; 4 << 10];
        // Not by way of the runtime, which may not have heard yet that there is something.
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
        // No program could be given a NUL in its environment.
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

    use ostler_kernel::event::{Failure, StepKey};
    use ostler_kernel::plan::Idempotency;
    use ostler_kernel::port::{StepStart, BoxFuture, ChildRunSpec, ChildRunResult, NoLog};

    use super::*;

    /// Keeps what it is told; a sign of life as null.
    #[derive(Default)]
    struct Heard(Mutex<Vec<Value>>);

    impl AttemptLog for Heard {
        fn resume_token(&self) -> Result<Option<Value>, AttemptLogError> {
            Ok(None)
        }
        fn progress(&self, token: Value) -> Result<(), AttemptLogError> {
            self.0.lock().unwrap().push(token);
            Ok(())
        }
        fn heartbeat(&self) {
            self.0.lock().unwrap().push(Value::Null);
        }
        fn heartbeat_ms(&self) -> Option<u64> {
            None
        }
        fn begin<'a>(
            &'a self,
            step: &'a str,
            key: StepKey,
            acting: Option<Idempotency>,
        ) -> BoxFuture<'a, Result<StepStart, AttemptLogError>> {
            NoLog.begin(step, key, acting)
        }
        fn end<'a>(
            &'a self,
            step: &'a str,
            ended: Result<&'a Value, &'a Failure>,
            durable: bool,
        ) -> BoxFuture<'a, Result<(), AttemptLogError>> {
            NoLog.end(step, ended, durable)
        }
        fn abandon(&self, _: &str) {}
        fn spawn<'a>(&'a self, step: &'a str, child: ChildRunSpec) -> BoxFuture<'a, Result<ChildRunResult, AttemptLogError>> {
            NoLog.spawn(step, child)
        }
    }

    #[tokio::test]
    async fn each_line_is_a_token_and_what_is_none_a_sign_of_life() {
        let pipe = Pipe::make().unwrap();
        let folder = pipe.folder.clone();
        let mut lines = pipe.open().unwrap();
        let log = Heard::default();
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        std::fs::write(pipe.path(), format!("one\n\ntwo\r\n{long}\nthr")).unwrap();
        lines.tell_rest(&log);
        std::fs::write(pipe.path(), "ee\n").unwrap();
        lines.tell_rest(&log);
        let heard = log.0.into_inner().unwrap();
        assert_eq!(heard, ["one".into(), Value::Null, "two".into(), Value::Null, Value::from("three")]);
        drop(pipe);
        assert!(!folder.exists());
    }
}
