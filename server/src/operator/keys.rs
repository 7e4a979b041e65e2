//! The public keys whose operators a data folder obeys.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

/// Operators of a data folder.
pub const OPERATORS_MAX: usize = 64;

/// Bytes of an operator's name.
const NAME_BYTES_MAX: usize = 64;

const FILE: &str = "operators";

/// Bytes of the file, comments included.
const BYTES_MAX: u64 = 1 << 20;

const HEAD: &str = "# Public keys of the operators whose decisions are accepted here, with their names: `ostler operator`.\n";

/// An operator's public key, written as `ed25519:` and 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey(pub(super) [u8; 32]);

const SCHEME: &str = "ed25519:";

impl PublicKey {
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", to_hex(&self.0))
    }
}

impl FromStr for PublicKey {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicKey, String> {
        let bytes = text.strip_prefix(SCHEME).and_then(from_hex);
        bytes.and_then(|bytes| bytes.try_into().ok()).map(PublicKey).ok_or_else(|| {
            format!("{text:?} is no operator key: give {SCHEME} and 64 hex digits, as `ostler operator key` prints it")
        })
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// An accepted key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRow {
    /// The public key.
    pub key: String,
    /// Name of the operator: `by` in the journal.
    pub name: String,
}

/// Why the accepted keys were not changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyRefused {
    /// Limits of the list.
    #[error("{0}")]
    Invalid(String),
    /// The key is not among the accepted ones.
    #[error("the operator key {0} is not accepted here; `ostler operator ls` lists those that are")]
    Unknown(PublicKey),
    /// The last key cannot be removed.
    #[error("{0} is the last operator key of this data folder: add another one first")]
    Last(PublicKey),
    /// The file could not be written.
    #[error("{}: cannot be written: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// The accepted keys: read when a process takes the data folder, kept in memory, and in the file `operators` of the folder. A
/// change of the file by somebody else has no effect on a process that runs. A clone is another handle of the same keys.
#[derive(Debug, Clone, Default)]
pub struct OperatorKeys {
    file: Option<PathBuf>,
    keys: Arc<Mutex<Vec<(PublicKey, String)>>>,
    damage: Option<Arc<str>>,
}

impl OperatorKeys {
    /// Keys of a system in memory.
    pub fn in_memory() -> OperatorKeys {
        OperatorKeys::default()
    }

    /// The keys that a data folder accepts; none if it has no list yet. Only the holder of the folder may call this. A line that is no
    /// key accepts nobody: see [`OperatorKeys::damage`].
    ///
    /// # Errors
    ///
    /// The list cannot be read.
    pub fn of_data(data: &Path) -> io::Result<OperatorKeys> {
        let file = data.join(FILE);
        let text = match read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let (mut keys, mut damage) = (Vec::new(), None);
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, name) = line.split_once(' ').unwrap_or((line, "operator"));
            match (key.parse(), checked_name(name)) {
                (Ok(key), Ok(name)) => keys.push((key, name)),
                (Err(why), _) | (_, Err(why)) => {
                    damage.get_or_insert_with(|| {
                        Arc::from(format!("{}, line {}: {why}", file.display(), at + 1))
                    });
                }
            }
        }
        Ok(OperatorKeys { file: Some(file), keys: Arc::new(Mutex::new(keys)), damage })
    }

    /// The first line of the list that is no key, and what is wrong with it.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Accepts the first key: nothing changes if there are keys, or if there may have been some before the list was damaged.
    ///
    /// # Errors
    ///
    /// See [`KeyRefused`].
    pub fn enrol_first(&self, key: PublicKey, name: &str) -> Result<(), KeyRefused> {
        if self.damage.is_none() && self.lock().is_empty() { self.add(key, name) } else { Ok(()) }
    }

    /// Accepts a key, or renames an accepted one.
    ///
    /// # Errors
    ///
    /// See [`KeyRefused`].
    pub fn add(&self, key: PublicKey, name: &str) -> Result<(), KeyRefused> {
        let name = checked_name(name).map_err(KeyRefused::Invalid)?;
        self.change(|keys| {
            keys.retain(|(known, _)| *known != key);
            if keys.len() >= OPERATORS_MAX {
                let what =
                    format!("a data folder accepts at most {OPERATORS_MAX} operator keys: remove one first");
                return Err(KeyRefused::Invalid(what));
            }
            keys.push((key, name));
            Ok(())
        })
    }

    /// Accepts a key no more.
    ///
    /// # Errors
    ///
    /// See [`KeyRefused`]: the last key stays.
    pub fn remove(&self, key: &PublicKey) -> Result<(), KeyRefused> {
        self.change(|keys| match keys.iter().position(|(known, _)| known == key) {
            None => Err(KeyRefused::Unknown(*key)),
            Some(_) if keys.len() == 1 => Err(KeyRefused::Last(*key)),
            Some(at) => {
                keys.remove(at);
                Ok(())
            }
        })
    }

    /// The accepted keys, oldest first.
    pub fn rows(&self) -> Vec<OperatorRow> {
        let rows = self.lock();
        rows.iter().map(|(key, name)| OperatorRow { key: key.to_string(), name: name.clone() }).collect()
    }

    /// The name of an accepted key.
    pub(super) fn name(&self, key: &PublicKey) -> Option<String> {
        self.lock().iter().find(|(known, _)| known == key).map(|(_, name)| name.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PublicKey, String)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change counts once it is in the file.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<(PublicKey, String)>) -> Result<(), KeyRefused>,
    ) -> Result<(), KeyRefused> {
        let mut keys = self.lock();
        let mut changed = keys.clone();
        change(&mut changed)?;
        if let Some(path) = &self.file {
            write(path, &changed).map_err(|error| KeyRefused::Io { path: path.clone(), error })?;
        }
        *keys = changed;
        Ok(())
    }
}

fn write(path: &Path, keys: &[(PublicKey, String)]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let lines: String = keys.iter().map(|(key, name)| format!("{key} {name}\n")).collect();
    file.write_all(HEAD.as_bytes())?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn checked_name(name: &str) -> Result<String, String> {
    let name = name.trim();
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    fits.then(|| name.to_owned()).ok_or_else(|| {
        format!("an operator is named in 1 to {NAME_BYTES_MAX} bytes without control characters")
    })
}

/// Reads the list. A pipe or a device in its place would block, or never end.
fn read(file: &Path) -> io::Result<String> {
    let found = fs::metadata(file)?;
    if !found.is_file() || found.len() > BYTES_MAX {
        let what = format!("expected a file of at most {BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey([n; 32])
    }

    #[test]
    fn keys_are_kept_with_the_data_folder_and_the_last_one_stays() {
        let data = tempfile::tempdir().expect("a folder");
        let keys = OperatorKeys::of_data(data.path()).expect("it is empty");
        keys.enrol_first(key(1), "ann").expect("the first");
        keys.enrol_first(key(2), "eve").expect("there is one already");
        assert!(matches!(keys.remove(&key(1)), Err(KeyRefused::Last(_))));
        assert!(matches!(keys.remove(&key(2)), Err(KeyRefused::Unknown(_))));
        keys.add(key(2), "ben the second").expect("another one");
        keys.remove(&key(1)).expect("there are two");
        let read = OperatorKeys::of_data(data.path()).expect("it was written");
        assert_eq!((read.name(&key(1)), read.name(&key(2)).as_deref()), (None, Some("ben the second")));
    }

    #[test]
    fn keys_have_a_limit() {
        let keys = OperatorKeys::in_memory();
        for n in 0..OPERATORS_MAX {
            keys.add(key(n as u8), "one").expect("there is room");
        }
        assert!(matches!(keys.add(key(255), "one too many"), Err(KeyRefused::Invalid(_))));
        keys.add(key(0), "renamed").expect("it is known");
        assert_eq!(keys.rows().len(), OPERATORS_MAX);
    }

    #[test]
    fn a_damaged_line_accepts_nobody_and_the_others_count() {
        let data = tempfile::tempdir().expect("a folder");
        for text in ["ed25519:00 ann\n", "x\n", "\0\n", &format!("{} \n", key(1))] {
            fs::write(data.path().join(FILE), format!("{text}{} ben\n", key(2))).expect("it is written");
            let keys = OperatorKeys::of_data(data.path()).expect("it can be read");
            assert!(keys.damage().is_some_and(|what| what.contains("line 1")), "{text:?}");
            assert_eq!((keys.rows().len(), keys.name(&key(2)).as_deref()), (1, Some("ben")), "{text:?}");
            fs::write(data.path().join(FILE), text).expect("it is written");
            let keys = OperatorKeys::of_data(data.path()).expect("it can be read");
            keys.enrol_first(key(3), "eve").expect("nothing happens");
            assert!(keys.rows().is_empty(), "{text:?}: a damaged list is no empty one");
        }
    }
}
