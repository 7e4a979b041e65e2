//! Reads the audited folder, and creates a sample folder with findings.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use serde::{Deserialize, Serialize};

/// Maximum files; a folder with more is refused.
const FILES_MAX: usize = 2_000;

/// Maximum bytes of a scanned file. Of a larger one only the mode is checked.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A listed file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// Relative to the audited folder, with `/`.
    pub(crate) path: String,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) bytes: u64,
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureCategory::Transient, format!("{}: {error}", path.display()))
}

/// The files beneath a folder, sorted by path. Does not follow links; omits `.git`.
pub(crate) fn list(root: &Path) -> Result<Vec<Listed>, Failure> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let path = entry.map_err(|error| unreadable(&folder, &error))?.path();
            let meta = std::fs::symlink_metadata(&path).map_err(|error| unreadable(&path, &error))?;
            if meta.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                open.push(path);
            } else if meta.is_file() {
                let within = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                found.push(Listed {
                    path: within,
                    mode: meta.permissions().mode() & 0o7777,
                    bytes: meta.len(),
                });
            }
            if found.len() > FILES_MAX {
                let what = format!("more than {FILES_MAX} files: name a smaller folder");
                return Err(Failure::new(FailureCategory::Structural, what));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The text of a file, lossy; empty for a file beyond the limit.
pub(crate) fn text(root: &Path, file: &Listed) -> Result<String, Failure> {
    if file.bytes > FILE_BYTES_MAX {
        return Ok(String::new());
    }
    let path = root.join(&file.path);
    let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Path, mode and text of the sample files. The keys were never in use; the versions are real.
const PLANTED: [(&str, u32, &str); 8] = [
    ("README.md", 0o644, "# A shop\n\nRun `make`.\n"),
    (
        "app/settings.py",
        0o644,
        "DEBUG = False\nAWS_ACCESS_KEY_ID = \"AKIAIOSFODNN7EXAMPLE\"\nDB_PASSWORD = \"tR7#kQ2v!x9Zp4\"\nAPI_TOKEN = os.environ[\"API_TOKEN\"]\n",
    ),
    (
        "deploy/id_rsa",
        0o644,
        "-----BEGIN RSA PRIVATE KEY-----\nbm90IGEga2V5LCBqdXN0IHNvbWUgdGV4dA==\n-----END RSA PRIVATE KEY-----\n",
    ),
    ("scripts/backup.sh", 0o777, "#!/bin/sh\ntar -cf backup.tar data\n"),
    ("tests/fixtures/login.json", 0o644, "{\"user\": \"ann\", \"password\": \"password1\"}\n"),
    ("requirements.txt", 0o644, "# the web side\nrequests\nPyYAML==5.3\nflask==3.0.3\n"),
    (
        "package.json",
        0o644,
        "{\n  \"name\": \"shop\",\n  \"dependencies\": {\n    \"lodash\": \"4.17.15\",\n    \"left-pad\": \"*\"\n  }\n}\n",
    ),
    (
        "Cargo.toml",
        0o644,
        "[package]\nname = \"shop\"\n\n[dependencies]\nserde = \"1.0.228\"\ntime = \"=0.1.42\"\n",
    ),
];

/// Creates the sample folder, replacing a previous one.
pub(crate) fn plant(root: &Path) -> std::io::Result<()> {
    for (path, mode, text) in PLANTED {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
