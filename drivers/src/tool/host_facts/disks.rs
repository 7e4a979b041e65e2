//! Mounted file systems.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use ostler_kernel::event::Failure;
use rustix::fs::{StatVfs, statvfs};
use serde_json::{Value, json};

use super::{Proc, bytes, list};

/// File systems that answer from another machine or process, which may never answer: their sizes are not asked for.
const REMOTE: [&str; 9] = ["9p", "afs", "ceph", "cifs", "fuse", "nfs", "nfs4", "smb3", "fuseblk"];
/// A mount point that would mount something when it is asked.
const ON_DEMAND: &str = "autofs";

pub(super) fn disks(proc: &Proc<'_>) -> Result<Value, Failure> {
    let (text, is_cut) = proc.read("self/mountinfo")?;
    let mut items = Vec::new();
    for mount in mounts(&text) {
        proc.cancel.check()?;
        if mount.is_remote() {
            items.push(mount.shown(None));
        } else if let Some(size) = statvfs(&mount.path).ok().filter(|size| size.f_blocks > 0) {
            // A file system without blocks, such as proc, holds nothing.
            items.push(mount.shown(Some(&size)));
        }
    }
    Ok(list(items, is_cut))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub path: PathBuf,
    pub kind: String,
    source: String,
    read_only: bool,
}

impl Mount {
    fn is_remote(&self) -> bool {
        REMOTE.contains(&self.kind.as_str()) || self.kind.starts_with("fuse.")
    }

    fn shown(&self, size: Option<&StatVfs>) -> Value {
        let mut shown = json!({
            "path": self.path.to_string_lossy(),
            "type": self.kind,
            "source": self.source,
            "read_only": self.read_only,
        });
        if let Some(size) = size {
            shown["total_bytes"] = bytes(size.f_blocks.saturating_mul(size.f_frsize));
            shown["available_bytes"] = bytes(size.f_bavail.saturating_mul(size.f_frsize));
        }
        shown
    }
}

/// The mounts of a `mountinfo`, one for each file system: the first, which is the one nearest to the root as a rule.
pub(super) fn mounts(text: &str) -> Vec<Mount> {
    let mut devices = BTreeSet::new();
    let mut mounts = Vec::new();
    for line in text.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let ([_, _, device, _, path, options, ..], [kind, source, ..]) = (&*before, &*after) else {
            continue;
        };
        if *kind == ON_DEMAND || !devices.insert(*device) {
            continue;
        }
        mounts.push(Mount {
            path: OsString::from_vec(unescaped(path)).into(),
            kind: (*kind).to_owned(),
            source: String::from_utf8_lossy(&unescaped(source)).into_owned(),
            read_only: options.split(',').any(|option| option == "ro"),
        });
    }
    mounts
}

/// Reads the octal escapes of `mountinfo`, such as `\040` for a space.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}
