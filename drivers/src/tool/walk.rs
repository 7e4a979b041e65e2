//! The files of a folder, as a person would want them listed: without what `.gitignore` leaves out, without
//! hidden ones, links not followed, and never those of a data folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::DirEntry;
use globset::GlobMatcher;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ostler_kernel::event::Failure;

use super::blocking::Stop;
use super::declare::{exhausted, structural};
use super::workspace::Workspace;

/// Entries of folders that one walk looks at.
pub const WALK_ENTRIES_MAX: usize = 1_000_000;
/// Folders within folders.
pub const WALK_DEPTH_MAX: usize = 256;
/// Bytes of one `.gitignore`.
pub const GITIGNORE_BYTES_MAX: u64 = 1 << 20;
/// Lines of one `.gitignore`.
pub const GITIGNORE_LINES_MAX: usize = 10_000;

/// What to look for.
pub(super) struct Wanted {
    /// Names that begin with a dot, too. `.git` is never listed: it is the store of git, not part of the tree.
    pub hidden: bool,
    /// Matched against the path from the folder on.
    pub glob: Option<GlobMatcher>,
    /// More files than this are a failure.
    pub files_max: usize,
}

/// A file that was found.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// From the workspace on, with `/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// All regular files beneath `folder` (as [`Workspace::relative`] gives it), sorted by the bytes of their paths.
pub(super) fn walk(
    workspace: &Workspace,
    folder: &Path,
    wanted: &Wanted,
    stop: &Stop,
) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    let mut seen = 0;
    let start = if folder == Path::new(".") { PathBuf::new() } else { folder.to_owned() };
    let mut open = vec![(start.clone(), Rules::above(workspace, &start, stop)?)];
    while let Some((folder, above)) = open.pop() {
        let rules = Rules::of(workspace, &folder, above, stop)?;
        let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let entries = workspace.folder(shown)?.entries().map_err(|error| workspace.refused(shown, error))?;
        for entry in entries {
            stop.check()?;
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
            if is_left_out(&entry, wanted.hidden) || rules.leave_out(&path, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                if path.components().count() > WALK_DEPTH_MAX {
                    return Err(exhausted(format!(
                        "{} lies deeper than {WALK_DEPTH_MAX} folders",
                        path.display()
                    )));
                }
                if !workspace.is_data_folder(&path) {
                    open.push((path, rules.clone()));
                }
            } else if kind.is_file()
                && wanted.glob.as_ref().is_none_or(|glob| glob.is_match(beneath(&path, &start)))
            {
                if found.len() == wanted.files_max {
                    return Err(exhausted(format!(
                        "more than {} files beneath {}: raise max, or ask for fewer with glob",
                        wanted.files_max,
                        start.join(".").display()
                    )));
                }
                match entry.metadata() {
                    Ok(metadata) => found.push(Found { path: text_of(&path)?, bytes: metadata.len() }),
                    Err(error) if error.kind() == ErrorKind::NotFound => {} // gone meanwhile
                    Err(error) => return Err(workspace.refused(&path, error)),
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Compiles a glob: `*` stays within a folder, `**` crosses them.
pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, Failure> {
    globset::GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| structural(format!("no glob: {}", error.kind())))
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
            "the name {} is not UTF-8: rename the file, or leave it out by .gitignore",
            path.display()
        ))
    })
}

/// The `.gitignore` of a folder and of those above it, up to the workspace.
#[derive(Debug, Clone)]
struct Rules(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    folder: PathBuf,
    own: Gitignore,
    above: Rules,
}

impl Rules {
    /// The rules of the folders above `folder`.
    fn above(workspace: &Workspace, folder: &Path, stop: &Stop) -> Result<Rules, Failure> {
        let mut rules = Rules(None);
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            rules = Rules::of(workspace, folder, rules, stop)?;
        }
        Ok(rules)
    }

    /// `above` and what the `.gitignore` of `folder` adds. One that cannot be opened within the workspace
    /// (a link that leads out, say) adds nothing.
    fn of(workspace: &Workspace, folder: &Path, above: Rules, stop: &Stop) -> Result<Rules, Failure> {
        stop.check()?;
        let path = folder.join(".gitignore");
        if workspace.file(&path).is_err() {
            return Ok(above);
        }
        let advice = "that is too large for a .gitignore";
        let bytes = workspace.read(&path, GITIGNORE_BYTES_MAX, advice, stop)?;
        let mut builder = GitignoreBuilder::new(".");
        for (at, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            stop.check()?;
            // Compiling them all is one piece of work, which cannot be stopped.
            if at == GITIGNORE_LINES_MAX {
                return Err(exhausted(format!("{} has more than {at} lines: {advice}", path.display())));
            }
            // A line that is no pattern is none for git either.
            let _ = builder.add_line(None, line);
        }
        let own = builder.build().map_err(|error| structural(format!("{}: {error}", path.display())))?;
        Ok(Rules(Some(Arc::new(Level { folder: folder.to_owned(), own, above }))))
    }

    /// Whether the innermost rule that speaks of `path` leaves it out.
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
