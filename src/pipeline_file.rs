//! Pipeline files in YAML, JSON and TOML. Every finding has a place in the file.
//!
//! ```
//! use ostler::pipeline_file::PipelineFile;
//! use ostler::plan_file::Format;
//!
//! let text = "id: web\nstages:\n  - {name: recon, publishes: [page]}\n  - {name: report, subscribes: [pages]}\n";
//! let file = PipelineFile::parse("web.yaml", Format::Yaml, text);
//! let findings = file.validate().unwrap_err();
//! assert_eq!(findings[0].place.map(|place| place.line), Some(4));
//! assert!(findings[0].detail.starts_with("invalid_subscription: stage report subscribes to pages"));
//! ```

use std::path::Path;

use ostler_kernel::pipeline::{PipelineSpec, SpecFault};

use crate::finding::{Finding, Source};
use crate::plan_file::{FileKind, Format, ReadError, TypedFile, format_of, read_text};

/// Largest pipeline file, in bytes.
pub const PIPELINE_FILE_BYTES_MAX: usize = 1 << 20;

const CODE: &str = "pipeline";

/// A pipeline file, read as far as possible.
pub struct PipelineFile {
    source: Source,
    file: TypedFile<PipelineSpec>,
}

impl PipelineFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file is unreadable, no text, or of an unknown format. [`PipelineFile::validate`] reports errors in
    /// the content.
    pub fn read(path: &Path) -> Result<PipelineFile, ReadError> {
        let format = format_of(path)?;
        let text = read_text(path, PIPELINE_FILE_BYTES_MAX)?;
        Ok(PipelineFile::parse(&path.display().to_string(), format, &text))
    }

    /// Reads a text with the file name `name`.
    pub fn parse(name: &str, format: Format, text: &str) -> PipelineFile {
        let source = format.source(name, text.strip_prefix('\u{feff}').unwrap_or(text));
        let file = TypedFile::read(format, &source, CODE, Some(FileKind::Pipeline));
        PipelineFile { source, file }
    }

    /// Validates and returns the declaration.
    ///
    /// # Errors
    ///
    /// Every finding, with its place.
    pub fn validate(&self) -> Result<&PipelineSpec, Vec<Finding>> {
        let Some(spec) = self.file.value.as_ref() else { return Err(self.file.findings.clone()) };
        let faults = spec.validate().err().unwrap_or_default();
        // A wrong shape in one stage may be the cause of a fault in another.
        let stages_as_written = self.file.is_as_written("/stages");
        let is_sure = |pointer: &str| match pointer.starts_with("/stages") {
            true => stages_as_written,
            false => self.file.is_as_written(pointer),
        };
        let faults = faults.iter().map(|fault| (PipelineFile::pointer(spec, fault), fault));
        let of_values = faults.filter(|(pointer, _)| is_sure(pointer)).map(|(pointer, fault)| {
            let detail = format!("{}: {fault}", fault.code());
            self.source.finding(CODE, self.file.at(&pointer), detail, "")
        });
        let findings: Vec<Finding> = self.file.findings.iter().cloned().chain(of_values).collect();
        if findings.is_empty() { Ok(spec) } else { Err(findings) }
    }

    /// JSON pointer of the part that a fault is about.
    fn pointer(spec: &PipelineSpec, fault: &SpecFault) -> String {
        let named = fault.stage();
        // The later of two stages with one name is the duplicate.
        let stage = named.and_then(|name| spec.stages.iter().rposition(|stage| stage.name == name));
        match stage {
            Some(stage) => format!("/stages/{stage}{}", fault.part()),
            None => fault.part().to_owned(),
        }
    }

    /// The source text.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_id_is_told_beside_a_wrong_key_and_no_fault_follows_from_a_wrong_stage() {
        let told = |text: &str| -> Vec<String> {
            let file = PipelineFile::parse("p", Format::Yaml, text);
            file.validate().unwrap_err().into_iter().map(|finding| finding.detail).collect()
        };
        let stage = "stages:\n  - {name: a, publishes: [t]}\n";
        let alone = told(&format!("id: a/b\n{stage}"));
        let both = told(&format!("id: a/b\ncolour: red\n{stage}"));
        assert!(alone.iter().all(|fault| both.contains(fault)), "{alone:?} {both:?}");
        assert!(both.iter().any(|fault| fault.contains("colour")), "{both:?}");
        let wrong = told("id: p\nstages:\n  - {name: a, publishes: 3}\n  - {name: b, subscribes: [t]}\n");
        assert_eq!(wrong.len(), 1, "{wrong:?}");
    }
}
