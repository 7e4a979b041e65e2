//! Putting several files in the place of others, all of them or none, whatever happens in between.
//!
//! New files are written beside the old ones under names of their own, then the file `swap` says what takes whose place: once
//! its name is durable, the change is made. Whoever opens the folder next finishes what `swap` says, as often as it takes.

use std::io;

use super::files::{read_whole, sealed, unsealed};
use crate::disk::Disk;
use crate::lock::LockLost;

/// The file that says what takes whose place.
const NAME: &str = "swap";

/// The first line of it.
const MAGIC: &str = "ostler-swap 1";

/// What a new file is called until it takes its place.
const NEW: &str = ".new";

/// What a segment is called whose room is to be used again.
const DIRTY: &str = ".dirty";

/// Room for a segment: blank, all blocks taken.
pub(crate) const SPARE: &str = ".spare";

/// A change of several files, before it is made.
pub(crate) struct Swap<'a> {
    disk: &'a dyn Disk,
    changes: Vec<Change>,
}

/// What happens to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// A new file takes its place; what it was is kept under another name, if there is one.
    Replace { name: String, keep: Option<String> },
    /// It is called otherwise from here on.
    Keep { name: String, keep: String },
    /// It goes.
    Remove { name: String },
    /// It goes, its room is kept.
    Recycle { name: String },
}

impl<'a> Swap<'a> {
    /// A change of nothing yet. What one that was cut short has left is removed.
    pub(crate) fn new(disk: &'a dyn Disk) -> io::Result<Swap<'a>> {
        for name in disk.list()?.iter().filter(|name| name.ends_with(NEW)) {
            disk.remove(name)?;
        }
        Ok(Swap { disk, changes: Vec::new() })
    }

    /// Writes the file that is to be called `name`; what is called so now is kept under `keep`.
    pub(crate) fn replace(&mut self, name: &str, bytes: &[u8], keep: Option<String>) -> io::Result<()> {
        let file = self.disk.open(&format!("{name}{NEW}"), true)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        self.changes.push(Change::Replace { name: name.to_owned(), keep });
        Ok(())
    }

    /// The file of this name is kept under another one.
    pub(crate) fn keep(&mut self, name: &str, keep: String) {
        self.changes.push(Change::Keep { name: name.to_owned(), keep });
    }

    /// The file of this name goes.
    pub(crate) fn remove(&mut self, name: &str) {
        self.changes.push(Change::Remove { name: name.to_owned() });
    }

    /// The file of this name goes, and its room is used for a segment to come.
    pub(crate) fn recycle(&mut self, name: &str) {
        self.changes.push(Change::Recycle { name: name.to_owned() });
    }

    /// Makes the change.
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
        file.write_at(sealed(MAGIC, &lines).as_bytes(), 0)?;
        file.sync()?;
        self.disk.sync()?;
        self.disk.rename(&temporary, NAME)?;
        // It is made from here on: whoever opens the journal next finishes it, and nobody tries it again.
        let finished = self.disk.sync().and_then(|()| finish(self.disk).map(drop));
        finished
            .map_err(|error| io::Error::other(format!("it is done, but for putting it in place: {error}")))
    }
}

/// Makes the change that `prepare` describes. If that fails before it is made, what was written for it goes: it may be what
/// fills the disk.
pub(crate) fn make<T>(
    disk: &dyn Disk,
    prepare: impl FnOnce(&mut Swap<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let mut swap = Swap::new(disk)?;
    let made = prepare(&mut swap).and_then(|prepared| swap.commit().map(|()| prepared));
    // Whoever has taken the folder over may have begun a change of their own.
    made.inspect_err(|error| {
        if !LockLost::is_told_by(error) {
            let _ = abandon(disk);
        }
    })
}

/// Removes what a change that was not made has left.
fn abandon(disk: &dyn Disk) -> io::Result<()> {
    let names = disk.list()?;
    let is_made = names.iter().any(|name| name == NAME);
    names.iter().filter(|name| !is_made && name.ends_with(NEW)).try_for_each(|name| disk.remove(name))
}

/// Finishes the change that is under way, if there is one; else removes what one that never came to be has left. Tells
/// whether there was one.
pub(crate) fn finish(disk: &dyn Disk) -> io::Result<bool> {
    let names = disk.list()?;
    let is_made = names.iter().any(|name| name == NAME);
    if is_made {
        for change in read(disk)? {
            perform(disk, &change)?;
        }
        disk.sync()?;
        disk.remove(NAME)?;
        disk.sync()?;
    }
    for name in disk.list()? {
        if name.ends_with(NEW) || (!is_made && name.ends_with(DIRTY)) {
            disk.remove(&name)?;
        }
    }
    Ok(is_made)
}

/// Does what is left to do of a change; once more does nothing.
fn perform(disk: &dyn Disk, change: &Change) -> io::Result<()> {
    let names = disk.list()?;
    let is_there = |name: &str| names.iter().any(|known| known == name);
    match change {
        Change::Replace { name, keep } => {
            let temporary = format!("{name}{NEW}");
            if is_there(&temporary) {
                if let Some(keep) = keep.as_ref().filter(|keep| is_there(name) && !is_there(keep)) {
                    disk.rename(name, keep)?;
                }
                disk.rename(&temporary, name)?;
            }
        }
        Change::Keep { name, keep } if is_there(name) && !is_there(keep) => disk.rename(name, keep)?,
        Change::Remove { name } if is_there(name) => disk.remove(name)?,
        Change::Recycle { name } if is_there(name) => disk.rename(name, &format!("{name}{DIRTY}"))?,
        Change::Keep { .. } | Change::Remove { .. } | Change::Recycle { .. } => {}
    }
    Ok(())
}

fn read(disk: &dyn Disk) -> io::Result<Vec<Change>> {
    let bytes = read_whole(disk, NAME)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the file swap of the journal is damaged");
    let lines = unsealed(MAGIC, &bytes).ok_or_else(wrong)?.lines();
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
    lines.map(|line| change(line).ok_or_else(wrong)).collect()
}

/// Blanks the files whose room is to be used again. Not needed for anything to be right, so whatever goes wrong with one only
/// means that it goes.
pub(crate) fn clean(disk: &dyn Disk, segment_bytes: u64) -> io::Result<()> {
    for name in disk.list()?.iter().filter_map(|name| name.strip_suffix(DIRTY)) {
        let (dirty, spare) = (format!("{name}{DIRTY}"), format!("{name}{SPARE}"));
        let blanked = disk.open(&dirty, false).and_then(|file| {
            file.set_len(segment_bytes)?;
            file.write_at(&vec![0; segment_bytes as usize], 0)?;
            file.sync()
        });
        match blanked {
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
        let text =
            |name: &String| String::from_utf8(super::super::files::read_whole(disk, name).unwrap()).unwrap();
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
        let mut swap = Swap::new(disk)?;
        swap.replace("a", b"new a", Some("a.kept".into()))?;
        swap.replace("b", b"new b", None)?;
        swap.replace("e", b"new e", None)?;
        swap.remove("c");
        swap.recycle("d");
        swap.commit()
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
                let was_made = disk.list().unwrap().iter().any(|name| name == NAME);
                finish(&disk).unwrap();
                let mut found = files(&disk);
                // The room of what went is worth nothing: without the change being under way, it goes.
                let mut expected = after.clone();
                if !was_made {
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
    fn what_says_how_to_go_on_is_believed_only_whole() {
        let disk = before();
        put(&disk, NAME, "ostler-swap 1\nremove a\ncrc32c 00000000\n");
        assert_eq!(finish(&disk).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(files(&disk)["a"], "old a");
    }
}
