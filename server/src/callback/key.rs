//! The key of a data folder from which the tokens of callback addresses are derived.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ostler_kernel::callback::CallbackKey;

use crate::operator::{from_hex, random, to_hex};

const NAME: &str = "callback.key";

/// Bytes of the file that are read: more cannot be a key.
const FILE_BYTES_MAX: u64 = 256;

/// Why the key of callbacks cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("callback key {}: {what}", path.display())]
pub struct CallbackKeyError {
    /// The file.
    pub path: PathBuf,
    /// The cause, and what to do.
    pub what: String,
}

/// The key of a data folder, made at the first need; one for this process alone without a folder. Only the holder of the
/// folder may call this.
///
/// # Errors
///
/// The file cannot be read or made, is no key, or can be read by other users.
pub fn callback_key(data: Option<&Path>) -> Result<CallbackKey, CallbackKeyError> {
    let Some(data) = data else { return Ok(CallbackKey::new(random())) };
    let path = data.join(NAME);
    let failed = |what: String| CallbackKeyError { path: path.clone(), what };
    match read(&path) {
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            create(&path).map_err(|error| failed(error.to_string()))?;
            read(&path)
        }
        found => found,
    }
    .map_err(|error| match error {
        ReadError::Io(error) => failed(error.to_string()),
        ReadError::Unusable(what) => failed(what),
    })
}

enum ReadError {
    Io(io::Error),
    Unusable(String),
}

fn read(path: &Path) -> Result<CallbackKey, ReadError> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(ReadError::Io)?;
    let meta = file.metadata().map_err(ReadError::Io)?;
    if !meta.is_file() {
        return Err(ReadError::Unusable(
            "not a regular file; move it away, and a new key is made".to_owned(),
        ));
    }
    if meta.mode() & 0o077 != 0 {
        let command = format!("chmod 600 {}", path.display());
        return Err(ReadError::Unusable(format!("other users can read it; type `{command}`")));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(ReadError::Io)?;
    let bytes = from_hex(text.trim()).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let unusable = || {
        let what = "not a key, which is 64 hex digits; move it away and a new one is made: addresses sent out before no \
                    longer answer";
        ReadError::Unusable(what.to_owned())
    };
    bytes.map(CallbackKey::new).ok_or_else(unusable)
}

/// Writes a new key beside the path first, so that a crash leaves no half of one.
fn create(path: &Path) -> io::Result<()> {
    let temporary = path.with_file_name(format!("{NAME}.new"));
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{}", to_hex(&random()))?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ostler_kernel::id::{NodeId, RunId};

    use super::*;

    #[test]
    fn a_key_is_made_once_and_one_that_others_can_read_is_refused() {
        let data = tempfile::tempdir().expect("a folder");
        let token = || {
            let key = callback_key(Some(data.path()))?;
            Ok::<_, CallbackKeyError>(key.token(RunId::default(), &NodeId::from("a")))
        };
        let first = token().expect("it is made");
        assert_eq!(token().expect("it is there"), first);
        let path = data.path().join(NAME);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
        assert!(token().expect_err("others read it").to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        for text in ["", "00", "no key"] {
            fs::write(&path, text).expect("ours");
            assert!(token().expect_err("no key").to_string().contains("64 hex digits"), "{text:?}");
        }
    }
}
