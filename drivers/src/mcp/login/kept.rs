//! Kept logins: one file for each address, in the user's own folder, which no program of a step sees.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oauth2::TokenResponse;
use rmcp::transport::auth::{OAuthTokenResponse, StoredCredentials};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// Largest file of a login, in bytes.
const KEPT_BYTES_MAX: u64 = 2 << 20;

/// Time before the end of a token at which it is renewed; half of the token's time if that is less.
const EARLY: Duration = Duration::from_secs(30);

/// A login at one address.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// Address of the server that the tokens are for. They are sent nowhere else.
    pub(super) url: String,
    /// Answer of the server to a request without a token: it says who gives tokens.
    pub(super) challenge: Option<String>,
    /// Secret of the client.
    pub(super) client_secret: Option<String>,
    /// Scopes that calls were refused for; the next login asks for them too.
    #[serde(default)]
    pub(super) wanted: Vec<String>,
    /// Client, issuer, scopes and tokens.
    pub(super) credentials: StoredCredentials,
}

impl Kept {
    fn tokens(&self) -> Option<&OAuthTokenResponse> {
        self.credentials.token_response.as_ref()
    }

    /// The token for requests; `None` once a renewal was refused.
    pub(super) fn access(&self) -> Option<&str> {
        self.tokens().map(|tokens| tokens.access_token().secret().as_str())
    }

    /// True if the token is renewed without a person.
    pub(super) fn is_renewable(&self) -> bool {
        self.tokens().is_some_and(|tokens| tokens.refresh_token().is_some())
    }

    /// End of the token in seconds since 1970; `None` if the authorization server gave none.
    pub(super) fn until(&self) -> Option<u64> {
        let (lasts, since) = (self.tokens()?.expires_in()?, self.credentials.token_received_at?);
        Some(since.saturating_add(lasts.as_secs()))
    }

    /// True if the token ends so soon that a request would meet its end.
    pub(super) fn is_due(&self) -> bool {
        let Some(until) = self.until() else { return false };
        let lasts = self.tokens().and_then(TokenResponse::expires_in).unwrap_or_default();
        seconds_now().saturating_add(EARLY.min(lasts / 2).as_secs()) >= until
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The file of a login.
#[derive(Debug, Clone)]
pub(super) struct KeptFile {
    folder: PathBuf,
    /// Name without an extension.
    name: String,
    url: String,
}

impl KeptFile {
    /// The file for an address in the user's folder; it need not exist.
    pub(super) fn of(folder: &Path, url: &str) -> KeptFile {
        let digest = blake3::hash(url.as_bytes()).to_hex();
        KeptFile {
            folder: folder.to_owned(),
            name: format!("mcp-login-{}", &digest[..32]),
            url: url.to_owned(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    /// Reads the login; `None` without one. May block.
    ///
    /// # Errors
    ///
    /// The file cannot be read, others can read it, or it is no login at this address.
    pub(super) fn read(&self) -> io::Result<Option<Kept>> {
        let path = self.path();
        let unusable = |what: String| io::Error::other(format!("the login {}: {what}", path.display()));
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
        let file = match file {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| unusable(error.to_string()))?,
        };
        let meta = file.metadata()?;
        if !meta.is_file() || meta.mode() & 0o077 != 0 || meta.uid() != geteuid().as_raw() {
            return Err(unusable(format!(
                "others can read it, or own it; type `chmod 600 {}`",
                path.display()
            )));
        }
        let mut text = String::new();
        file.take(KEPT_BYTES_MAX).read_to_string(&mut text)?;
        // The error of the parser may quote a token.
        let kept: Kept = serde_json::from_str(&text)
            .map_err(|_| unusable("damaged; log out, and log in again".to_owned()))?;
        if kept.url != self.url {
            return Err(unusable("belongs to another address; log out, and log in again".to_owned()));
        }
        Ok(Some(kept))
    }

    /// Replaces the login; durable on return. May block.
    pub(super) fn write(&self, kept: &Kept) -> io::Result<()> {
        self.make_folder()?;
        let new = self.folder.join(format!("{}.{}.new", self.name, std::process::id()));
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = file.write_all(&serde_json::to_vec(kept)?).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&new, self.path())) {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        File::open(&self.folder)?.sync_all()
    }

    /// Removes the login. Returns whether there was one.
    pub(super) fn remove(&self) -> io::Result<bool> {
        let removed = |path: PathBuf| match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        };
        let was_there = removed(self.path())?;
        removed(self.lock_path())?;
        Ok(was_there)
    }

    /// The turn to change the login; `None` while another process or call has it.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        self.make_folder()?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(self.lock_path())?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Identity of the present file, which changes with each login and each renewal.
    pub(super) fn stamp(&self) -> Option<(u64, i64, i64)> {
        let meta = fs::symlink_metadata(self.path()).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use serde_json::json;

    use super::*;

    fn kept(url: &str, tokens: serde_json::Value) -> Kept {
        serde_json::from_value(json!({
            "url": url, "challenge": null, "client_secret": null, "credentials": {
                "client_id": "c", "token_response": tokens, "token_received_at": seconds_now() - 100,
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_login_is_its_owners_alone_and_is_read_for_its_address_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("deep");
        let (one, other) = (KeptFile::of(&folder, "https://a/mcp"), KeptFile::of(&folder, "https://b/mcp"));
        assert!(one.read().unwrap().is_none());
        one.write(&kept("https://a/mcp", json!({"access_token": "secret", "token_type": "bearer"}))).unwrap();
        assert_eq!(one.read().unwrap().unwrap().access(), Some("secret"));
        assert_eq!(one.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(other.read().unwrap().is_none());
        fs::copy(one.path(), other.path()).unwrap();
        assert!(other.read().unwrap_err().to_string().contains("another address"));
        fs::set_permissions(one.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(one.read().unwrap_err().to_string().contains("chmod 600"));
        fs::remove_file(other.path()).unwrap();
        symlink(one.path(), other.path()).unwrap();
        assert!(other.read().is_err(), "a link may lead anywhere");
        fs::set_permissions(one.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(one.path(), "{\"url\": secret").unwrap();
        let told = one.read().unwrap_err().to_string();
        assert!(told.contains("damaged") && !told.contains("secret"), "{told}");
        let lock = one.try_lock().unwrap();
        assert!(lock.is_some() && one.try_lock().unwrap().is_none());
        drop(lock);
        assert!(one.remove().unwrap());
        assert!(!one.remove().unwrap());
        let left: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, [other.path()]);
    }

    #[test]
    fn a_token_is_renewed_before_its_end() {
        for (lasts, due) in [(json!(99), true), (json!(129), true), (json!(140), false), (json!(null), false)]
        {
            let tokens = json!({"access_token": "a", "token_type": "bearer", "expires_in": lasts});
            assert_eq!(kept("https://a/", tokens).is_due(), due, "{lasts}");
        }
    }
}
