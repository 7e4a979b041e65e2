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
//! assert!(file.show(unknown, Default::default()).contains("did you mean \"time.sleep\"?"));
//! ```

mod cascade;
mod json;
mod file_kind;
mod locate;
mod params;
mod read;
mod shape;
mod toml;
mod data;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ostler_kernel::plan::{Diagnostic, Plan, PlanDraft, Settings, advise, nearest, normalise, validate};
use serde::de::DeserializeOwned;
use serde_json::Number;

pub use crate::finding::{Finding, RenderStyle, Place, Source};
pub(crate) use file_kind::FileKind;
pub use read::ReadError;
pub(crate) use read::read_text;
pub use data::PLAN_FILE_DEPTH_MAX;
pub use yaml::{YAML_REPEATED_MAX, YAML_VALUES_MAX};

use cascade::CascadeFilter;
use shape::NextStep;
use data::{Located, SyntaxError, Data, SyntaxErrorKind};

/// Bytes of a plan file.
pub const PLAN_FILE_BYTES_MAX: usize = 5 << 20;

/// Faults of shape that are told, and of parameters; who has more mends these first.
pub const SHAPE_FAULTS_MAX: usize = 50;

/// Faults of shape that only follow from others and are not told; of a file with more, nothing else is looked for.
pub const FOLLOWING_FAULTS_MAX: usize = 50;

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

    /// A text of this format that is called `name`.
    pub(crate) fn source(self, name: &str, text: &str) -> Source {
        let source = Source::new(name, text);
        match self {
            Format::Yaml => source.with_unquoted(yaml::unquoted),
            Format::Json | Format::Toml => source,
        }
    }

    fn read(self, text: &str) -> Result<Located, SyntaxError> {
        let root = match self {
            Format::Yaml => yaml::read(text),
            Format::Json => json::read(text),
            Format::Toml => toml::read(text),
        };
        root.and_then(not_too_deep)
    }
}

/// A plan file as far as it could be read, with what is wrong with it so far.
#[derive(Debug, Clone)]
pub struct PlanFile {
    source: Source,
    root: Option<Located>,
    draft: Option<PlanDraft>,
    findings: Vec<Finding>,
    /// What the findings keep from being judged.
    cascade: CascadeFilter,
    /// Where keys stand that were read as those that were meant, which is a guess: nothing beneath them is judged.
    guessed: BTreeSet<usize>,
}

impl PlanFile {
    /// Reads a file and fills in its parameters.
    ///
    /// # Errors
    ///
    /// The file cannot be had as text of a known format. What is wrong *in* it is told by [`PlanFile::validate`].
    pub fn read(path: &Path, params: &BTreeMap<String, String>) -> Result<PlanFile, ReadError> {
        let format = Format::of(path).ok_or_else(|| ReadError::Format { path: path.to_owned() })?;
        let text = read_text(path, PLAN_FILE_BYTES_MAX)?;
        Ok(PlanFile::parse(&path.display().to_string(), format, &text, params))
    }

    /// Reads a text that is called `name` in findings, and fills in its parameters.
    pub fn parse(name: &str, format: Format, text: &str, params: &BTreeMap<String, String>) -> PlanFile {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut file = PlanFile {
            source: format.source(name, text),
            root: None,
            draft: None,
            findings: Vec::new(),
            cascade: CascadeFilter::default(),
            guessed: BTreeSet::new(),
        };
        match format.read(text) {
            Ok(root) => file.take(root, params),
            Err(SyntaxError { at, why }) => {
                file.find("syntax", None, why.to_string(), why.help().to_owned(), at);
            }
        }
        file
    }

    fn take(&mut self, mut root: Located, params: &BTreeMap<String, String>) {
        if let Some((kind, at)) = FileKind::Plan.other(&root) {
            self.findings.push(kind.told(&self.source, "shape", at));
            return;
        }
        let (mut bad, mut used) = (Vec::new(), BTreeSet::new());
        params::fill(&mut root, params, &mut bad, &mut used);
        // A slip in a name is one fault: of the place that does not get its value.
        used.extend(bad.iter().filter_map(|bad| bad.meant.clone()));
        // What is wrong with them is told already.
        let unfilled: BTreeSet<usize> = bad.iter().map(|bad| bad.at).collect();
        if bad.len() > SHAPE_FAULTS_MAX {
            self.cascade.lose();
        }
        for bad in bad.into_iter().take(SHAPE_FAULTS_MAX) {
            self.cascade.parameter(&root, bad.at);
            self.find("parameter", None, bad.what, bad.help, Some(bad.at));
        }
        for name in params.keys().filter(|name| !used.contains(*name)) {
            let help = format!("write ${{{name}}} where its value should stand, or leave it out");
            self.find("parameter", None, format!("nothing takes the parameter {name:?}"), help, None);
        }
        let (mut wrongs, told) = (Vec::new(), self.findings.len());
        self.draft = shape::read(&mut root, &mut |root, wrong, part| {
            match (part, wrong.meant) {
                // Beneath it stands the whole plan, whatever it is called.
                (_, Some("nodes")) => {}
                (data::Part::Key(at), Some(_)) => {
                    self.guessed.insert(at);
                }
                _ => {}
            }
            let stand_in = self.cascade.shape(self.source.text(), root, wrong, part);
            if !wrong.follows && !unfilled.contains(&part.at()) {
                wrongs.push((wrong.clone(), part));
            }
            match stand_in {
                _ if told + wrongs.len() >= SHAPE_FAULTS_MAX => NextStep::Stop,
                Some(tree) => NextStep::Put(tree),
                None => NextStep::Repair,
            }
        });
        for (wrong, part) in wrongs {
            self.find("shape", None, wrong.what, wrong.help, Some(part.at()));
        }
        self.root = Some(root);
    }

    fn find(&mut self, code: &str, node: Option<String>, detail: String, help: String, at: Option<usize>) {
        let place = at.map(|at| self.source.place(at));
        self.findings.push(Finding { code: code.to_owned(), node, detail, help, place });
    }

    /// The plan as written, if nothing had to be left out.
    pub fn draft(&self) -> Option<&PlanDraft> {
        self.draft.as_ref().filter(|_| self.findings.is_empty())
    }

    /// Judges the plan: the valid plan with advice, or everything that is wrong with it.
    pub fn validate(&self, settings: &Settings<'_>) -> Result<(Plan, Vec<Finding>), Vec<Finding>> {
        let unchecked = match &self.draft {
            Some(draft) if !self.cascade.is_lost() => normalise(draft.clone(), settings),
            _ => return Err(self.findings.clone()),
        };
        let origin = unchecked.origin().clone();
        match validate(unchecked, settings) {
            Ok(plan) if self.findings.is_empty() => {
                let advice = advise(&plan, &origin, settings).into_iter().map(|advice| {
                    self.found(
                        advice.code.as_str(),
                        &advice.node,
                        &advice.pointer,
                        &advice.detail,
                        &advice.help,
                    )
                });
                let advice = advice.collect();
                Ok((plan, advice))
            }
            Ok(_) => Err(self.findings.clone()),
            Err(faults) => Err(self.findings.iter().cloned().chain(self.faults(&faults)).collect()),
        }
    }

    /// The faults that may be told: what a fault of shape or a parameter keeps from being known is not judged.
    fn faults(&self, faults: &[Diagnostic]) -> Vec<Finding> {
        let sound = |fault: &&Diagnostic| {
            self.root.as_ref().is_none_or(|root| {
                let is_guess = locate::passes(root, &fault.pointer, &self.guessed);
                !is_guess && self.cascade.spares(root, fault)
            })
        };
        let located = |fault: &Diagnostic| {
            let found =
                self.found(fault.code.as_str(), &fault.node, &fault.pointer, &fault.detail, &fault.help);
            self.on_line(found, fault.line)
        };
        faults.iter().filter(sound).map(located).collect()
    }

    /// Whether there may be faults that nobody could look for, for those that were found.
    pub fn hides_more(&self) -> bool {
        self.root.is_some() && (self.draft.is_none() || !self.guessed.is_empty() || self.cascade.hides())
    }

    /// A fault that was found in the plan of this file, with its place. `node` is the node it names, or `*`;
    /// `pointer` leads to its place in the plan as written.
    pub fn found(&self, code: &str, node: &str, pointer: &str, detail: &str, help: &str) -> Finding {
        // The name itself is at fault, not what it stands for.
        let key = matches!(code, "V22" | "V23");
        let place = self.root.as_ref().map(|root| self.source.place(locate::pointed(root, pointer, key)));
        let node = (node != Diagnostic::PLAN).then(|| node.to_owned());
        Finding { code: code.to_owned(), node, detail: detail.to_owned(), help: help.to_owned(), place }
    }

    /// The finding at that line, from 1, of the text that it is about, if the file has that text line by line: a block of
    /// YAML (`|`).
    pub fn on_line(&self, found: Finding, line: Option<usize>) -> Finding {
        let block = found.place.zip(line).and_then(|(place, line)| self.source.block_line(place, line));
        let place = block.or(found.place);
        Finding { place, ..found }
    }

    /// Prints a finding: what, where, the line with a mark, and what would mend it.
    pub fn show(&self, finding: &Finding, look: RenderStyle) -> String {
        self.source.show(finding, look)
    }

    /// What the file is called.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// The file as text with places.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

/// A text of a format as a type, as far as it could be read, with what is wrong with it under `code`.
pub(crate) struct TypedFile<T> {
    pub(crate) value: Option<T>,
    pub(crate) findings: Vec<Finding>,
    root: Option<Located>,
}

impl<T: DeserializeOwned> TypedFile<T> {
    /// Reads a text; one that is plainly of another kind is told to be that.
    pub(crate) fn read(format: Format, source: &Source, code: &str, kind: Option<FileKind>) -> TypedFile<T> {
        match format.read(source.text()) {
            Ok(mut root) => {
                if let Some((other, at)) = kind.and_then(|kind| kind.other(&root)) {
                    return TypedFile { value: None, findings: vec![other.told(source, code, at)], root: None };
                }
                let mut findings = Vec::new();
                let value = shape::read(&mut root, &mut |_, wrong, part| {
                    if !wrong.follows {
                        findings.push(source.finding(
                            code,
                            Some(part.at()),
                            wrong.what.as_str(),
                            wrong.help.as_str(),
                        ));
                    }
                    if findings.len() < SHAPE_FAULTS_MAX { NextStep::Repair } else { NextStep::Stop }
                });
                TypedFile { value, findings, root: Some(root) }
            }
            Err(SyntaxError { at, why }) => {
                let finding = source.finding("syntax", at, why.to_string(), why.help());
                TypedFile { value: None, findings: vec![finding], root: None }
            }
        }
    }

    /// The byte that a JSON pointer leads to.
    pub(crate) fn at(&self, pointer: &str) -> Option<usize> {
        self.root.as_ref().map(|root| locate::pointed(root, pointer, false))
    }

    /// The byte of the key that a JSON pointer leads to.
    pub(crate) fn key_at(&self, pointer: &str) -> Option<usize> {
        self.root.as_ref().map(|root| locate::pointed(root, pointer, true))
    }

    /// The numbers in the map under a key of the whole, by their keys and as they are written; `None`: JSON would write it otherwise.
    pub(crate) fn numbers<'a>(
        &'a self,
        key: &str,
        source: &'a Source,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        let entries = match self.root.as_ref().and_then(|root| root.get(key)).map(|entry| &entry.leaf.tree) {
            Some(Data::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().filter_map(|entry| {
            let Data::Number(number) = &entry.leaf.tree else { return None };
            let rest = source.text().get(entry.leaf.at..).unwrap_or_default();
            let is_behind = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
            let written = rest.split(is_behind).next().unwrap_or_default();
            let is_plain = serde_json::from_str::<Number>(written).is_ok_and(|read| read == *number);
            Some((entry.key.as_str(), is_plain.then_some(written)))
        })
    }

    /// Where a text stands in the list under a key of the whole, 0 for the first.
    pub(crate) fn position(&self, key: &str, text: &str) -> Option<usize> {
        let list = &self.root.as_ref()?.get(key)?.leaf;
        list.items().iter().position(|item| item.text() == Some(text))
    }
}

/// The known name that somebody meant by an unknown one.
pub(crate) fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(name, known, &mut NAMES_COMPARED_MAX.clone())
}

/// Pairs of letters that are compared to find out what was meant.
const NAMES_COMPARED_MAX: usize = 100_000;

fn not_too_deep(root: Located) -> Result<Located, SyntaxError> {
    match root.too_deep() {
        Some(at) => Err(SyntaxError { at: Some(at), why: SyntaxErrorKind::TooDeep }),
        None => Ok(root),
    }
}

#[cfg(test)]
mod tests;
