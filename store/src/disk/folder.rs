//! A folder of the file system.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::safe_open::open_regular;
use super::{Disk, DiskFile, Extent};

/// A folder of the file system.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at `path`, which must exist.
    pub fn new(path: &Path) -> Folder {
        Folder(path.to_owned())
    }
}

impl Disk for Folder {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.0.join(name);
        let mut both = File::options();
        let opened = match open_regular(both.read(true).write(true).create(create).truncate(false), &path) {
            // A read-only folder can still be verified.
            Err(error) if !create && is_read_only(&error) => open_regular(File::options().read(true), &path)?,
            opened => opened?,
        };
        match opened {
            Some(file) => Ok(Arc::new(file)),
            None => Err(io::Error::other(format!("{name} is not a regular file: inspect and remove it"))),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match FileExt::read_at(self, &mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn extent(&self) -> io::Result<Extent> {
        let len = self.metadata()?.len();
        let mut at = 0;
        while at < len {
            // File systems without support for holes report the end of the file.
            let Ok(hole) = seek(self, SeekFrom::Hole(at)) else { break };
            match seek(self, SeekFrom::Data(hole)) {
                Ok(data) => at = data,
                Err(Errno::NXIO) => return Ok(Extent { len, used: hole }),
                Err(_) => break,
            }
        }
        Ok(Extent { len, used: len })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trailing_hole_is_not_part_of_the_used_bytes() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disk = Folder::new(folder.path());
        let file = disk.open("file", true).unwrap();
        assert_eq!(file.extent().unwrap(), Extent { len: 0, used: 0 });
        let len = 64 << 20;
        file.set_len(len).unwrap();
        for (at, end) in [(0, 4), (9 << 20, (9 << 20) + 4), (5 << 20, (9 << 20) + 4)] {
            file.write_at(b"here", at).unwrap();
            let extent = file.extent().unwrap();
            assert!(
                extent.len == len && (end..=len).contains(&extent.used),
                "{extent:?}, written up to {end}"
            );
            let mut rest = vec![1; (len - extent.used) as usize];
            assert_eq!(file.read_at(&mut rest, extent.used).unwrap(), rest.len());
            assert!(rest.iter().all(|byte| *byte == 0));
        }
    }
}
