//! Plan files in YAML, JSON and TOML. Every diagnostic has a place in the file.
//!
//! [`PlanFile::read`] reads a file and fills in parameters, [`PlanFile::validate`] validates the plan.
//! Problems are [`Finding`]s, and [`PlanFile::show`] renders one with the source line and a mark.
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
mod data;
mod file_kind;
mod json;
mod locate;
mod params;
mod read;
mod shape;
mod toml;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ostler_kernel::plan::{
    Diagnostic, Plan, PlanDraft, Settings, advise, nearest, normalise, pointer_steps, validate,
};
use serde::de::DeserializeOwned;
use serde_json::Number;

pub use crate::finding::{Finding, Place, RenderStyle, Source};
pub use data::{PLAN_FILE_DEPTH_MAX, PLAN_FILE_VALUES_MAX};
pub(crate) use file_kind::FileKind;
pub use read::ReadError;
pub(crate) use read::{format_of, read_text};
pub use yaml::YAML_REPEATED_MAX;

use cascade::CascadeFilter;
use data::{Data, Located, SyntaxError, SyntaxErrorKind};
use shape::NextStep;

/// Largest plan file, in bytes.
pub const PLAN_FILE_BYTES_MAX: usize = 5 << 20;

/// Most shape and parameter errors reported at once.
pub const SHAPE_FAULTS_MAX: usize = 50;

/// Most unreported shape errors that follow from others; beyond, validation stops.
pub const FOLLOWING_FAULTS_MAX: usize = 50;

/// Format of a plan file.
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
    /// The format of a file name extension: `.yaml`, `.yml`, `.json`, `.toml`.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }

    /// A source text with the name `name` in findings.
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
        root.and_then(not_too_many).and_then(not_too_deep)
    }
}

/// A plan file, read as far as possible, and the findings so far.
#[derive(Debug, Clone)]
pub struct PlanFile {
    source: Source,
    root: Option<Located>,
    draft: Option<PlanDraft>,
    findings: Vec<Finding>,
    cascade: CascadeFilter,
    /// Offsets of keys read as a suggestion. Suggestions are guesses, so nothing below these keys is
    /// validated.
    guessed: BTreeSet<usize>,
    /// Parameters with a default that the plan does not use, and the offset of each.
    idle_defaults: Vec<(String, usize)>,
}

impl PlanFile {
    /// Reads a file and fills in its parameters.
    ///
    /// # Errors
    ///
    /// The file is unreadable, no text, or of an unknown format. [`PlanFile::validate`] reports errors in the
    /// content.
    pub fn read(path: &Path, params: &BTreeMap<String, String>) -> Result<PlanFile, ReadError> {
        let format = format_of(path)?;
        let text = read_text(path, PLAN_FILE_BYTES_MAX)?;
        Ok(PlanFile::parse(&path.display().to_string(), format, &text, params))
    }

    /// Reads a text and fills in its parameters. `name` is the file name in findings.
    pub fn parse(name: &str, format: Format, text: &str, params: &BTreeMap<String, String>) -> PlanFile {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut file = PlanFile {
            source: format.source(name, text),
            root: None,
            draft: None,
            findings: Vec::new(),
            cascade: CascadeFilter::default(),
            guessed: BTreeSet::new(),
            idle_defaults: Vec::new(),
        };
        match format.read(text) {
            Ok(root) => file.load(root, params),
            Err(SyntaxError { at, kind }) => {
                file.add_finding("syntax", None, kind.to_string(), kind.help().to_owned(), at);
            }
        }
        file
    }

    fn load(&mut self, mut root: Located, params: &BTreeMap<String, String>) {
        if let Some((kind, at)) = FileKind::Plan.other(&root) {
            self.findings.push(kind.wrong_kind(&self.source, "shape", at));
            return;
        }
        let (mut bad, mut used) = (Vec::new(), BTreeSet::new());
        let defaults = params::take_defaults(&mut root, &mut bad);
        let mut values: BTreeMap<String, String> =
            defaults.iter().map(|(name, default)| (name.clone(), default.text.clone())).collect();
        values.extend(params.clone());
        params::fill(&mut root, &values, &mut bad, &mut used);
        let idle = defaults.iter().filter(|(name, _)| !used.contains(*name));
        self.idle_defaults = idle.map(|(name, default)| (name.clone(), default.at)).collect();
        let known: BTreeSet<String> = used.iter().chain(defaults.keys()).cloned().collect();
        // A typing error in a name is one finding, at the place of use.
        used.extend(bad.iter().filter_map(|bad| bad.suggestion.clone()));
        // Already reported.
        let unfilled: BTreeSet<usize> = bad.iter().map(|bad| bad.at).collect();
        if bad.len() > SHAPE_FAULTS_MAX {
            self.cascade.suppress_all();
        }
        for bad in bad.into_iter().take(SHAPE_FAULTS_MAX) {
            self.cascade.record_parameter(&root, bad.at);
            self.add_finding("parameter", None, bad.what, bad.help, Some(bad.at));
        }
        for name in params.keys().filter(|name| !used.contains(*name)) {
            let help = params::unused_help(name, &known);
            let what = format!("the plan does not use the parameter {name:?}");
            self.add_finding("parameter", None, what, help, None);
        }
        let (mut wrongs, told) = (Vec::new(), self.findings.len());
        self.draft = shape::read(&mut root, &mut |root, wrong, part| {
            match (part, wrong.suggestion) {
                // The whole plan is below this key.
                (_, Some("nodes")) => {}
                (data::Part::Key(at), Some(_)) => {
                    self.guessed.insert(at);
                }
                _ => {}
            }
            let stand_in = self.cascade.record_shape_error(self.source.text(), root, wrong, part);
            if !wrong.is_consequence && !unfilled.contains(&part.at()) {
                wrongs.push((wrong.clone(), part));
            }
            match stand_in {
                _ if told + wrongs.len() >= SHAPE_FAULTS_MAX => NextStep::Stop,
                Some(data) => NextStep::Replace(data),
                None => NextStep::Repair,
            }
        });
        for (wrong, part) in wrongs {
            self.add_finding("shape", None, wrong.what, wrong.help, Some(part.at()));
        }
        self.root = Some(root);
    }

    fn add_finding(
        &mut self,
        code: &str,
        node: Option<String>,
        detail: String,
        help: String,
        at: Option<usize>,
    ) {
        let place = at.map(|at| self.source.place(at));
        self.findings.push(Finding { code: code.to_owned(), node, detail, help, place });
    }

    /// The plan as written, even if values of parameters are missing.
    pub(crate) fn shape(&self) -> Option<&PlanDraft> {
        let has_shape = self.findings.iter().all(|finding| finding.code == "parameter");
        self.draft.as_ref().filter(|_| has_shape)
    }

    /// The plan as written, if no part was dropped.
    pub fn draft(&self) -> Option<&PlanDraft> {
        self.draft.as_ref().filter(|_| self.findings.is_empty())
    }

    /// Lets the nodes that ask the default model ask `model`.
    pub fn ask(&mut self, model: &str) {
        if let Some(draft) = &mut self.draft {
            draft.ask(model);
        }
    }

    /// Validates the plan. Returns the valid plan with advice.
    ///
    /// # Errors
    ///
    /// Every finding.
    pub fn validate(&self, settings: &Settings<'_>) -> Result<(Plan, Vec<Finding>), Vec<Finding>> {
        let unchecked = match &self.draft {
            Some(draft) if !self.cascade.suppresses_all() => normalise(draft.clone(), settings),
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
                let advice = self.idle_defaults.iter().map(|idle| self.idle_default(idle)).chain(advice);
                let advice = advice.collect();
                Ok((plan, advice))
            }
            Ok(_) => Err(self.findings.clone()),
            Err(faults) => Err(self.findings.iter().cloned().chain(self.faults(&faults)).collect()),
        }
    }

    /// Advice on a default that nothing uses.
    fn idle_default(&self, (name, at): &(String, usize)) -> Finding {
        Finding {
            code: "W11".to_owned(),
            node: None,
            detail: format!("the plan does not use its parameter {name:?}"),
            help: format!("write ${{{name}}} in the plan, or remove the default"),
            place: Some(self.source.place(*at)),
        }
    }

    /// Findings for the diagnostics that the cascade filter lets pass.
    fn faults(&self, faults: &[Diagnostic]) -> Vec<Finding> {
        let sound = |fault: &&Diagnostic| {
            self.root.as_ref().is_none_or(|root| {
                let is_guess = locate::passes_through(root, &fault.pointer, &self.guessed);
                !is_guess && self.cascade.allows(root, fault)
            })
        };
        let located = |fault: &Diagnostic| {
            let found =
                self.found(fault.code.as_str(), &fault.node, &fault.pointer, &fault.detail, &fault.help);
            params::without_quotes(&self.source, self.on_line(found, fault.line))
        };
        faults.iter().filter(sound).map(located).collect()
    }

    /// Returns whether the findings may hide further errors.
    pub fn hides_more(&self) -> bool {
        self.root.is_some() && (self.draft.is_none() || !self.guessed.is_empty() || self.cascade.hides_more())
    }

    /// Locates a diagnostic in the file. `node` is a node id or `*`; `pointer` leads into the plan as
    /// written.
    pub fn found(&self, code: &str, node: &str, pointer: &str, detail: &str, help: &str) -> Finding {
        // The name is wrong, not the value.
        let key = matches!(code, "V22" | "V23");
        let place = self.root.as_ref().map(|root| self.source.place(locate::offset_of(root, pointer, key)));
        let node = (node != Diagnostic::PLAN).then(|| node.to_owned());
        Finding { code: code.to_owned(), node, detail: detail.to_owned(), help: help.to_owned(), place }
    }

    /// Moves a finding to a line, from 1, of the text at its place, if that text is a literal YAML block
    /// (`|`).
    pub fn on_line(&self, found: Finding, line: Option<usize>) -> Finding {
        let block = found.place.zip(line).and_then(|(place, line)| self.source.block_line(place, line));
        let place = block.or(found.place);
        Finding { place, ..found }
    }

    /// Renders a finding: problem, place, marked source line and help.
    pub fn show(&self, finding: &Finding, look: RenderStyle) -> String {
        self.source.show(finding, look)
    }

    /// File name in findings.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// The source text.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

/// A file deserialised to `T` as far as possible, with findings under one code.
pub(crate) struct TypedFile<T> {
    pub(crate) value: Option<T>,
    pub(crate) findings: Vec<Finding>,
    root: Option<Located>,
    /// Keys and indices on the path to each wrong part.
    wrong: Vec<Vec<String>>,
}

impl<T: DeserializeOwned> TypedFile<T> {
    /// Reads a text. A file of another kind is one finding.
    pub(crate) fn read(format: Format, source: &Source, code: &str, kind: Option<FileKind>) -> TypedFile<T> {
        match format.read(source.text()) {
            Ok(mut root) => {
                if let Some((other, at)) = kind.and_then(|kind| kind.other(&root)) {
                    return TypedFile {
                        value: None,
                        findings: vec![other.wrong_kind(source, code, at)],
                        root: None,
                        wrong: Vec::new(),
                    };
                }
                let (mut findings, mut paths) = (Vec::new(), Vec::new());
                let value = shape::read(&mut root, &mut |root, wrong, part| {
                    let mut path = locate::path_to(root, part).map(|(path, _)| path).unwrap_or_default();
                    path.extend(wrong.missing.map(str::to_owned));
                    paths.push(path);
                    if !wrong.is_consequence {
                        findings.push(source.finding(
                            code,
                            Some(part.at()),
                            wrong.what.as_str(),
                            wrong.help.as_str(),
                        ));
                    }
                    if findings.len() < SHAPE_FAULTS_MAX { NextStep::Repair } else { NextStep::Stop }
                });
                TypedFile { value, findings, root: Some(root), wrong: paths }
            }
            Err(SyntaxError { at, kind }) => {
                let finding = source.finding("syntax", at, kind.to_string(), kind.help());
                TypedFile { value: None, findings: vec![finding], root: None, wrong: Vec::new() }
            }
        }
    }

    /// Returns whether the value for a JSON pointer is as written: no wrong part is there, around, below or directly beside it.
    /// Keys of the whole file do not count as beside each other.
    pub(crate) fn is_as_written(&self, pointer: &str) -> bool {
        let steps: Vec<String> = pointer_steps(pointer).collect();
        self.wrong.iter().all(|wrong| {
            let around = &wrong[..wrong.len().saturating_sub(1)];
            let beside = !around.is_empty() && steps.starts_with(around);
            !(beside || steps.starts_with(wrong) || wrong.starts_with(&steps))
        })
    }

    /// Byte offset for a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> Option<usize> {
        self.root.as_ref().map(|root| locate::offset_of(root, pointer, false))
    }

    /// Byte offset of the key for a JSON pointer.
    pub(crate) fn key_at(&self, pointer: &str) -> Option<usize> {
        self.root.as_ref().map(|root| locate::offset_of(root, pointer, true))
    }

    /// Numbers in the map under a top-level key, as written; `None` for a number not written in JSON syntax.
    pub(crate) fn numbers<'a>(
        &'a self,
        key: &str,
        source: &'a Source,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        let entries = match self.root.as_ref().and_then(|root| root.get(key)).map(|entry| &entry.located.data)
        {
            Some(Data::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().filter_map(|entry| {
            let Data::Number(number) = &entry.located.data else { return None };
            let rest = source.text().get(entry.located.at..).unwrap_or_default();
            let is_behind = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
            let written = rest.split(is_behind).next().unwrap_or_default();
            let is_plain = serde_json::from_str::<Number>(written).is_ok_and(|read| read == *number);
            Some((entry.key.as_str(), is_plain.then_some(written)))
        })
    }

    /// Index of a text in the list under a top-level key.
    pub(crate) fn position(&self, key: &str, text: &str) -> Option<usize> {
        let list = &self.root.as_ref()?.get(key)?.located;
        list.items().iter().position(|item| item.text() == Some(text))
    }
}

pub(crate) fn closest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(name, known, &mut NAMES_COMPARED_MAX.clone())
}

const NAMES_COMPARED_MAX: usize = 100_000;

fn not_too_many(root: Located) -> Result<Located, SyntaxError> {
    match root.count() > PLAN_FILE_VALUES_MAX {
        true => Err(SyntaxError { at: None, kind: SyntaxErrorKind::TooMany }),
        false => Ok(root),
    }
}

fn not_too_deep(root: Located) -> Result<Located, SyntaxError> {
    match root.first_too_deep() {
        Some(at) => Err(SyntaxError { at: Some(at), kind: SyntaxErrorKind::TooDeep }),
        None => Ok(root),
    }
}

#[cfg(test)]
mod tests;
