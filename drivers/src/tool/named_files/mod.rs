//! The files of a workspace that decide what a program call does: an approval is bound to them, and the acceptance of an MCP server.

mod content;
mod git;
mod glob;
mod search;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_kernel::gate::named_paths;
use ostler_kernel::port::NamedFile;

use super::blocking_tool::off_runtime;
use super::workspace::Workspace;
use search::Search;
pub(crate) use search::lexical;

/// Bytes that are read for one call of a tool.
pub(super) const READ_BYTES_MAX: u64 = 64 << 20;

/// Bytes of the longest standard input whose words count as words of the call: a shell runs it.
const STDIN_BYTES_MAX: usize = 1 << 20;

/// The words of a call that may name files, and where they are looked for.
pub(crate) struct Naming {
    pub argv: Vec<String>,
    pub stdin: Option<String>,
    /// The folder of the call, below the workspace.
    pub cwd: Option<String>,
    /// What programs read by convention, and find on the search path, counts at and below this folder, which a step may write. Paths
    /// that are named count wherever they lead.
    pub written_below: Arc<Path>,
    /// Bytes that are read. A file beyond is bound by its size and times, which no program can set back.
    pub read_bytes_max: u64,
}

/// The files below `root` that a call names or executes, by path. Files that come to be later count as soon as they are there. A link
/// that leads out of the workspace is bound by where it leads.
pub(crate) async fn named_files(naming: Naming, root: Arc<Path>) -> Vec<NamedFile> {
    let found = off_runtime(move |cancel| {
        let Naming { argv, stdin, cwd, written_below, read_bytes_max } = naming;
        let stdin = stdin.filter(|text| text.len() <= STDIN_BYTES_MAX);
        let words: Vec<String> = argv.into_iter().chain(stdin).collect();
        let workspace = Workspace::open(&root)?;
        let here = cwd.map_or_else(|| Ok(PathBuf::from(".")), |cwd| workspace.relative(&cwd))?;
        let mut search = Search::new(&workspace, &root, &here, &written_below);
        search.add_words(&named_paths(&words));
        search.read(read_bytes_max, cancel)
    });
    // The call itself tells what is wrong with its folder.
    found.await.unwrap_or_default()
}
