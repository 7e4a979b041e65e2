//! Files as text: what the `text.*` tools read.

use std::io::Read;
use std::path::Path;

use ostler_kernel::event::Failure;

use super::blocking::Stop;
use super::workspace::Workspace;

/// Files that one call reads.
pub const FILES_MAX: usize = 100_000;
/// Bytes of one text file.
pub const TEXT_FILE_BYTES_MAX: u64 = 64 << 20;

/// How much of a file is looked at to see that it is no text, before all of it is read.
const SNIFFED_BYTES: u64 = 8 << 10;

/// The text of a file; `None` if it is binary (has a zero byte) or not UTF-8.
pub(super) fn read(workspace: &Workspace, path: &Path, stop: &Stop) -> Result<Option<String>, Failure> {
    let mut head = Vec::new();
    let file = workspace.file(path)?;
    file.take(SNIFFED_BYTES).read_to_end(&mut head).map_err(|error| workspace.refused(path, error))?;
    if head.contains(&0) {
        return Ok(None);
    }
    let bytes = workspace.read(path, TEXT_FILE_BYTES_MAX, "leave it out, or split it", stop)?;
    Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
}
