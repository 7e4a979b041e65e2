//! The options that bound a run: impact, scope and workspace.

use std::path::{Path, PathBuf};

use clap::Args;
use ostler::config::SCOPE_DEFAULT;

use crate::cli::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct Bounds {
    /// Highest impact allowed: 0 observe, 1 operate, 2 control [default: default_intent of the policy, 1]
    #[arg(long, value_name = "0..2", allow_negative_numbers = true, value_parser = intent)]
    pub(crate) intent: Option<u8>,
    /// Scope: the tools that the run may call
    #[arg(long, value_name = "NAME", default_value = SCOPE_DEFAULT)]
    pub(crate) scope: String,
    /// Folder that the tools may access
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
}

impl Bounds {
    /// Returns the workspace as an absolute UTF-8 path.
    pub(crate) fn workspace(&self) -> Result<String, Failure> {
        let shown = self.workspace.display();
        let workspace = self
            .workspace
            .canonicalize()
            .map_err(|error| Failure::invalid(format!("workspace {shown}: {error}")))?;
        if !workspace.is_dir() {
            return Err(Failure::invalid(format!("workspace {shown}: not a folder")));
        }
        workspace
            .into_os_string()
            .into_string()
            .map_err(|_| Failure::invalid(format!("workspace {shown}: path is not UTF-8")))
    }
}

/// Rejects a workspace inside the data folder: tools may not access that.
pub(crate) fn check_outside_data(workspace: &Path, data: &Path) -> Result<(), Failure> {
    let Some(data) = data.canonicalize().ok().filter(|data| workspace.starts_with(data)) else {
        return Ok(());
    };
    let what = if workspace == data {
        "is the data folder".to_owned()
    } else {
        format!("is inside the data folder {}", data.display())
    };
    Err(Failure::invalid(format!(
        "workspace {}: {what}, which tools may not access; name another folder with --workspace, or keep \
         the data elsewhere with --data",
        workspace.display(),
    )))
}

pub(crate) fn intent(text: &str) -> Result<u8, String> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "2" => Ok(2),
        _ => Err("give 0 (observe), 1 (operate) or 2 (control)".to_owned()),
    }
}
