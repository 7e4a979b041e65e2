//! `fs.write`: puts text into a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use rustix::fs::OFlags;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking::off_runtime;
use super::declare::{exhausted, object, parse, spec, structural};
use super::workspace::Workspace;

/// Bytes written at once.
pub const WRITE_BYTES_MAX: usize = 16 << 20;

/// Writes text to a file of the workspace; folders that are missing are made. `create` and `replace` are all
/// or nothing: the text is written beside the file, synced, and takes its name. Doing either twice is doing it
/// once: `create` accepts a file that already has exactly this text. `append` adds at the end and is not
/// repeatable. A link is followed, within the workspace.
#[derive(Debug)]
pub(super) struct FsWrite {
    spec: ToolSpec,
}

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

impl FsWrite {
    pub(super) fn new() -> FsWrite {
        let description = "Write text to a file. `create` refuses a file that exists with another text, \
                           `replace` replaces it, `append` adds to its end.";
        FsWrite {
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
        }
    }
}

impl Tool for FsWrite {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        let idem = match params.get("mode").and_then(Value::as_str) {
            Some("create" | "replace") => Idempotency::Natural,
            _ => Idempotency::None,
        };
        CallClass { impact: 1, effect: Effect::Write, idem }
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let key = permit.idempotency_key();
            let params: Params = parse(permit.into_params())?;
            off_runtime(move |_| write(&params, key, &context)).await
        })
    }
}

fn write(params: &Params, key: Digest, context: &CallContext) -> Result<Value, Failure> {
    let text = params.text.as_bytes();
    if text.len() > WRITE_BYTES_MAX {
        let found = text.len();
        return Err(exhausted(format!("the text has {found} bytes, more than {WRITE_BYTES_MAX}")));
    }
    let workspace = Workspace::open(&context.workspace)?;
    let path = workspace.relative(&params.path)?;
    workspace.guard_write(&path)?;
    let target = Target::of(&workspace, &path)?;
    match params.mode {
        Mode::Append => target.append(text),
        Mode::Replace => target.replace(text, key),
        Mode::Create => match target.create(text, key) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let same = target.has(text).map_err(|error| workspace.refused(&path, error))?;
                if !same {
                    return Err(structural(format!(
                        "{} exists already with another content: use mode replace to overwrite it",
                        path.display()
                    )));
                }
                Ok(())
            }
            done => done,
        },
    }
    .map_err(|error| workspace.refused(&path, error))?;
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
        // Through links first: what the path names is to be written, not the link replaced.
        let path = match workspace.dir().canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
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

    fn append(&self, text: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = self.folder.open_with(&self.name, &options)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file"));
        }
        file.write_all(text)?;
        file.sync_all()
    }

    fn create(&self, text: &[u8], key: Digest) -> io::Result<()> {
        let beside = self.write_beside(text, key)?;
        let linked = self.folder.hard_link(&beside, &self.folder, &self.name);
        self.folder.remove_file(&beside)?;
        linked?;
        self.sync_folder()
    }

    fn replace(&self, text: &[u8], key: Digest) -> io::Result<()> {
        let before = match self.folder.symlink_metadata(&self.name) {
            Ok(found) if found.is_file() => Some(found.permissions()),
            Ok(found) if found.is_symlink() => None, // it leads nowhere
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let beside = self.write_beside(text, key)?;
        let replaced = before
            .map_or(Ok(()), |permissions| self.folder.set_permissions(&beside, permissions))
            .and_then(|()| self.folder.rename(&beside, &self.folder, &self.name));
        if let Err(error) = replaced {
            self.folder.remove_file(&beside)?;
            return Err(error);
        }
        self.sync_folder()
    }

    /// Writes a file of its own beside the target. Its name comes from the key, so a repetition finds and
    /// removes what a crash left.
    fn write_beside(&self, text: &[u8], key: Digest) -> io::Result<PathBuf> {
        let key = key.to_string();
        let beside = PathBuf::from(format!(".ostler-{}.tmp", &key[..32]));
        match self.folder.remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.folder.open_with(&beside, OpenOptions::new().write(true).create_new(true))?;
        let written = file.write_all(text).and_then(|()| file.sync_all());
        if let Err(error) = written {
            self.folder.remove_file(&beside)?;
            return Err(error);
        }
        Ok(beside)
    }

    fn has(&self, text: &[u8]) -> io::Result<bool> {
        let found = self.folder.metadata(&self.name)?;
        Ok(found.is_file() && found.len() == text.len() as u64 && self.folder.read(&self.name)? == text)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.folder.open(".")?.sync_all()
    }
}
