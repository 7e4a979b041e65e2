//! Atomic replacement of several files.
//!
//! A rename replaces one file atomically. For several files this module keeps a redo log in the file `swap`:
//!
//! 1. Write and sync every new file as `NAME.new`, beside the old one.
//! 2. Write and sync `swap.new`, the list of changes with a checksum. Sync the folder, so that all `.new` names are durable.
//! 3. Rename `swap.new` to `swap` and sync the folder. **The commit point**: before, the change has not happened; after, it will.
//! 4. Perform the changes: rename the new files into place, remove or rename the old ones. Sync the folder.
//! 5. Remove `swap` and sync the folder.
//!
//! Every opening calls [`finish`] first. Crash cases:
//!
//! - Before the commit point there is no `swap`: all `.new` files are removed, and the old files are untouched.
//! - After the commit point there is a `swap`: `finish` performs the changes still open. Each change is idempotent, as it checks
//!   the existing names, so `finish` may itself be interrupted any number of times.
//! - A torn `swap` cannot exist: the content is synced before the rename. A checksum mismatch is damage and stops the opening.

use std::io;

use crate::disk::Disk;
use crate::disk::lock::LockLost;
use crate::format::sealed_text::{self, read_file};
use crate::format::segment::SPARE;

const NAME: &str = "swap";

const MAGIC: &str = "ostler-swap 1";

const NEW: &str = ".new";

const DIRTY: &str = ".dirty";

pub(crate) struct AtomicReplace<'a> {
    disk: &'a dyn Disk,
    changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Puts the new file in place; renames the old file to `keep`, if given.
    Replace {
        name: String,
        keep: Option<String>,
    },
    Keep {
        name: String,
        keep: String,
    },
    Remove {
        name: String,
    },
    Recycle {
        name: String,
    },
}

impl<'a> AtomicReplace<'a> {
    /// Starts without changes, after removing the new files of an interrupted preparation.
    pub(crate) fn new(disk: &'a dyn Disk) -> io::Result<AtomicReplace<'a>> {
        for name in disk.list()?.iter().filter(|name| name.ends_with(NEW)) {
            disk.remove(name)?;
        }
        Ok(AtomicReplace { disk, changes: Vec::new() })
    }

    /// Writes the new file for `name`, and keeps the old file under the name `keep`, if given.
    pub(crate) fn replace(&mut self, name: &str, bytes: &[u8], keep: Option<String>) -> io::Result<()> {
        let file = self.disk.open(&format!("{name}{NEW}"), true)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        self.changes.push(Change::Replace { name: name.to_owned(), keep });
        Ok(())
    }

    pub(crate) fn keep(&mut self, name: &str, keep: String) {
        self.changes.push(Change::Keep { name: name.to_owned(), keep });
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.changes.push(Change::Remove { name: name.to_owned() });
    }

    /// Schedules the removal of a segment, keeping the blocks for a later segment.
    pub(crate) fn recycle(&mut self, name: &str) {
        self.changes.push(Change::Recycle { name: name.to_owned() });
    }

    pub(crate) fn commit(self) -> io::Result<()> {
        let mut lines = String::new();
        for change in &self.changes {
            lines += &match change {
                Change::Replace { name, keep: Some(keep) } => format!("replace {name} {keep}\n"),
                Change::Replace { name, keep: None } => format!("replace {name}\n"),
                Change::Keep { name, keep } => format!("keep {name} {keep}\n"),
                Change::Remove { name } => format!("remove {name}\n"),
                Change::Recycle { name } => format!("recycle {name}\n"),
            };
        }
        let temporary = format!("{NAME}{NEW}");
        let file = self.disk.open(&temporary, true)?;
        file.write_at(sealed_text::seal(MAGIC, &lines).as_bytes(), 0)?;
        file.sync()?;
        self.disk.sync()?;
        self.disk.rename(&temporary, NAME)?;
        // The commit point has passed: the next opening finishes the change, and the caller must not retry.
        let finished = self.disk.sync().and_then(|()| finish(self.disk).map(drop));
        finished.map_err(|error| {
            io::Error::other(format!(
                "the change is committed, and finishing it failed: {error}; open the folder again"
            ))
        })
    }
}

/// Prepares and commits a change. A failure before the commit point removes the new files, which may be what fills the disk.
pub(crate) fn replace_all<T>(
    disk: &dyn Disk,
    prepare: impl FnOnce(&mut AtomicReplace<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let mut change = AtomicReplace::new(disk)?;
    let made = prepare(&mut change).and_then(|prepared| change.commit().map(|()| prepared));
    // After losing the lock, the new files may be another process's.
    made.inspect_err(|error| {
        if !LockLost::is_in(error) {
            let _ = abandon(disk);
        }
    })
}

fn is_committed(names: &[String]) -> bool {
    names.iter().any(|name| name == NAME)
}

fn abandon(disk: &dyn Disk) -> io::Result<()> {
    let names = disk.list()?;
    let committed = is_committed(&names);
    names.iter().filter(|name| !committed && name.ends_with(NEW)).try_for_each(|name| disk.remove(name))
}

/// Finishes a committed change, or removes the files of an uncommitted one. Returns whether a change was finished.
pub(crate) fn finish(disk: &dyn Disk) -> io::Result<bool> {
    let committed = is_committed(&disk.list()?);
    if committed {
        for change in read_changes(disk)? {
            perform(disk, &change)?;
        }
        disk.sync()?;
        disk.remove(NAME)?;
        disk.sync()?;
    }
    for name in disk.list()? {
        if name.ends_with(NEW) || (!committed && name.ends_with(DIRTY)) {
            disk.remove(&name)?;
        }
    }
    Ok(committed)
}

fn perform(disk: &dyn Disk, change: &Change) -> io::Result<()> {
    let names = disk.list()?;
    let exists = |name: &str| names.iter().any(|known| known == name);
    match change {
        Change::Replace { name, keep } => {
            let temporary = format!("{name}{NEW}");
            if exists(&temporary) {
                if let Some(keep) = keep.as_ref().filter(|keep| exists(name) && !exists(keep)) {
                    disk.rename(name, keep)?;
                }
                disk.rename(&temporary, name)?;
            }
        }
        Change::Keep { name, keep } if exists(name) && !exists(keep) => disk.rename(name, keep)?,
        Change::Remove { name } if exists(name) => disk.remove(name)?,
        Change::Recycle { name } if exists(name) => disk.rename(name, &format!("{name}{DIRTY}"))?,
        Change::Keep { .. } | Change::Remove { .. } | Change::Recycle { .. } => {}
    }
    Ok(())
}

fn read_changes(disk: &dyn Disk) -> io::Result<Vec<Change>> {
    let bytes = read_file(disk, NAME)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the journal's file swap: damaged");
    let lines = sealed_text::open(MAGIC, &bytes).ok_or_else(damaged)?.lines();
    let change = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let (verb, name, keep) = (words.next()?, words.next()?, words.next());
        match verb.as_str() {
            "replace" => Some(Change::Replace { name, keep }),
            "keep" => Some(Change::Keep { name, keep: keep? }),
            "remove" => Some(Change::Remove { name }),
            "recycle" => Some(Change::Recycle { name }),
            _ => None,
        }
    };
    lines.map(|line| change(line).ok_or_else(damaged)).collect()
}

/// Zeroes recycled segments and makes them spares. A segment that cannot be zeroed is removed; spares only save time.
pub(crate) fn zero_recycled(disk: &dyn Disk, segment_bytes: u64) -> io::Result<()> {
    for name in disk.list()?.iter().filter_map(|name| name.strip_suffix(DIRTY)) {
        let (dirty, spare) = (format!("{name}{DIRTY}"), format!("{name}{SPARE}"));
        let zeroed = disk.open(&dirty, false).and_then(|file| {
            file.set_len(segment_bytes)?;
            file.write_at(&vec![0; segment_bytes as usize], 0)?;
            file.sync()
        });
        match zeroed {
            Ok(()) => disk.rename(&dirty, &spare)?,
            Err(_) => disk.remove(&dirty)?,
        }
    }
    disk.sync()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::disk::FaultyDisk;

    fn put(disk: &FaultyDisk, name: &str, text: &str) {
        let file = disk.open(name, true).unwrap();
        file.write_at(text.as_bytes(), 0).unwrap();
        file.sync().unwrap();
        disk.sync().unwrap();
    }

    fn files(disk: &FaultyDisk) -> BTreeMap<String, String> {
        let text = |name: &String| String::from_utf8(read_file(disk, name).unwrap()).unwrap();
        disk.list().unwrap().iter().map(|name| (name.clone(), text(name))).collect()
    }

    fn before() -> FaultyDisk {
        let disk = FaultyDisk::new();
        for name in ["a", "b", "c", "d"] {
            put(&disk, name, &format!("old {name}"));
        }
        disk
    }

    fn change(disk: &FaultyDisk) -> io::Result<()> {
        let mut change = AtomicReplace::new(disk)?;
        change.replace("a", b"new a", Some("a.kept".into()))?;
        change.replace("b", b"new b", None)?;
        change.replace("e", b"new e", None)?;
        change.remove("c");
        change.recycle("d");
        change.commit()
    }

    #[test]
    fn files_change_together_wherever_the_power_is_cut_and_however_often() {
        let whole = before();
        let start = whole.changes();
        change(&whole).unwrap();
        let (steps, after) = (whole.changes() - start, files(&whole));
        assert_eq!(after["a"], "new a");
        assert_eq!((after["a.kept"].as_str(), after["d.dirty"].as_str()), ("old a", "old d"));
        assert_eq!(
            after.keys().map(String::as_str).collect::<Vec<_>>(),
            ["a", "a.kept", "b", "d.dirty", "e"]
        );
        let (mut old, mut new) = (0, 0);
        for cut in 0..steps {
            for seed in 0..20 {
                let mut disk = before();
                let untouched = files(&disk);
                disk.die_after(cut);
                change(&disk).unwrap_err();
                disk = disk.cut_power(seed);
                disk.die_after(seed % 5);
                let _ = finish(&disk);
                disk = disk.cut_power(seed + 1);
                let was_committed = disk.list().unwrap().iter().any(|name| name == NAME);
                finish(&disk).unwrap();
                let mut found = files(&disk);
                // Recycled files are removed unless the change was under way.
                let mut expected = after.clone();
                if !was_committed {
                    found.remove("d.dirty");
                    expected.remove("d.dirty");
                }
                assert!(found == untouched || found == expected, "cut {cut}, seed {seed}: {found:?}");
                old += u32::from(found == untouched);
                new += u32::from(found == expected);
            }
        }
        assert!(old > 20 && new > 20, "{old} {new}");
    }

    #[test]
    fn a_damaged_redo_log_is_refused() {
        let disk = before();
        put(&disk, NAME, "ostler-swap 1\nremove a\ncrc32c 00000000\n");
        assert_eq!(finish(&disk).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(files(&disk)["a"], "old a");
    }
}
