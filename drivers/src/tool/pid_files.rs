//! Pid files in a folder that untrusted programs can write to. Follows no links, reads only regular files, and never blocks on a
//! pipe.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};

use super::removal::remove_folder;

/// Maximum bytes of a pid file.
const PID_FILE_BYTES_MAX: u64 = 4 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PidFiles(PathBuf);

impl PidFiles {
    pub(super) fn at(path: &Path) -> PidFiles {
        PidFiles(path.to_owned())
    }

    /// Writes a pid file in place of any entry of the same name; the file lasts until the result is dropped. Creates the folder if
    /// missing.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PidFile> {
        let folder = self.open().or_else(|_| {
            self.make();
            self.open()
        })?;
        // If removal fails, the exclusive creation below fails too.
        let _ = unlinkat(&folder, name, AtFlags::empty());
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, name, new, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(text.as_bytes())?;
        Ok(PidFile { pid_files: self.clone(), name: name.to_owned() })
    }

    /// Content of a pid file; `None` if it is missing, not a regular file, not text or too long.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let there = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(self.open().ok()?, name, there, Mode::empty()).ok()?);
        let mut text = String::new();
        let is_file = file.metadata().ok()?.is_file();
        (is_file && file.take(PID_FILE_BYTES_MAX).read_to_string(&mut text).is_ok()).then_some(text)
    }

    /// Removes the folder, or any other entry in its place.
    pub(super) fn clear(&self) {
        // Leftovers are validated when read.
        let _ = match fs::symlink_metadata(&self.0) {
            Ok(found) if found.is_dir() => remove_folder(&self.0, None),
            Ok(_) => fs::remove_file(&self.0),
            Err(_) => Ok(()),
        };
    }

    /// Creates the folder, replacing any other entry. Others may do the same concurrently; only whether the folder opens afterwards
    /// matters.
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

#[derive(Debug)]
pub(super) struct PidFile {
    pid_files: PidFiles,
    name: String,
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A leftover names no live process.
        let _ = self.pid_files.open().map(|folder| unlinkat(folder, &self.name, AtFlags::empty()));
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
        let pid_files = PidFiles::at(&place.path().join("programs"));
        assert_eq!(pid_files.read("7"), None);
        let file = pid_files.write("7", "text").expect("written");
        assert_eq!(pid_files.read("7").as_deref(), Some("text"));
        drop(file);
        assert_eq!(pid_files.read("7"), None);
        pid_files.clear();
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
        let pid_files = PidFiles::at(&programs);
        for name in ["link", "dangling", "fifo", "folder"] {
            assert_eq!(pid_files.read(name), None, "{name}");
        }
        for name in ["link", "dangling", "fifo"] {
            let _note = pid_files.write(name, "text").expect(name);
            assert_eq!(pid_files.read(name).as_deref(), Some("text"), "{name}");
        }
        assert!(pid_files.write("folder", "text").is_err());
        assert_eq!(fs::read_to_string(&target).expect("there"), "kept");
        assert!(!place.path().join("new").exists());
    }

    #[test]
    fn what_stands_in_the_place_of_the_folder_gives_way() {
        let place = tempfile::tempdir().expect("a folder");
        let (other, programs) = (place.path().join("other"), place.path().join("programs"));
        fs::create_dir(&other).expect("made");
        fs::write(other.join("7"), "kept").expect("written");
        let pid_files = PidFiles::at(&programs);
        for put in [fifo, |path: &Path| symlink("other", path).expect("linked")] {
            put(&programs);
            assert_eq!(pid_files.read("7"), None);
            drop(pid_files.write("7", "text").expect("written"));
            assert_eq!(fs::read_to_string(other.join("7")).expect("there"), "kept");
            pid_files.clear();
        }
    }
}
