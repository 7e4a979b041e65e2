//! Files that declare a pipeline: YAML, JSON and TOML, read so that every fault knows its place.
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
use crate::plan_file::{Format, FileKind, ReadError, TypedFile, read_text};

/// Bytes of a file that declares a pipeline.
pub const PIPELINE_FILE_BYTES_MAX: usize = 1 << 20;

/// The code of what is wrong in such a file.
const CODE: &str = "pipeline";

/// A file that declares a pipeline, as far as it could be read.
pub struct PipelineFile {
    source: Source,
    file: TypedFile<PipelineSpec>,
}

impl PipelineFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be had as text of a known format. What is wrong *in* it is told by [`PipelineFile::validate`].
    pub fn read(path: &Path) -> Result<PipelineFile, ReadError> {
        let format = Format::of(path).ok_or_else(|| ReadError::Format { path: path.to_owned() })?;
        let text = read_text(path, PIPELINE_FILE_BYTES_MAX)?;
        Ok(PipelineFile::parse(&path.display().to_string(), format, &text))
    }

    /// Reads a text that is called `name` in findings.
    pub fn parse(name: &str, format: Format, text: &str) -> PipelineFile {
        let source = format.source(name, text.strip_prefix('\u{feff}').unwrap_or(text));
        let file = TypedFile::read(format, &source, CODE, Some(FileKind::Pipeline));
        PipelineFile { source, file }
    }

    /// What it declares.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, and where.
    pub fn validate(&self) -> Result<&PipelineSpec, Vec<Finding>> {
        let Some(spec) = self.file.value.as_ref().filter(|_| self.file.findings.is_empty()) else {
            return Err(self.file.findings.clone());
        };
        match spec.validate() {
            Ok(_) => Ok(spec),
            Err(faults) => Err(faults.iter().map(|fault| self.found(spec, fault)).collect()),
        }
    }

    fn found(&self, spec: &PipelineSpec, fault: &SpecFault) -> Finding {
        let named = fault.stage();
        // Of two stages of one name, the later one is at fault.
        let stage = named.and_then(|name| spec.stages.iter().rposition(|stage| stage.name == name));
        let pointer = match stage {
            Some(stage) => format!("/stages/{stage}{}", fault.part()),
            None => fault.part().to_owned(),
        };
        let detail = format!("{}: {fault}", fault.code());
        self.source.finding(CODE, self.file.at(&pointer), detail, "")
    }

    /// The file as text with places.
    pub fn source(&self) -> &Source {
        &self.source
    }
}
