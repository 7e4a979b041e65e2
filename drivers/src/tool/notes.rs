//! Small files of a folder that a program may write to: what stands there may be anything. Nothing is followed out of the
//! folder, nothing but a regular file is read, and nothing waits for somebody at the other end.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};

/// How much of a note is read.
const NOTE_BYTES_MAX: u64 = 4 << 10;

/// A folder of notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notes(PathBuf);

impl Notes {
    pub(super) fn at(path: &Path) -> Notes {
        Notes(path.to_owned())
    }

    /// Writes a note in place of whatever has its name, until what is given back is dropped. The folder is made if it is
    /// not there.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<Note> {
        let folder = self.open().or_else(|_| {
            self.make();
            self.open()
        })?;
        // What cannot be removed is still there when the note is to be made.
        let _ = unlinkat(&folder, name, AtFlags::empty());
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, name, new, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(text.as_bytes())?;
        Ok(Note { notes: self.clone(), name: name.to_owned() })
    }

    /// The text of a note, unless it is none, or longer than any.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let there = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(self.open().ok()?, name, there, Mode::empty()).ok()?);
        let mut text = String::new();
        let is_file = file.metadata().ok()?.is_file();
        (is_file && file.take(NOTE_BYTES_MAX).read_to_string(&mut text).is_ok()).then_some(text)
    }

    /// Removes all notes, and whatever else stands in their place.
    pub(super) fn clear(&self) {
        // What cannot be removed is read as any note is.
        let _ = match fs::symlink_metadata(&self.0) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&self.0),
            Ok(_) => fs::remove_file(&self.0),
            Err(_) => Ok(()),
        };
    }

    /// Makes the folder, in place of what is none. Others may be at it too: what counts is whether it opens then.
    fn make(&self) {
        if fs::symlink_metadata(&self.0).is_ok_and(|found| !found.is_dir()) {
            let _ = fs::remove_file(&self.0);
        }
        let _ = fs::create_dir(&self.0);
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(open(&self.0, folder, Mode::empty())?)
    }
}

/// A note; removed when dropped.
#[derive(Debug)]
pub(super) struct Note {
    notes: Notes,
    name: String,
}

impl Drop for Note {
    fn drop(&mut self) {
        // One that stays speaks of no living process.
        let _ = self.notes.open().map(|folder| unlinkat(folder, &self.name, AtFlags::empty()));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    fn fifo(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO is made");
    }

    #[test]
    fn a_note_is_there_until_it_is_dropped() {
        let place = tempfile::tempdir().expect("a folder");
        let notes = Notes::at(&place.path().join("programs"));
        assert_eq!(notes.read("7"), None);
        let note = notes.write("7", "text").expect("written");
        assert_eq!(notes.read("7").as_deref(), Some("text"));
        drop(note);
        assert_eq!(notes.read("7"), None);
        notes.clear();
        assert!(!place.path().join("programs").exists());
    }

    #[test]
    fn what_somebody_put_in_the_place_of_a_note_is_neither_followed_nor_waited_for() {
        let place = tempfile::tempdir().expect("a folder");
        let (target, programs) = (place.path().join("target"), place.path().join("programs"));
        fs::write(&target, "kept").expect("written");
        fs::create_dir(&programs).expect("made");
        symlink(&target, programs.join("link")).expect("linked");
        symlink(place.path().join("new"), programs.join("dangling")).expect("linked");
        fifo(&programs.join("fifo"));
        fs::create_dir(programs.join("folder")).expect("made");
        let notes = Notes::at(&programs);
        for name in ["link", "dangling", "fifo", "folder"] {
            assert_eq!(notes.read(name), None, "{name}");
        }
        for name in ["link", "dangling", "fifo"] {
            let _note = notes.write(name, "text").expect(name);
            assert_eq!(notes.read(name).as_deref(), Some("text"), "{name}");
        }
        assert!(notes.write("folder", "text").is_err());
        assert_eq!(fs::read_to_string(&target).expect("there"), "kept");
        assert!(!place.path().join("new").exists());
    }

    #[test]
    fn what_stands_in_the_place_of_the_folder_gives_way() {
        let place = tempfile::tempdir().expect("a folder");
        let (other, programs) = (place.path().join("other"), place.path().join("programs"));
        fs::create_dir(&other).expect("made");
        fs::write(other.join("7"), "kept").expect("written");
        let notes = Notes::at(&programs);
        for put in [fifo, |path: &Path| symlink("other", path).expect("linked")] {
            put(&programs);
            assert_eq!(notes.read("7"), None);
            drop(notes.write("7", "text").expect("written"));
            assert_eq!(fs::read_to_string(other.join("7")).expect("there"), "kept");
            notes.clear();
        }
    }
}
