//! What the file tools of a process leave alone, and where they write.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::{Dir, MetadataExt as _};
use ostler_kernel::event::Failure;

use super::config::SandboxConfig;
use super::hidden::{Hidden, data_folders};
use super::workspaces::{Workspaces, real};
use crate::tool::DataFolder;
use crate::tool::tool_spec::transient;

/// Where the file tools of a process write, and the configuration that they leave alone.
#[derive(Debug, Clone)]
pub(crate) struct FileWrites {
    configs: Vec<PathBuf>,
    workspaces: Option<Workspaces>,
    hidden: Hidden,
    /// Workspaces that this process has noted.
    noted: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl FileWrites {
    pub(crate) fn new(config: &SandboxConfig, data: Option<&DataFolder>) -> FileWrites {
        let data = data.map(|data| data.path().to_owned()).into_iter();
        FileWrites {
            configs: config.freeze.clone(),
            workspaces: config.workspaces.clone(),
            hidden: Hidden::of(data.chain(config.hide.iter().cloned())),
            noted: Arc::default(),
        }
    }

    /// Notes that a file tool is about to write in a workspace. Blocks at the first call in a workspace.
    ///
    /// # Errors
    ///
    /// The notes cannot be written.
    pub(crate) fn note(&self, workspace: &Path) -> Result<(), Failure> {
        let Some(workspaces) = &self.workspaces else { return Ok(()) };
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.contains(&workspace) {
            return Ok(());
        }
        let mut kept: BTreeSet<PathBuf> =
            self.configs.iter().filter_map(|path| path.canonicalize().ok()).collect();
        // Without those of a folder that was moved: it is not known for what it is.
        kept.extend(self.hidden.places().unwrap_or_default());
        kept.extend(data_folders(std::iter::once(&workspace)));
        workspaces.note_files(&workspace, &kept).map_err(|error| {
            transient(format!("cannot note that file tools write in {}: {error}", workspace.display()))
        })?;
        noted.insert(workspace);
        Ok(())
    }

    /// Whether a name in an open folder is a configuration of this process, also while that is missing.
    pub(crate) fn is_config(&self, folder: &Dir, name: &Path) -> bool {
        let named = folder.symlink_metadata(name).ok();
        let around = folder.dir_metadata().ok();
        self.configs.iter().any(|config| {
            let Some(file) = config.canonicalize().or_else(|_| real(config)).ok() else { return false };
            let is_same = |found: Option<&cap_std::fs::Metadata>, path: &Path| {
                let (Some(found), Ok(known)) = (found, fs::metadata(path)) else { return false };
                (found.dev(), found.ino()) == (known.dev(), known.ino())
            };
            is_same(named.as_ref(), &file)
                || (file.file_name() == Some(name.as_os_str())
                    && file.parent().is_some_and(|parent| is_same(around.as_ref(), parent)))
        })
    }
}
