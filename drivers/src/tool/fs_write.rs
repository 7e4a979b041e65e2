//! `fs.write`: writes a text file.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{
    Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt,
};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::CallClass;
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{CallContext, Tool, ToolResult, WorkspaceUse};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::atomic_file::{AtomicFile, WriteError};
use super::blocking_tool::{BlockingTool, CancelFlag};
use super::tool_spec::{exhausted, object, spec, structural};
use super::workspace::{CHUNK_BYTES, Workspace};
use crate::cage::FileWrites;

/// Maximum bytes per call.
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

/// Writes text to a file of the workspace and creates missing folders. Follows links within the workspace. `create` and `replace`
/// are atomic: a temporary file is written, synced and renamed. Both are idempotent: `create` accepts an existing file with exactly
/// this text. `append` is neither atomic nor idempotent.
pub(super) fn tool(writes: &FileWrites) -> Arc<dyn Tool> {
    let writes = writes.clone();
    let description = "Write text to a file. `create` refuses a file that exists with another text, \
                       `replace` replaces it, `append` adds to its end.";
    Arc::new(BlockingTool::<Params> {
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
        workspace_use: WorkspaceUse::WRITES,
        check: |_| Vec::new(),
        work: Arc::new(move |params: &Params, context: &CallContext, cancel: &CancelFlag| {
            write(params, context, cancel, &writes)
        }),
    })
}

fn class(params: &Map<String, Value>) -> CallClass {
    let idem = match params.get("mode").and_then(Value::as_str) {
        Some("create" | "replace") => Idempotency::Natural,
        _ => Idempotency::None,
    };
    CallClass { impact: 1, effect: Effect::Write, idem }
}

fn write(params: &Params, context: &CallContext, cancel: &CancelFlag, writes: &FileWrites) -> ToolResult {
    let text = params.text.as_bytes();
    if text.len() > WRITE_BYTES_MAX {
        let found = text.len();
        return Err(exhausted(format!("the text has {found} bytes, more than {WRITE_BYTES_MAX}")));
    }
    let workspace = Workspace::open(&context.workspace)?;
    let path = workspace.relative(&params.path)?;
    workspace.guard_write(&path)?;
    writes.note(&context.workspace)?;
    let target = cancel.act(|| Target::of(&workspace, &path, writes))??;
    let done = match params.mode {
        Mode::Append => target.append(text, cancel),
        Mode::Replace => target.replace(text, cancel),
        Mode::Create => match target.create(text, cancel) {
            Err(WriteError::Io(error)) if error.kind() == ErrorKind::AlreadyExists => {
                target.has(text, cancel)
            }
            done => done.map(|()| true),
        }
        .and_then(|same| {
            let what = "exists already with another content: use mode replace to overwrite it";
            if same { Ok(()) } else { Err(structural(format!("{} {what}", path.display())).into()) }
        }),
    };
    done.map_err(|error| match error {
        WriteError::Io(error) => workspace.refused(&path, error),
        WriteError::Cancelled(failure) => failure,
    })?;
    let digest = Digest(*blake3::hash(text).as_bytes());
    Ok(json!({"path": path, "bytes": text.len(), "digest": digest}))
}

/// Refuses to write a file that has other names (hard links).
fn refuse_other_names(found: &Metadata) -> io::Result<()> {
    if found.nlink() <= 1 {
        return Ok(());
    }
    let what = "the file has other names (hard links), which may lie outside of the workspace: copy it, and write the copy";
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// Bits of a mode by which a program runs as the owner or the group of its file, or stays in memory.
const RUNS_AS_OTHER: u32 = 0o7000;

/// Permissions without these bits: a system clears them when a file is written, and what a plan writes runs as nobody else.
fn plain(permissions: &Permissions) -> Permissions {
    Permissions::from_mode(permissions.mode() & 0o777)
}

/// A name in an open folder. Concurrent changes of the path do not affect the folder.
pub(super) struct Target {
    folder: Dir,
    name: PathBuf,
}

impl Target {
    /// Opens the folder of `path`, and makes what is missing of the folder. The file itself may be missing.
    pub(super) fn of(workspace: &Workspace, path: &Path, writes: &FileWrites) -> Result<Target, Failure> {
        let refused = |error| workspace.refused(path, error);
        // In any mode: no mode can write to another kind of file.
        if let Ok(found) = workspace.dir().metadata(path) {
            workspace.regular(path, &found)?;
        }
        // Resolves links first, so that the link's target is written and not the link replaced.
        let real = match workspace.dir().canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => workspace.real(path),
            Err(error) => return Err(refused(error)),
        };
        let Some(name) = real.file_name() else {
            return Err(structural(format!("{} is a folder: name a file", real.display())));
        };
        // The link may have been swapped since the caller's check.
        workspace.guard_name(path, &real)?;
        let folder = workspace
            .open_or_make(real.parent().unwrap_or(Path::new("")))
            .map_err(|refusal| workspace.refusal(path, refusal))?;
        workspace.guard_config(path, &folder, Path::new(name), writes)?;
        Ok(Target { folder, name: name.into() })
    }

    /// Appends. A cancelled call may have appended a part.
    fn append(&self, text: &[u8], cancel: &CancelFlag) -> Result<(), WriteError> {
        let mut options = OpenOptions::new();
        // Links were resolved above. A link here is dangling or was created since, and its target is unchecked.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.append(true).create(true).custom_flags(flags.bits().cast_signed());
        let opened = cancel.act(|| self.folder.open_with(&self.name, &options))?;
        let mut file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => io::Error::new(ErrorKind::InvalidInput, "a link that leads nowhere"),
            _ => error,
        })?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no regular file").into());
        }
        if found.nlink() > 1 {
            // One of the names may be what a writer left that died.
            drop(AtomicFile::new(&self.folder, &self.name)?);
            refuse_other_names(&file.metadata()?)?;
        }
        if found.permissions().mode() & RUNS_AS_OTHER != 0 {
            file.set_permissions(plain(&found.permissions()))?;
        }
        for piece in text.chunks(CHUNK_BYTES) {
            cancel.act(|| file.write_all(piece))??;
        }
        Ok(file.sync_all()?)
    }

    fn create(&self, text: &[u8], cancel: &CancelFlag) -> Result<(), WriteError> {
        let mut file = AtomicFile::new(&self.folder, &self.name)?;
        file.fill(text, cancel)?;
        cancel.act(|| file.create(&self.name))??;
        Ok(self.sync_folder()?)
    }

    /// The file under the name, opened for reading. Follows no link and does not block on a pipe.
    pub(super) fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = self.folder.open_with(&self.name, &options)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no regular file"));
        }
        Ok(file)
    }

    /// What stands under the name, without following a link.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.folder.symlink_metadata(&self.name)
    }

    pub(super) fn replace(&self, text: &[u8], cancel: &CancelFlag) -> Result<(), WriteError> {
        let before = match self.folder.symlink_metadata(&self.name) {
            Ok(found) if found.is_file() => Some(plain(&found.permissions())),
            Ok(found) if found.is_symlink() => None, // dangling
            Ok(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "no regular file").into()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let mut file = AtomicFile::new(&self.folder, &self.name)?;
        if before.is_some() {
            // Behind the writers that died, each of which may have left another name.
            refuse_other_names(&self.metadata()?)?;
        }
        file.fill(text, cancel)?;
        if let Some(permissions) = before {
            file.set_permissions(permissions)?;
        }
        cancel.act(|| file.replace(&self.name))??;
        Ok(self.sync_folder()?)
    }

    /// True if the file contains exactly this text.
    fn has(&self, text: &[u8], cancel: &CancelFlag) -> Result<bool, WriteError> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = self.folder.open_with(&self.name, &options)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() != text.len() as u64 {
            return Ok(false);
        }
        let mut piece = vec![0; CHUNK_BYTES];
        for wanted in text.chunks(CHUNK_BYTES) {
            cancel.check()?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::cage::SandboxConfig;

    #[test]
    fn a_link_swapped_after_the_check_never_leads_into_a_data_folder_or_git() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["plain", ".ostler/journal", ".git"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in [".ostler/format", ".ostler/lock"] {
            fs::write(at(file), "x").unwrap();
        }
        let workspace = Workspace::open(&Arc::from(root.path())).unwrap();
        let writes = FileWrites::new(&SandboxConfig::default(), None);
        for (leads_to, written) in [
            (".ostler", "new.txt"),
            (".ostler", "sub/new.txt"),
            (".ostler/journal", "1.seg"),
            (".git", "hook"),
        ] {
            symlink("plain", at("link")).unwrap();
            let path = workspace.relative(&format!("link/{written}")).unwrap();
            workspace.guard_write(&path).unwrap();
            fs::remove_file(at("link")).unwrap();
            symlink(leads_to, at("link")).unwrap();
            let failure = Target::of(&workspace, &path, &writes).err().unwrap();
            assert!(failure.message.contains("link/"), "{}", failure.message);
            // The link is swapped even after its target was resolved.
            assert!(workspace.open_or_make(Path::new("link/sub")).is_err());
            fs::remove_file(at("link")).unwrap();
        }
        assert!(!at(".ostler/sub").exists() && !at(".git/sub").exists(), "nothing is made");
        let target = Target::of(&workspace, Path::new("plain/a/b/c.txt"), &writes).unwrap();
        assert!(target.append(b"x", &CancelFlag::default()).is_ok());
        assert_eq!(fs::read(at("plain/a/b/c.txt")).unwrap(), b"x");
    }
}
