//! Job files: work that is put up on the market, as people write it.
//!
//! ```
//! use ostler::job_file::JobFile;
//! use ostler::plan_file::Format;
//!
//! let text = "title: read the contract\ncapabilities: [contracts]\nbudget: 5000\nplan: contract.yaml\n";
//! let job = JobFile::parse("job.yaml", Format::Yaml, text).unwrap();
//! assert_eq!((job.budget, job.plan.as_str()), (5_000, "contract.yaml"));
//! let wrong = JobFile::parse("job.yaml", Format::Yaml, "title: x\nbudgt: 5\nplan: p.yaml\n").unwrap_err();
//! assert!(wrong.to_string().contains("did you mean \"budget\"?"), "{wrong}");
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ostler_kernel::agent::Oversight;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_kernel::plan::Span;
use serde::Deserialize;

use crate::finding::{Finding, Source};
use crate::plan_file::{Format, ReadError, Shaped, read_text};

/// Bytes of a job file.
pub const JOB_FILE_BYTES_MAX: usize = 1 << 20;

/// A job as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a job: a map with a `title`, a `budget` and a `plan`")]
pub struct JobFile {
    /// One line for people.
    pub title: String,
    /// Who pays, and whose agents propose.
    #[serde(default = "local")]
    pub client: String,
    /// What an agent must be able to do.
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// What it is about: whose weights it is judged by; absent: what the agent says of itself counts.
    #[serde(default)]
    pub domain: Option<String>,
    /// Credits that it may cost at most.
    pub budget: u64,
    /// How long from now until it must be over; absent: whenever.
    #[serde(default)]
    pub deadline: Option<Span>,
    /// How closely people watch.
    #[serde(default)]
    pub oversight: Oversight,
    /// The plan to run: a file, from the folder of this one.
    pub plan: String,
    /// Values of the parameters of the plan.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
}

fn local() -> String {
    CLIENT_DEFAULT.to_owned()
}

/// Why a job file is none.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// There is no text to be had.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It says something that is not known, or not as it should.
    #[error("{}", .findings.iter().map(|finding| format!("{}: {}", finding.detail, finding.mend)).collect::<Vec<_>>().join("\n"))]
    Content {
        /// The text.
        source_text: Box<Source>,
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}

impl JobFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or everything that is wrong with it.
    pub fn read(path: &Path) -> Result<JobFile, JobFileError> {
        let format = Format::of(path).ok_or_else(|| ReadError::Format { path: path.to_owned() })?;
        JobFile::parse(&path.display().to_string(), format, &read_text(path, JOB_FILE_BYTES_MAX)?)
    }

    /// Reads a text that is called `name` in errors.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(name: &str, format: Format, text: &str) -> Result<JobFile, JobFileError> {
        let source = Box::new(Source::new(name, text.strip_prefix('\u{feff}').unwrap_or(text)));
        let Shaped { value, findings, .. } = Shaped::<JobFile>::read(format, &source, "job");
        match value {
            Some(job) if findings.is_empty() => Ok(job),
            _ => Err(JobFileError::Content { source_text: source, findings }),
        }
    }
}
