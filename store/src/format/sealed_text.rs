//! Small text files with a checksum: a line naming the format, lines of content, and a line with the CRC-32C of all before.

use std::io;

use crate::disk::Disk;

const CHECKSUM_PREFIX: &str = "crc32c ";

const FIRST_READ_BYTES: usize = 4096;

/// Formats `lines` with the line `magic` in front and the checksum line behind.
pub(crate) fn seal(magic: &str, lines: &str) -> String {
    let text = format!("{magic}\n{lines}");
    let crc = crc32c::crc32c(text.as_bytes());
    format!("{text}{CHECKSUM_PREFIX}{crc:08x}\n")
}

/// The lines between `magic` and the checksum; `None` if either is wrong.
pub(crate) fn open<'a>(magic: &str, bytes: &'a [u8]) -> Option<&'a str> {
    let (text, crc) = std::str::from_utf8(bytes).ok()?.rsplit_once(CHECKSUM_PREFIX)?;
    let is_whole = crc.trim_end() == format!("{:08x}", crc32c::crc32c(text.as_bytes()));
    text.strip_prefix(magic)?.strip_prefix('\n').filter(|_| is_whole)
}

pub(crate) fn read_file(disk: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(name, false)?;
    let (mut bytes, mut read) = (Vec::new(), 0);
    while read == bytes.len() {
        bytes.resize(2 * read + FIRST_READ_BYTES, 0);
        read += file.read_at(&mut bytes[read..], read as u64)?;
    }
    bytes.truncate(read);
    Ok(bytes)
}
