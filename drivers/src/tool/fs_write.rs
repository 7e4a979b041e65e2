//! `fs.write`: puts text into a file.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::CallClass;
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{CallContext, Tool, ToolResult};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::beside::{Beside, NotDone};
use super::blocking::{Blocking, Stop};
use super::declare::{exhausted, object, spec, structural};
use super::workspace::{PIECE_BYTES, Workspace};

/// Bytes written at once.
pub const WRITE_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    path: String,
    text: String,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Create,
    Replace,
    Append,
}

/// Writes text to a file of the workspace; folders that are missing are made. `create` and `replace` are all
/// or nothing: the text is written beside the file, synced, and takes its name. Doing either twice is doing it
/// once: `create` accepts a file that already has exactly this text. `append` adds at the end and is not
/// repeatable. A link is followed, within the workspace.
pub(super) fn tool() -> Arc<dyn Tool> {
    let description = "Write text to a file. `create` refuses a file that exists with another text, \
                       `replace` replaces it, `append` adds to its end.";
    Arc::new(Blocking::<Params> {
        spec: spec(
            "fs.write",
            description,
            object(
                &["path", "text", "mode"],
                json!({
                    "path": {"type": "string", "format": "path", "minLength": 1},
                    "text": {"type": "string", "maxLength": WRITE_BYTES_MAX},
                    "mode": {"enum": ["create", "replace", "append"]},
                }),
            ),
            object(
                &["path", "bytes", "digest"],
                json!({
                    "path": {"type": "string"},
                    "bytes": {"type": "integer", "minimum": 0},
                    "digest": {"type": "string"},
                }),
            ),
        ),
        class,
        check: |_| Vec::new(),
        work: write,
    })
}

fn class(params: &Map<String, Value>) -> CallClass {
    let idem = match params.get("mode").and_then(Value::as_str) {
        Some("create" | "replace") => Idempotency::Natural,
        _ => Idempotency::None,
    };
    CallClass { impact: 1, effect: Effect::Write, idem }
}

fn write(params: &Params, context: &CallContext, stop: &Stop) -> ToolResult {
    let text = params.text.as_bytes();
    if text.len() > WRITE_BYTES_MAX {
        let found = text.len();
        return Err(exhausted(format!("the text has {found} bytes, more than {WRITE_BYTES_MAX}")));
    }
    let workspace = Workspace::open(&context.workspace)?;
    let path = workspace.relative(&params.path)?;
    workspace.guard_write(&path)?;
    let target = stop.act(|| Target::of(&workspace, &path))??;
    let done = match params.mode {
        Mode::Append => target.append(text, stop),
        Mode::Replace => target.replace(text, stop),
        Mode::Create => match target.create(text, stop) {
            Err(NotDone::Io(error)) if error.kind() == ErrorKind::AlreadyExists => target.has(text, stop),
            done => done.map(|()| true),
        }
        .and_then(|same| {
            let what = "exists already with another content: use mode replace to overwrite it";
            if same { Ok(()) } else { Err(structural(format!("{} {what}", path.display())).into()) }
        }),
    };
    done.map_err(|error| match error {
        NotDone::Io(error) => workspace.refused(&path, error),
        NotDone::GivenUp(failure) => failure,
    })?;
    let digest = Digest(*blake3::hash(text).as_bytes());
    Ok(json!({"path": path, "bytes": text.len(), "digest": digest}))
}

/// A name in an open folder. Whatever happens to the path meanwhile, the folder stays the same.
struct Target {
    folder: Dir,
    name: PathBuf,
}

impl Target {
    fn of(workspace: &Workspace, path: &Path) -> Result<Target, Failure> {
        let refused = |error| workspace.refused(path, error);
        // In whatever mode: no other one can write to it either.
        if let Ok(found) = workspace.dir().metadata(path) {
            workspace.regular(path, &found)?;
        }
        // Through links first: what the path names is to be written, not the link replaced.
        let path = match workspace.dir().canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(refused(error)),
        };
        let Some(name) = path.file_name() else {
            return Err(structural(format!("{} is a folder: name a file", path.display())));
        };
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                workspace.dir().create_dir_all(parent).map_err(refused)?;
                workspace.folder(parent)?
            }
            _ => workspace.folder(Path::new("."))?,
        };
        Ok(Target { folder, name: name.into() })
    }

    /// Adds at the end. What was added when the call is given up stands.
    fn append(&self, text: &[u8], stop: &Stop) -> Result<(), NotDone> {
        let mut options = OpenOptions::new();
        // What the path names was found through its links: one that is there still leads nowhere, or was put there since, and
        // what it would make has not been judged.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.append(true).create(true).custom_flags(flags.bits().cast_signed());
        let opened = stop.act(|| self.folder.open_with(&self.name, &options))?;
        let mut file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => io::Error::new(ErrorKind::InvalidInput, "a link that leads nowhere"),
            _ => error,
        })?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no regular file").into());
        }
        for piece in text.chunks(PIECE_BYTES) {
            stop.act(|| file.write_all(piece))??;
        }
        Ok(file.sync_all()?)
    }

    fn create(&self, text: &[u8], stop: &Stop) -> Result<(), NotDone> {
        let mut beside = Beside::new(&self.folder, &self.name)?;
        beside.fill(text, stop)?;
        stop.act(|| beside.create(&self.name))??;
        Ok(self.sync_folder()?)
    }

    fn replace(&self, text: &[u8], stop: &Stop) -> Result<(), NotDone> {
        let before = match self.folder.symlink_metadata(&self.name) {
            Ok(found) if found.is_file() => Some(found.permissions()),
            Ok(found) if found.is_symlink() => None, // it leads nowhere
            Ok(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "no regular file").into()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let mut beside = Beside::new(&self.folder, &self.name)?;
        beside.fill(text, stop)?;
        if let Some(permissions) = before {
            beside.set_permissions(permissions)?;
        }
        stop.act(|| beside.replace(&self.name))??;
        Ok(self.sync_folder()?)
    }

    /// Whether the file holds exactly this text.
    fn has(&self, text: &[u8], stop: &Stop) -> Result<bool, NotDone> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = self.folder.open_with(&self.name, &options)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() != text.len() as u64 {
            return Ok(false);
        }
        let mut piece = vec![0; PIECE_BYTES];
        for wanted in text.chunks(PIECE_BYTES) {
            stop.check()?;
            let piece = &mut piece[..wanted.len()];
            match file.read_exact(piece) {
                Ok(()) if piece == wanted => {}
                Ok(()) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.folder.open(".")?.sync_all()
    }
}
