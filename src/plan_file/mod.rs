//! Plan files: YAML, JSON and TOML, read so that every fault knows its place.
//!
//! [`PlanFile::read`] takes a file and its parameters, [`PlanFile::validate`] judges it. What is wrong comes as
//! [`Finding`]s, and [`PlanFile::show`] prints one with the line and a caret under it.
//!
//! ```
//! use std::collections::BTreeMap;
//! use ostler::plan_file::{Format, PlanFile};
//!
//! let text = "id: hello\nnodes:\n  - id: wait\n    tool: time.slep\n    params: {ms: 5}\n";
//! let file = PlanFile::parse("hello.yaml", Format::Yaml, text, &BTreeMap::new());
//! let tools = std::collections::BTreeSet::from(["time.sleep".to_owned()]);
//! let settings = ostler_kernel::plan::Settings::simulation(Default::default(), Some(&tools));
//! let findings = file.validate(&settings).unwrap_err();
//! let unknown = findings.iter().find(|finding| finding.code == "V20").unwrap();
//! assert_eq!(unknown.place.as_ref().map(|place| (place.line, place.column)), Some((4, 11)));
//! assert!(file.show(unknown, false).contains("did you mean \"time.sleep\"?"));
//! ```

mod json;
mod locate;
mod params;
mod shape;
mod show;
mod toml;
mod tree;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use ostler_kernel::plan::{Fault, Plan, PlanDraft, Settings, advise, nearest};
use serde::{Deserialize, Serialize};

pub use tree::PLAN_FILE_DEPTH_MAX;
pub use yaml::{YAML_REPEATED_MAX, YAML_VALUES_MAX};

use tree::{Leaf, NotData};

/// Bytes of a plan file.
pub const PLAN_FILE_BYTES_MAX: usize = 5 << 20;

/// Faults of shape that are told; who has more mends these first.
pub const SHAPE_FAULTS_MAX: usize = 50;

/// How a plan file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// JSON.
    Json,
    /// TOML.
    Toml,
}

impl Format {
    /// The format that a file name stands for: `.yaml`, `.yml`, `.json`, `.toml`.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }
}

/// Something wrong with a plan file, or something that could be better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `V..` for a broken rule, `W..` for advice; `syntax`, `shape` or `parameter` for what comes before rules.
    pub code: String,
    /// The node it is about, if it is about one.
    pub node: Option<String>,
    /// What was found, as a sentence without a full stop.
    pub detail: String,
    /// What would mend it; may be empty.
    pub mend: String,
    /// Where, if that is one place.
    pub place: Option<Place>,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    /// 1 for the first.
    pub line: usize,
    /// In characters, 1 for the first.
    pub column: usize,
    /// In bytes from the start of the text.
    pub offset: usize,
}

impl Finding {
    /// Whether it is advice, which refuses nothing.
    pub fn is_advice(&self) -> bool {
        self.code.starts_with('W')
    }
}

/// Why a plan file could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system said no.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// Its name says no format.
    #[error("{}: a plan file ends in .yaml, .yml, .json or .toml", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// More than [`PLAN_FILE_BYTES_MAX`].
    #[error("{} has more than {PLAN_FILE_BYTES_MAX} bytes, the most of a plan file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not UTF-8.
    #[error("{} is no text: byte {at} is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first bad byte.
        at: usize,
    },
}

/// A plan file as far as it could be read, with what is wrong with it so far.
#[derive(Debug, Clone)]
pub struct PlanFile {
    name: String,
    text: String,
    root: Option<Leaf>,
    draft: Option<PlanDraft>,
    findings: Vec<Finding>,
    /// Nodes that lost a part to a finding: what the rules say of them may be wrong.
    hurt: BTreeSet<String>,
    /// Whether more was lost than parts of nodes.
    lost: bool,
}

impl PlanFile {
    /// Reads a file and fills in its parameters.
    ///
    /// # Errors
    ///
    /// The file cannot be had as text of a known format. What is wrong *in* it is told by [`PlanFile::validate`].
    pub fn read(path: &Path, params: &BTreeMap<String, String>) -> Result<PlanFile, ReadError> {
        let io = |error| ReadError::Io { path: path.to_owned(), error };
        let format = Format::of(path).ok_or_else(|| ReadError::Format { path: path.to_owned() })?;
        let file = std::fs::File::open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(PLAN_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() > PLAN_FILE_BYTES_MAX {
            return Err(ReadError::TooLarge { path: path.to_owned() });
        }
        let text = String::from_utf8(bytes).map_err(|error| ReadError::NotText {
            path: path.to_owned(),
            at: error.utf8_error().valid_up_to(),
        })?;
        Ok(PlanFile::parse(&path.display().to_string(), format, &text, params))
    }

    /// Reads a text that is called `name` in findings, and fills in its parameters.
    pub fn parse(name: &str, format: Format, text: &str, params: &BTreeMap<String, String>) -> PlanFile {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut file = PlanFile {
            name: name.to_owned(),
            text: text.to_owned(),
            root: None,
            draft: None,
            findings: Vec::new(),
            hurt: BTreeSet::new(),
            lost: false,
        };
        let read = match format {
            Format::Yaml => yaml::read(text),
            Format::Json => json::read(text),
            Format::Toml => toml::read(text),
        };
        match read.and_then(not_too_deep) {
            Ok(root) => file.take(root, params),
            Err(NotData { at, what }) => file.find("syntax", None, what, String::new(), at),
        }
        file
    }

    fn take(&mut self, mut root: Leaf, params: &BTreeMap<String, String>) {
        let (mut bad, mut used) = (Vec::new(), BTreeSet::new());
        params::fill(&mut root, &self.text, params, &mut bad, &mut used);
        for bad in bad {
            self.lost = true;
            self.find("parameter", None, bad.what, bad.mend, Some(bad.at));
        }
        for name in params.keys().filter(|name| !used.contains(*name)) {
            let mend = format!("write ${{{name}}} where its value should stand, or leave it out");
            self.find("parameter", None, format!("nothing takes the parameter {name:?}"), mend, None);
        }
        self.root = Some(root.clone());
        while self.draft.is_none() {
            match PlanDraft::deserialize(&root) {
                Ok(draft) => self.draft = Some(draft),
                Err(wrong) => {
                    let part = wrong.part.unwrap_or(tree::Part::Value(root.at));
                    match (part, wrong.meant, locate::node_at(&root, part)) {
                        // An unknown key tells nothing that its place lacks, and a slip can be read as meant.
                        (tree::Part::Key(_), ..) | (_, Some(_), _) => {}
                        (_, None, Some((name, false))) => {
                            self.hurt.insert(name);
                        }
                        _ => self.lost = true,
                    }
                    self.find("shape", None, wrong.what, wrong.mend, Some(part.at()));
                    if self.findings.len() >= SHAPE_FAULTS_MAX || !root.mend(part, wrong.meant) {
                        break;
                    }
                }
            }
        }
    }

    fn find(&mut self, code: &str, node: Option<String>, detail: String, mend: String, at: Option<usize>) {
        let place = at.map(|at| show::place(&self.text, at));
        self.findings.push(Finding { code: code.to_owned(), node, detail, mend, place });
    }

    /// The plan as written, if nothing had to be left out.
    pub fn draft(&self) -> Option<&PlanDraft> {
        self.draft.as_ref().filter(|_| self.findings.is_empty())
    }

    /// Judges the plan: the valid plan with advice, or everything that is wrong with it.
    pub fn validate(&self, settings: &Settings<'_>) -> Result<(Plan, Vec<Finding>), Vec<Finding>> {
        let judged = match &self.draft {
            Some(draft) if self.findings.is_empty() || !self.lost => draft.clone().validate(settings),
            _ => return Err(self.findings.clone()),
        };
        match judged {
            Ok(plan) if self.findings.is_empty() => {
                let advice = advise(&plan).into_iter().map(|advice| {
                    let (code, node) = (advice.code.as_str(), advice.node);
                    self.located(code, node, advice.detail, advice.mend)
                });
                let advice = advice.collect();
                Ok((plan, advice))
            }
            Ok(_) => Err(self.findings.clone()),
            Err(faults) => Err(self.findings.iter().cloned().chain(self.faults(&faults)).collect()),
        }
    }

    /// The faults that may be told: what a fault of shape has hurt is not judged.
    fn faults(&self, faults: &[Fault]) -> Vec<Finding> {
        let sound = |fault: &&Fault| {
            self.findings.is_empty() || (fault.node != Fault::PLAN && !self.hurt.contains(&fault.node))
        };
        let located = |fault: &Fault| {
            self.located(fault.code.as_str(), fault.node.clone(), fault.detail.clone(), fault.mend.clone())
        };
        faults.iter().filter(sound).map(located).collect()
    }

    /// A fault that somebody else found in the plan of this file, with its place. `node` is the node it names, or
    /// `*`.
    pub fn found(&self, code: &str, node: &str, detail: &str, mend: &str) -> Finding {
        self.located(code, node.to_owned(), detail.to_owned(), mend.to_owned())
    }

    fn located(&self, code: &str, node: String, detail: String, mend: String) -> Finding {
        let at = self.root.as_ref().and_then(|root| locate::fault(root, code, &node, &detail));
        let place = at.map(|at| show::place(&self.text, at));
        let node = (node != Fault::PLAN).then_some(node);
        Finding { code: code.to_owned(), node, detail, mend, place }
    }

    /// Prints a finding: what, where, the line with a caret, and what would mend it.
    pub fn show(&self, finding: &Finding, colour: bool) -> String {
        show::finding(&self.name, &self.text, finding, colour)
    }

    /// What the file is called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The known name that somebody meant by an unknown one.
pub(crate) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(name, known, &mut NAMES_COMPARED_MAX.clone())
}

/// Pairs of letters that are compared to find out what was meant.
const NAMES_COMPARED_MAX: usize = 100_000;

fn not_too_deep(root: Leaf) -> Result<Leaf, NotData> {
    match root.too_deep() {
        Some(at) => Err(NotData {
            at: Some(at),
            what: format!("lists and maps are nested more than {PLAN_FILE_DEPTH_MAX} deep"),
        }),
        None => Ok(root),
    }
}

#[cfg(test)]
mod tests;
