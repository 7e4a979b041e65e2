//! Files of operators: the lockdown in the data folder, and the policy of the configuration.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_kernel::gate::GatePolicy;
use ostler_kernel::port::{LockdownStore, PolicySource, Tool};

use crate::config::{Config, KnownTools};

/// The file of a lockdown. Its existence stops all calls.
pub(super) struct LockdownFile {
    folder: PathBuf,
}

/// Name of the file in the data folder.
const LOCKDOWN_NAME: &str = "lockdown";

impl LockdownFile {
    pub(super) fn of_data(folder: &Path) -> LockdownFile {
        LockdownFile { folder: folder.to_owned() }
    }
}

impl LockdownStore for LockdownFile {
    fn is_on(&self) -> io::Result<bool> {
        self.folder.join(LOCKDOWN_NAME).try_exists()
    }

    fn set(&self, on: bool) -> io::Result<()> {
        let path = self.folder.join(LOCKDOWN_NAME);
        if on {
            File::create(&path)?.sync_all()?;
        } else {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        File::open(&self.folder)?.sync_all()
    }
}

/// The policy of a configuration file.
pub(super) struct ConfiguredPolicy {
    pub(super) path: PathBuf,
    /// See [`Config::found`].
    pub(super) found: bool,
    pub(super) tools: Vec<Arc<dyn Tool>>,
}

impl PolicySource for ConfiguredPolicy {
    fn read(&self) -> Result<GatePolicy, String> {
        let known = KnownTools::of(&self.tools);
        let config = match self.found {
            true => Config::read_found(&self.path, &known),
            false => Config::read_named(&self.path, &known),
        };
        Ok(config.map_err(|error| error.to_string())?.gate(&self.tools))
    }
}
