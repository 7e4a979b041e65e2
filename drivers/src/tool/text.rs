//! Reads text files for the `text.*` tools.

use std::io::Read;
use std::path::Path;

use ostler_kernel::event::Failure;

use super::blocking_tool::CancelFlag;
use super::workspace::Workspace;

/// Maximum files per call.
pub const FILES_MAX: usize = 100_000;
/// Maximum bytes of a text file.
pub const TEXT_FILE_BYTES_MAX: u64 = 64 << 20;

/// Bytes checked for a zero byte before the whole file is read.
const SNIFFED_BYTES: u64 = 8 << 10;

/// Text of a file; `None` if the file contains a zero byte or is not UTF-8.
pub(super) fn read(
    workspace: &Workspace,
    path: &Path,
    cancel: &CancelFlag,
) -> Result<Option<String>, Failure> {
    let mut head = Vec::new();
    let file = workspace.file(path)?;
    file.take(SNIFFED_BYTES).read_to_end(&mut head).map_err(|error| workspace.refused(path, error))?;
    if head.contains(&0) {
        return Ok(None);
    }
    let bytes = workspace.read(path, TEXT_FILE_BYTES_MAX, "leave it out, or split it", cancel)?;
    Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
}
