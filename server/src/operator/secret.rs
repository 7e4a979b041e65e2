//! The operator's secret key, in the user's own configuration folder.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ostler_kernel::port::OPERATOR_KEY;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustix::process::geteuid;

use super::challenge::random;
use super::keys::{PublicKey, from_hex, to_hex};
use super::signed;

/// Bytes of the file that are read: more cannot be a key.
const FILE_BYTES_MAX: u64 = 256;

/// The folder of the user's own configuration: `$XDG_CONFIG_HOME/ostler` or `~/.config/ostler`. No program of a step may read it.
///
/// `None` if the environment names neither.
pub fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    base.map(|base| base.join("ostler"))
}

/// Why there is no secret key to prove an operator with.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The environment names no folder for it.
    #[error("the operator key has no place: neither XDG_CONFIG_HOME nor HOME names a folder")]
    NoFolder,
    /// The file is not a key, or open to others.
    #[error("operator key {}: {what}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The file could not be read or created.
    #[error("operator key {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// A secret key.
pub struct OperatorSecret(Ed25519KeyPair);

impl OperatorSecret {
    /// The user's key, created at the first call.
    ///
    /// # Errors
    ///
    /// See [`SecretError`].
    pub fn of_user() -> Result<OperatorSecret, SecretError> {
        let path = user_folder().ok_or(SecretError::NoFolder)?.join(OPERATOR_KEY);
        match OperatorSecret::read(&path) {
            Err(SecretError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                create(&path).map_err(|error| SecretError::Io { path: path.clone(), error })?;
                OperatorSecret::read(&path)
            }
            found => found,
        }
    }

    /// The user's key, if there is one.
    ///
    /// # Errors
    ///
    /// See [`SecretError`].
    pub fn of_user_if_any() -> Result<Option<OperatorSecret>, SecretError> {
        let Some(folder) = user_folder() else { return Ok(None) };
        match OperatorSecret::read(&folder.join(OPERATOR_KEY)) {
            Err(SecretError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Reads a key from a file that only its owner can open.
    ///
    /// # Errors
    ///
    /// See [`SecretError`].
    pub fn read(path: &Path) -> Result<OperatorSecret, SecretError> {
        let io = |error| SecretError::Io { path: path.to_owned(), error };
        let unusable = |what: String| SecretError::Unusable { path: path.to_owned(), what };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        if !meta.is_file() {
            return Err(unusable("not a regular file".to_owned()));
        }
        if meta.mode() & 0o077 != 0 || ![geteuid().as_raw(), 0].contains(&meta.uid()) {
            let command = format!("chmod 600 {}", path.display());
            return Err(unusable(format!("other users can read it, or own it; type `{command}`")));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(io)?;
        let pair = from_hex(text.trim()).and_then(|seed| Ed25519KeyPair::from_seed_unchecked(&seed).ok());
        pair.map(OperatorSecret).ok_or_else(|| {
            unusable(
                "not an operator key, which is 64 hex digits; move it away and a new one is made".to_owned(),
            )
        })
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().try_into().expect("an Ed25519 public key has 32 bytes"))
    }

    /// The value of [`PROOF_HEADER`](super::PROOF_HEADER) for a request. `target`: path and query.
    pub fn prove(&self, challenge: &str, method: &str, target: &str, body: &[u8]) -> String {
        let signature = self.0.sign(&signed(challenge, method, target, body));
        format!("{} {challenge} {}", self.public(), to_hex(signature.as_ref()))
    }
}

/// Creates a key. Of two processes that do so, one wins.
fn create(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = folder.join(format!("{OPERATOR_KEY}.{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{}", to_hex(&random()))?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Bytes of `/etc/passwd` that are read.
const ACCOUNTS_BYTES_MAX: u64 = 1 << 20;

/// Name of the account that this process runs as: the system's word, not the environment's.
pub fn account() -> String {
    let id = geteuid().as_raw();
    let mut text = String::new();
    if let Ok(file) = fs::File::open("/etc/passwd") {
        let _ = file.take(ACCOUNTS_BYTES_MAX).read_to_string(&mut text);
    }
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, found) = (fields.next()?, fields.nth(1)?);
        (found == id.to_string() && !name.is_empty()).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid {id}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/ostler-operator.key");
        create(&path).expect("it is made");
        let first = OperatorSecret::read(&path).expect("it is a key").public();
        create(&path).expect("it is there");
        assert_eq!(OperatorSecret::read(&path).expect("the same").public(), first);
        assert_eq!(fs::read_dir(path.parent().expect("a parent")).expect("a folder").count(), 1);
        for mode in [0o640, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
            assert!(matches!(OperatorSecret::read(&path), Err(SecretError::Unusable { .. })), "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_key_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ostler-operator.key");
        for text in ["", "00", "zz", &"0".repeat(63), &"0".repeat(66)] {
            let _ = fs::remove_file(&path);
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)
                .expect("ours");
            file.write_all(text.as_bytes()).expect("it is written");
            assert!(matches!(OperatorSecret::read(&path), Err(SecretError::Unusable { .. })), "{text:?}");
        }
        assert!(matches!(OperatorSecret::read(folder.path()), Err(SecretError::Unusable { .. })));
    }

    #[test]
    fn a_proof_holds_for_one_request() {
        let secret = OperatorSecret(Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("32 bytes"));
        let proof = secret.prove("c", "POST", "/v1/x?y", b"{}");
        let signature = from_hex(proof.rsplit(' ').next().expect("a signature")).expect("hex");
        let holds = |challenge, method, target, body: &[u8]| {
            secret.public().verifies(&signed(challenge, method, target, body), &signature)
        };
        assert!(holds("c", "POST", "/v1/x?y", b"{}"));
        for (challenge, method, target, body) in [
            ("d", "POST", "/v1/x?y", "{}"),
            ("c", "PUT", "/v1/x?y", "{}"),
            ("c", "POST", "/v1/x", "{}"),
            ("c", "POST", "/v1/x?y", ""),
        ] {
            assert!(!holds(challenge, method, target, body.as_bytes()));
        }
    }
}
