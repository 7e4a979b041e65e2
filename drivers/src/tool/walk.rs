//! Lists the files of a folder, respecting `.gitignore`. Omits hidden files and data folders; does not follow links.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::DirEntry;
use globset::GlobMatcher;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ostler_kernel::event::Failure;

use super::blocking_tool::CancelFlag;
use super::tool_spec::{exhausted, structural};
use super::workspace::{Closed, Workspace};

/// Maximum directory entries of one walk.
pub const WALK_ENTRIES_MAX: usize = 1_000_000;
/// Maximum depth of folders.
pub const WALK_DEPTH_MAX: usize = 256;
/// Maximum bytes of the `.gitignore` of a folder and those of the folders above together.
pub const GITIGNORE_BYTES_MAX: u64 = 1 << 20;
/// Maximum lines of the `.gitignore` of a folder and those of the folders above together.
pub const GITIGNORE_LINES_MAX: usize = 10_000;

/// Maximum depth of braces in a glob: each level is a level of recursion where globs are compiled.
const GLOB_DEPTH_MAX: usize = 16;

pub(super) struct WalkOptions {
    /// Includes names with a leading dot, except `.git`.
    pub hidden: bool,
    /// Matched against the path relative to the folder.
    pub glob: Option<GlobMatcher>,
    /// More files are a failure.
    pub files_max: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileEntry {
    /// Relative to the workspace, with `/`.
    pub path: String,
    pub bytes: u64,
}

/// The files beneath a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    /// Sorted by the bytes of their paths.
    pub files: Vec<FileEntry>,
    /// Folders that look like data folders, relative to the workspace, sorted: nothing beneath them is among the files.
    pub data_folders: Vec<String>,
}

/// All regular files beneath `folder` (a result of [`Workspace::relative`]).
pub(super) fn walk(
    workspace: &Workspace,
    folder: &Path,
    options: &WalkOptions,
    cancel: &CancelFlag,
) -> Result<Walked, Failure> {
    let Walked { files: mut found, mut data_folders } = Walked::default();
    let mut seen = 0;
    let start = if folder == Path::new(".") { PathBuf::new() } else { folder.to_owned() };
    // Beneath it, no link is followed.
    let real = workspace.resolved(folder)?;
    let mut open = vec![(start.clone(), IgnoreRules::above(workspace, &start, cancel)?)];
    while let Some((folder, above)) = open.pop() {
        let rules = IgnoreRules::of(workspace, &folder, above, cancel)?;
        let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let opened = workspace.open_real(&real.join(beneath(&folder, &start)));
        let opened = opened.map_err(|refusal| workspace.refusal(shown, refusal))?;
        let entries = opened.entries().map_err(|error| workspace.refused(shown, error))?;
        for entry in entries {
            cancel.check()?;
            let entry = entry.map_err(|error| workspace.refused(shown, error))?;
            seen += 1;
            if seen > WALK_ENTRIES_MAX {
                return Err(exhausted(format!(
                    "more than {WALK_ENTRIES_MAX} entries beneath {}: name a smaller folder",
                    start.display()
                )));
            }
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(|error| workspace.refused(&path, error))?;
            if is_left_out(&entry, options.hidden) || rules.leave_out(&path, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                if path.components().count() > WALK_DEPTH_MAX {
                    return Err(exhausted(format!(
                        "{} lies deeper than {WALK_DEPTH_MAX} folders",
                        path.display()
                    )));
                }
                match workspace.closed(&path) {
                    None => open.push((path, rules.clone())),
                    Some(Closed::LikeData) => data_folders.push(text_of(&path)?),
                    Some(Closed::OperatorKey) => {}
                }
            } else if kind.is_file()
                && options.glob.as_ref().is_none_or(|glob| glob.is_match(beneath(&path, &start)))
            {
                if found.len() == options.files_max {
                    return Err(exhausted(format!(
                        "more than {} files beneath {}: raise max, or ask for fewer with glob",
                        options.files_max,
                        start.join(".").display()
                    )));
                }
                match entry.metadata() {
                    Ok(metadata) => found.push(FileEntry { path: text_of(&path)?, bytes: metadata.len() }),
                    Err(error) if error.kind() == ErrorKind::NotFound => {} // removed meanwhile
                    Err(error) => return Err(workspace.refused(&path, error)),
                }
            }
        }
    }
    found.sort_unstable();
    data_folders.sort_unstable();
    Ok(Walked { files: found, data_folders })
}

/// Compiles a glob: `*` stays within a folder, `**` crosses folders.
pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, Failure> {
    if is_too_deep(pattern) {
        return Err(structural(format!("no glob: braces lie deeper than {GLOB_DEPTH_MAX} levels")));
    }
    globset::GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| structural(format!("no glob: {}", error.kind())))
}

fn is_too_deep(pattern: &str) -> bool {
    let mut depth = 0_usize;
    pattern.chars().any(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > GLOB_DEPTH_MAX
    })
}

fn beneath<'a>(path: &'a Path, start: &Path) -> &'a Path {
    path.strip_prefix(start).unwrap_or(path)
}

fn is_left_out(entry: &DirEntry, hidden: bool) -> bool {
    let name = entry.file_name();
    name == ".git" || (!hidden && name.as_encoded_bytes().starts_with(b"."))
}

fn text_of(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        structural(format!(
            "the name {} is not UTF-8: rename the file, or leave it out by a glob or .gitignore",
            path.display()
        ))
    })
}

/// The `.gitignore` rules of a folder and its ancestors within the workspace.
#[derive(Debug, Clone)]
struct IgnoreRules(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    folder: PathBuf,
    own: Gitignore,
    above: IgnoreRules,
    /// Of this file and those above.
    bytes: u64,
    lines: usize,
}

impl IgnoreRules {
    fn above(workspace: &Workspace, folder: &Path, cancel: &CancelFlag) -> Result<IgnoreRules, Failure> {
        let mut rules = IgnoreRules(None);
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            rules = IgnoreRules::of(workspace, folder, rules, cancel)?;
        }
        Ok(rules)
    }

    /// Adds the `.gitignore` of `folder` to `above`. A file that cannot be opened within the workspace, such as a link leading out,
    /// adds nothing.
    fn of(
        workspace: &Workspace,
        folder: &Path,
        above: IgnoreRules,
        cancel: &CancelFlag,
    ) -> Result<IgnoreRules, Failure> {
        cancel.check()?;
        let path = folder.join(".gitignore");
        if workspace.file(&path).is_err() {
            return Ok(above);
        }
        let advice = "that is too much for a .gitignore and those above it";
        let (bytes_above, lines_above) = above.0.as_ref().map_or((0, 0), |level| (level.bytes, level.lines));
        let bytes = workspace.read(&path, GITIGNORE_BYTES_MAX - bytes_above, advice, cancel)?;
        let mut lines = lines_above;
        let mut builder = GitignoreBuilder::new(".");
        for line in String::from_utf8_lossy(&bytes).lines() {
            cancel.check()?;
            // Compilation cannot be interrupted, and takes much memory, so its input is bounded.
            if lines == GITIGNORE_LINES_MAX {
                let most = lines - lines_above;
                return Err(exhausted(format!("{} has more than {most} lines: {advice}", path.display())));
            }
            lines += 1;
            // git ignores invalid patterns too.
            if !is_too_deep(line) {
                let _ = builder.add_line(None, line);
            }
        }
        let own = builder.build().unwrap_or_else(|error| {
            // A program may have written it: the folder is listed without its rules.
            tracing::warn!(file = %path.display(), %error, "a .gitignore is too complex, and is not used");
            Gitignore::empty()
        });
        let bytes = bytes_above + bytes.len() as u64;
        Ok(IgnoreRules(Some(Arc::new(Level { folder: folder.to_owned(), own, above, bytes, lines }))))
    }

    /// True if the innermost matching rule ignores the path.
    fn leave_out(&self, path: &Path, is_dir: bool) -> bool {
        let mut rules = self;
        while let Some(level) = &rules.0 {
            match level.own.matched(beneath(path, &level.folder), is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = &level.above,
            }
        }
        false
    }
}
