//! The configuration of a command, and the location of its data folder.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ostler::config::{CONFIG_BYTES_MAX, Config, ConfigError, KnownTools, StoreUrl};
use ostler_drivers::cage::Workspaces;
use ostler_drivers::regular_file::read_text;
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::plan::MODEL_DEFAULT;
use ostler_server::user_folder;
use ostler_store::Store;

use crate::cli::arguments::Globals;
use crate::cli::exit::Failure;
use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::{findings, hints};
use crate::cli::session::open_errors::open_failure;

/// Loads the configuration and returns the data folder; `None`: in memory.
pub(crate) fn load_settings(
    globals: &Globals,
    workspace: &Path,
) -> Result<(Config, Option<PathBuf>), Failure> {
    read_settings(globals, workspace).map_err(|fault| fault.report(globals))
}

/// Reason why a command has no settings; nothing is printed yet.
pub(crate) enum SettingsFault {
    /// The configuration beside the data folder or in the workspace has faults, or may be the work of a program.
    Found {
        path: PathBuf,
        error: ConfigError,
    },
    Other(Failure),
}

impl SettingsFault {
    /// Prints the faults of the configuration.
    pub(crate) fn report(self, globals: &Globals) -> Failure {
        match self {
            SettingsFault::Found { error, .. } => refused(error, globals),
            SettingsFault::Other(failure) => failure,
        }
    }

    /// The configuration that a command can do without where another process holds the data folder and has its own. The operator's
    /// file may name another data folder: only a file that a step may have left is not believed in that.
    pub(crate) fn spared(&self, globals: &Globals) -> Option<&Path> {
        match self {
            SettingsFault::Found { path, error: ConfigError::Distrusted(_) } => Some(path),
            SettingsFault::Found { path, .. } => {
                let names_store =
                    || read_text(path, CONFIG_BYTES_MAX as u64).map_or(true, |text| text.contains("store"));
                (globals.data.is_some() || !names_store()).then_some(path)
            }
            SettingsFault::Other(_) => None,
        }
    }
}

impl From<Failure> for SettingsFault {
    fn from(failure: Failure) -> SettingsFault {
        SettingsFault::Other(failure)
    }
}

/// Data folder of a command whose configuration cannot be used; `None` if the folder, too, may be made by programs of steps.
pub(crate) fn folder_without_settings(globals: &Globals) -> Option<PathBuf> {
    let data = globals.data.clone().unwrap_or_else(|| PathBuf::from(ostler::DATA_FOLDER));
    check_data_origin(&data).is_ok().then_some(data)
}

/// Like [`load_settings`], but prints nothing.
pub(crate) fn read_settings(
    globals: &Globals,
    workspace: &Path,
) -> Result<(Config, Option<PathBuf>), SettingsFault> {
    let named = globals.data.clone();
    if let Some(memory) = named.as_deref().filter(|data| data.as_os_str() == "memory:") {
        return Err(not_a_folder(memory).into());
    }
    let data = named.clone().unwrap_or_else(|| PathBuf::from(ostler::DATA_FOLDER));
    if data.to_str().is_none() {
        let what = format!("data folder {}: the path is not UTF-8; name another with --data", data.display());
        return Err(Failure::invalid(what).into());
    }
    // The configuration may be in a data folder that cannot be read.
    data_folder_exists(&data)?;
    let found = Config::find(globals.config.as_deref(), &data, workspace);
    let mut config = match &found {
        Some(path) if globals.config.is_some() => Config::read_named(path, &tools())
            .map_err(|error| SettingsFault::Other(refused(error, globals)))?,
        Some(path) => Config::read_found(path, &tools())
            .map_err(|error| SettingsFault::Found { path: path.clone(), error })?,
        None => Config::default(),
    };
    if let Some(extra) = globals.extra_model.clone() {
        // Judges and sub-agents ask the default model too.
        if extra.file.is_some() {
            config.models.insert(MODEL_DEFAULT.to_owned(), extra.config.clone());
        }
        config.models.insert(extra.name, extra.config);
    }
    let data = match (named, &config.store.url) {
        (None, Some(StoreUrl::File(path))) => Some(path.clone()),
        (None, Some(StoreUrl::Memory)) => None,
        (Some(named), Some(StoreUrl::Memory)) => {
            return Err(contradiction(&named, &found.unwrap_or_default()).into());
        }
        (Some(_), Some(StoreUrl::File(_)) | None) | (None, None) => Some(data),
    };
    if let Some(data) = &data {
        check_data_origin(data)?;
    }
    let config =
        config.with_servers(data.as_deref()).map_err(|error| Failure::store(format!("MCP: {error}")))?;
    Ok((config, data))
}

/// Failure for the address of a store in the place of a data folder.
fn not_a_folder(named: &Path) -> Failure {
    let given = match hints::has_data_option() {
        true => hints::option("data", named),
        false => format!("OSTLER_DATA={}", named.display()),
    };
    Failure::invalid(format!(
        "{given} names no folder; to keep nothing, write url = \"memory:\" in [store] of the configuration"
    ))
}

/// Failure for a data folder that is named although the configuration keeps the data in memory.
fn contradiction(data: &Path, config: &Path) -> Failure {
    let (given, omit) = match hints::has_data_option() {
        true => (hints::option("data", data), "omit --data"),
        false => (format!("OSTLER_DATA={}", data.display()), "unset OSTLER_DATA"),
    };
    Failure::invalid(format!(
        "{given} contradicts url = \"memory:\" in [store] of {}, which keeps nothing; {omit}, or remove the url",
        config.display()
    ))
}

/// All built-in tools, including those that a configuration can disable or has to enable.
fn tools() -> KnownTools {
    KnownTools::of(&builtin(&ToolConfig::complete(), None))
}

/// Refuses a data folder that programs of steps may have made: with grants and operators of its own it would approve their runs.
fn check_data_origin(data: &Path) -> Result<(), Failure> {
    let Some(workspaces) = user_folder().as_deref().map(Workspaces::at) else { return Ok(()) };
    let place = data.display();
    match workspaces.trusts_folder(data) {
        Ok(true) => Ok(()),
        // Told when it is opened.
        Ok(false) if !data.is_dir() => Ok(()),
        Ok(false) => Err(Failure::invalid(format!(
            "data folder {place}: steps ran where they could make it, so it may be theirs; name another with --data, or, \
             if it is yours: ostler policy accept {place}"
        ))),
        // There is none yet, or what is wrong with its place is told when it is opened.
        Err(error) if error.kind() != ErrorKind::InvalidData => Ok(()),
        Err(error) => Err(Failure::store(format!("data folder {place}: {error}"))),
    }
}

/// A data folder that this process made, and removes again while it is empty.
pub(crate) struct MadeFolder<'a>(Option<&'a Path>);

impl MadeFolder<'_> {
    /// Makes the data folder where there is none. What is wrong with its place is told when it is opened.
    ///
    /// # Errors
    ///
    /// A program of a step may have made the folder meanwhile, or runs where it can change what this process makes.
    pub(crate) fn at(data: &Path) -> Result<MadeFolder<'_>, Failure> {
        let mut folder = std::fs::DirBuilder::new();
        folder.mode(0o700);
        if let Some(around) = data.parent().filter(|around| !around.as_os_str().is_empty()) {
            let _ = folder.recursive(true).create(around);
        }
        if folder.recursive(false).create(data).is_err() {
            check_data_origin(data)?;
            return Ok(MadeFolder(None));
        }
        let made = MadeFolder(Some(data));
        made.check_alone()?;
        Ok(made)
    }

    /// Notes that Ostler made the folder, once it is a data folder, which cages hide under any name.
    ///
    /// # Errors
    ///
    /// A program started meanwhile where it can change the folder.
    pub(crate) fn keep(&self) -> Result<(), Failure> {
        self.check_alone()?;
        if let (Some(data), Some(user)) = (self.0, user_folder()) {
            let _ = Workspaces::at(&user).accept_folder(data);
        }
        Ok(())
    }

    /// Refuses a folder that this process made around a running program: the program sees the folder.
    fn check_alone(&self) -> Result<(), Failure> {
        let (Some(data), Some(user)) = (self.0, user_folder()) else { return Ok(()) };
        let place = data.display();
        match Workspaces::at(&user).is_entered(data) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Failure::invalid(format!(
                "data folder {place}: a program of another process runs where it could change what this one makes there; wait for its \
                 end, or name another folder with --data"
            ))),
            // Nothing is noted in a folder that this process may not read.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(Failure::store(format!("data folder {place}: {error}"))),
        }
    }
}

impl Drop for MadeFolder<'_> {
    fn drop(&mut self) {
        if let Some(data) = self.0 {
            // A folder with something in it stays.
            let _ = std::fs::remove_dir(data);
        }
    }
}

/// Returns whether the data folder exists.
///
/// # Errors
///
/// The folder cannot be read.
pub(crate) fn data_folder_exists(data: &Path) -> Result<bool, Failure> {
    // Any of these proves that the folder was in use, even if the others are lost.
    let found = ["format", "journal", "index.redb"].map(|part| std::fs::metadata(data.join(part)));
    match found.into_iter().reduce(Result::or).expect("there are three") {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::PermissionDenied => "run as its owner, or name another with --data",
                _ => "check what is there, or name another with --data",
            };
            let place = data.display();
            Err(Failure::store(format!("data folder {place}: cannot be read: {error}; {advice}")))
        }
    }
}

/// Text for a missing data folder in commands about runs; `None` if the folder exists.
pub(crate) fn no_runs_text(data: Option<&Path>) -> Result<Option<String>, Failure> {
    missing_folder_text("run", data)
}

/// Text for a missing data folder, given the kind of thing asked for; `None` if the folder exists.
pub(crate) fn missing_folder_text(what: &str, data: Option<&Path>) -> Result<Option<String>, Failure> {
    Ok(match data {
        Some(data) if data_folder_exists(data)? => None,
        Some(data) => {
            Store::check_place(data).map_err(|error| open_failure(data, &error))?;
            let data = harmless_line(&data.display().to_string());
            Some(format!("no {what} yet: no data folder at {data} (--data names another)"))
        }
        None => Some(format!("no {what} yet: a store in memory ends with its process")),
    })
}

fn refused(error: ConfigError, globals: &Globals) -> Failure {
    match error {
        ConfigError::Content { source_text, findings } => {
            findings::report(&source_text, &findings, globals.json, &mut Out::new())
        }
        ConfigError::Read(_) | ConfigError::Distrusted(_) => Failure::invalid(error.to_string()),
    }
}

/// Returns whether the data folder is missing, so that there is nothing to list. Prints that, unless the output is
/// JSON.
pub(crate) fn has_no_data_folder(what: &str, globals: &Globals) -> Result<bool, Failure> {
    let data = match read_settings(globals, Path::new(".")) {
        Ok((_, data)) => data,
        // What holds the folder may need no configuration of this command.
        Err(fault) if fault.spared(globals).is_some() => return Ok(false),
        Err(fault) => return Err(fault.report(globals)),
    };
    let nothing = missing_folder_text(what, data.as_deref())?;
    if let Some(nothing) = nothing.as_ref().filter(|_| !globals.json) {
        status_line(nothing);
    }
    Ok(nothing.is_some())
}
