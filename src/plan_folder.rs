//! A folder of learnt plans: a YAML file each.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use ostler_kernel::policy::Template;
use ostler_kernel::port::{BoxFuture, TemplateStore};
use serde_json::Value;

use crate::plan_file::{Format, PLAN_FILE_BYTES_MAX, PlanFile};

/// Templates of a folder that are read; more are not seen.
pub const TEMPLATES_MAX: usize = 256;

/// Characters of a template's name.
pub const TEMPLATE_NAME_CHARS_MAX: usize = 64;

/// Form of the names of templates.
pub const TEMPLATE_NAME_RULE: &str = "1 to 64 small letters, digits, - and _, the first a letter or digit";

/// The extension of the files.
const EXTENSION: &str = "yaml";

/// A folder of templates; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFolder(PathBuf);

/// A template of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTemplate {
    /// The name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The template, or why the file is none.
    pub content: Result<Template, String>,
}

/// An operation on a folder of templates that failed.
#[derive(Debug, thiserror::Error)]
pub enum PlanFolderError {
    /// The name is malformed.
    #[error("{0:?} is no name of a template; use {TEMPLATE_NAME_RULE}")]
    Name(String),
    /// There is no template of this name.
    #[error("there is no template {name:?} in {folder}; {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The folder.
        folder: PathBuf,
        /// Names of the plans in the folder, for the message.
        known: String,
    },
    /// The name is taken.
    #[error("{0} exists; choose another --name, or remove the file")]
    Taken(PathBuf),
    /// The folder or a file cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
}

/// True for a name of a template: it cannot lead out of the folder.
///
/// ```
/// use ostler::plan_folder::is_template_name;
/// assert!(is_template_name("count-notes_2"));
/// assert!(!is_template_name("../notes") && !is_template_name("a/b") && !is_template_name(".x") && !is_template_name(""));
/// ```
pub fn is_template_name(text: &str) -> bool {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    text.len() <= TEMPLATE_NAME_CHARS_MAX
        && text.bytes().all(is_inner)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

impl PlanFolder {
    /// A folder of the user.
    pub fn new(path: impl Into<PathBuf>) -> PlanFolder {
        PlanFolder(path.into())
    }

    /// The folder within a data folder, whose templates planners are shown.
    pub fn of_data(data: &Path) -> PlanFolder {
        PlanFolder(data.join("plans"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All templates by name, damaged ones too; at most [`TEMPLATES_MAX`]. Files with other names are none. Blocks.
    ///
    /// # Errors
    ///
    /// The folder cannot be read. A folder that does not exist is empty.
    pub fn list(&self) -> Result<Vec<StoredTemplate>, PlanFolderError> {
        let failed = |error| PlanFolderError::Io { path: self.0.clone(), error };
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry.map_err(failed)?.file_name();
            let name = Path::new(&file)
                .file_stem()
                .and_then(|stem| stem.to_str())
                .filter(|name| is_template_name(name));
            let is_plan = Path::new(&file).extension().is_some_and(|extension| extension == EXTENSION);
            names.extend(name.filter(|_| is_plan).map(str::to_owned));
        }
        names.sort();
        names.truncate(TEMPLATES_MAX);
        Ok(names.into_iter().map(|name| self.stored(name)).collect())
    }

    /// The template of this name. Blocks.
    ///
    /// # Errors
    ///
    /// The name is malformed, or there is no such file. The file may be damaged: see [`StoredTemplate::content`].
    pub fn find(&self, name: &str) -> Result<StoredTemplate, PlanFolderError> {
        let path = self.path_of(name)?;
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(self.stored(name.to_owned()));
        }
        let known: Vec<String> = self.list()?.into_iter().map(|stored| stored.name).collect();
        let known = match known.as_slice() {
            [] => "there is none yet: `ostler plans learn RUN` makes one".to_owned(),
            known => format!("there is {}", known.join(", ")),
        };
        Err(PlanFolderError::Unknown { name: name.to_owned(), folder: self.0.clone(), known })
    }

    /// Stores a new template, and returns its file. Blocks.
    ///
    /// # Errors
    ///
    /// The name is malformed or taken, or the file cannot be written.
    pub fn save(&self, name: &str, text: &str) -> Result<PathBuf, PlanFolderError> {
        let path = self.path_of(name)?;
        let failed = |path: &Path, error| PlanFolderError::Io { path: path.to_owned(), error };
        fs::create_dir_all(&self.0).map_err(|error| failed(&self.0, error))?;
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(PlanFolderError::Taken(path));
            }
            Err(error) => return Err(failed(&path, error)),
        };
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // Half a plan is none.
            let _ = fs::remove_file(&path);
            failed(&path, error)
        })?;
        Ok(path)
    }

    fn path_of(&self, name: &str) -> Result<PathBuf, PlanFolderError> {
        let is_name = is_template_name(name);
        is_name
            .then(|| self.0.join(format!("{name}.{EXTENSION}")))
            .ok_or_else(|| PlanFolderError::Name(name.to_owned()))
    }

    fn stored(&self, name: String) -> StoredTemplate {
        let path = self.0.join(format!("{name}.{EXTENSION}"));
        let read = crate::plan_file::read_text(&path, PLAN_FILE_BYTES_MAX).map_err(|error| error.to_string());
        let content = read.and_then(|text| {
            let file = PlanFile::parse(&path.display().to_string(), Format::Yaml, &text, &[].into());
            match file.shape() {
                Some(draft) => {
                    let title = draft.title.clone().unwrap_or_else(|| draft.id.clone());
                    Ok(Template { name: name.clone(), title, text })
                }
                None => Err(format!(
                    "{}: not a plan; `ostler check {}` shows why",
                    path.display(),
                    path.display()
                )),
            }
        });
        StoredTemplate { name, path, content }
    }
}

impl TemplateStore for PlanFolder {
    fn templates(&self) -> BoxFuture<'_, Vec<Template>> {
        let folder = self.clone();
        Box::pin(async move {
            let listed = tokio::task::spawn_blocking(move || folder.list()).await;
            let stored = listed.ok().and_then(Result::ok).unwrap_or_default();
            stored.into_iter().filter_map(|stored| stored.content.ok()).collect()
        })
    }
}

/// A plan as YAML: a line for each key of a node, values as JSON, which YAML reads as it is. `head` has lines of comment.
pub fn plan_text(
    head: &[String],
    plan: &Value,
    params: &std::collections::BTreeMap<String, String>,
) -> String {
    let mut text: String =
        head.iter().map(|line| format!("# {}\n", line.replace(['\n', '\r'], " "))).collect();
    for key in ["id", "title"] {
        text.extend(plan.get(key).map(|value| format!("{key}: {}\n", written(value))));
    }
    if !params.is_empty() {
        text.push_str("params:\n");
        text.extend(
            params.iter().map(|(name, value)| format!("  {name}: {}\n", Value::from(value.as_str()))),
        );
    }
    text.push_str("nodes:\n");
    for node in plan["nodes"].as_array().into_iter().flatten() {
        let Some(fields) = node.as_object() else { continue };
        let known = KEYS.iter().filter_map(|key| Some((*key, fields.get(*key)?)));
        let others = fields.iter().filter(|(key, _)| !KEYS.contains(&key.as_str()));
        let all = known.chain(others.map(|(key, value)| (key.as_str(), value))).enumerate();
        for (at, (key, value)) in all {
            text += &format!("  {} {key}: {}\n", if at == 0 { "-" } else { " " }, written(value));
        }
    }
    text.extend(plan.get("outputs").map(|outputs| format!("outputs: {outputs}\n")));
    text
}

/// A value on one line: a word as it is, anything else as JSON.
fn written(value: &Value) -> String {
    let is_word = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
            && !["true", "false", "null"].contains(&text.to_ascii_lowercase().as_str())
    };
    match value.as_str() {
        Some(text) if is_word(text) => text.to_owned(),
        _ => value.to_string(),
    }
}

/// Keys of a node in the order of reading.
const KEYS: [&str; 7] = ["id", "kind", "tool", "model", "deps", "params", "param_refs"];
