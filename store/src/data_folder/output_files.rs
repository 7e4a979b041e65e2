//! Files with the output of programs: `RUN.jsonl`.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ostler_kernel::id::RunId;

/// Name of the folder in a data folder.
pub(crate) const OUTPUT_FOLDER: &str = "output";

const EXTENSION: &str = "jsonl";

pub(crate) fn output_file(root: &Path, run: RunId) -> PathBuf {
    root.join(format!("{run}.{EXTENSION}"))
}

/// Files of runs other than `kept`, with their bytes. Files named otherwise are not ours.
pub(crate) fn superfluous(root: &Path, kept: &HashSet<RunId>) -> io::Result<Vec<(PathBuf, u64)>> {
    let files = match fs::read_dir(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut found = Vec::new();
    for file in files {
        let (file, path) = file.map(|file| (file.metadata(), file.path()))?;
        let run = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<RunId>().ok());
        let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION);
        if run.is_some_and(|run| is_ours && !kept.contains(&run)) {
            found.push((path, file?.len()));
        }
    }
    found.sort();
    Ok(found)
}
