//! Bytes on disk: the record codec, frames, segment files, the list of quarantined runs, and the damage found in them.
//!
//! `online` and `maintenance` both read and write these formats; this module depends on neither. Golden tests pin the
//! layouts byte for byte.

pub(crate) mod bytes;
pub(crate) mod codec;
pub(crate) mod damage;
pub(crate) mod frame;
pub(crate) mod frame_body;
pub(crate) mod lsn;
pub(crate) mod quarantine_list;
pub(crate) mod sealed_text;
pub(crate) mod segment;
pub(crate) mod segment_files;
pub(crate) mod stream;

/// Version of a data folder: the layout and the kinds of records.
///
/// A program that adds to either has a higher version. Opening a folder for writing records the version, so earlier programs
/// refuse the folder. All earlier versions remain readable.
pub const FORMAT: u32 = 17;
