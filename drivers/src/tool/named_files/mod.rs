//! The files of a workspace that decide what a program call does: an approval is bound to them, and the acceptance of an MCP server.

mod content;
#[cfg(test)]
mod deep_tests;
mod git;
mod git_settings;
#[cfg(test)]
mod git_tests;
mod glob;
mod patterns;
mod places;
mod search;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unbound_tests;
mod way;
#[cfg(test)]
mod word_tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::named_paths;
use ostler_kernel::port::NamedFile;
use ostler_kernel::run::FailureCategory;

use super::blocking_tool::off_runtime;
use super::tool_spec::exhausted;
use super::workspace::Workspace;
pub(crate) use content::is_as_read;
use content::unbound;
pub(crate) use places::lexical;
use search::Search;
pub(crate) use way::Way;

/// Bytes of files that are read for one call, and at each start of an MCP server. A file beyond cannot be bound.
pub(super) const NAMED_FILES_BYTES_MAX: u64 = 1 << 30;

/// Bytes of the longest standard input whose words count as words of the call: a shell runs it. Nothing is bound to a call with a longer one.
const STDIN_BYTES_MAX: usize = 1 << 20;

/// Bytes of all words of a call: no system starts a program with more, and taking them apart cannot be interrupted.
const ARGV_BYTES_MAX: usize = 6 << 20;

/// Time of the longest look at the files of one call: a question, an answer and a start wait for it.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// The words of a call that may name files, and where they are looked for.
pub(crate) struct Naming {
    pub argv: Vec<String>,
    pub stdin: Option<String>,
    /// The folder of the call, below the workspace.
    pub cwd: Option<String>,
    /// Folders that steps may write. Files there are bound by their content, and what programs read by convention, or find on the search
    /// path, counts there alone.
    pub written: Vec<PathBuf>,
    /// Folders without links that the program does not see, whatever steps do meanwhile. Files there do not count.
    pub hidden: Vec<PathBuf>,
}

/// The files below `root`, and where steps may write, that a call names or executes, by path. Files that come to be later count as soon
/// as they are there. A link that leads elsewhere is bound by where it leads. A name that cannot be looked at is listed with the reason.
pub(crate) async fn named_files(
    naming: impl FnOnce() -> Naming + Send + 'static,
    root: Arc<Path>,
) -> Vec<NamedFile> {
    let found = off_runtime(move |cancel| {
        // A look may have been given up before a thread was free.
        cancel.check()?;
        let Naming { argv, stdin, cwd, written, hidden } = naming();
        if argv.iter().map(String::len).sum::<usize>() > ARGV_BYTES_MAX {
            let what = format!(
                "its words have more than {ARGV_BYTES_MAX} bytes, with which no system starts a program"
            );
            return Err(exhausted(what));
        }
        let is_fed_much = stdin.as_ref().is_some_and(|text| text.len() > STDIN_BYTES_MAX);
        let words: Vec<String> = argv.into_iter().chain(stdin.filter(|_| !is_fed_much)).collect();
        let workspace = Workspace::open(&root)?;
        // A step can make a folder look like one that no tool may touch.
        let here = cwd.map_or_else(|| Ok(PathBuf::from(".")), |cwd| workspace.within(&cwd))?;
        let mut search = Search::new(&workspace, &root, &here, written, hidden, cancel);
        search.add_words(&named_paths(&words));
        if is_fed_much {
            let why = "of more than 1 MiB: the files that it names are not looked for";
            search.note(Path::new("standard input"), why);
        }
        search.read()
    });
    in_time(".", found).await
}

/// The files that a look at `path` finds. A look that fails, or takes too long, binds nothing, and its reason is listed: a step may have
/// made the cause, and take it away before the call starts.
pub(super) async fn in_time(
    path: &str,
    look: impl Future<Output = Result<Vec<NamedFile>, Failure>>,
) -> Vec<NamedFile> {
    let why = match tokio::time::timeout(LOOK_MAX, look).await {
        Ok(Ok(found)) => return found,
        Ok(Err(failure)) if failure.category == FailureCategory::Transient => {
            format!("cannot be looked at now: {}", failure.message)
        }
        Ok(Err(failure)) => format!("cannot be looked at: {}", failure.message),
        Err(_) => format!("cannot be looked at now: the look takes longer than {} s", LOOK_MAX.as_secs()),
    };
    vec![unbound(path.to_owned(), &why)]
}
