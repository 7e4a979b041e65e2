//! Job files: work offered on the market, as people write it.
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
use std::fmt;
use std::path::Path;

use ostler_kernel::agent::Oversight;
use ostler_kernel::evaluation::{Domains, UnknownDomain};
use ostler_kernel::id::{CLIENT_DEFAULT, NAME_RULE, is_name};
use ostler_kernel::ledger::Usd;
use ostler_kernel::market::{JobFault, JobTerms};
use ostler_kernel::plan::{HumanDuration, Pointer, TIMEOUT_MS_MAX};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use crate::finding::{Finding, Source};
use crate::plan_file::{FileKind, Format, ReadError, TypedFile, closest_name, format_of, read_text};

/// Largest job file, in bytes.
pub const JOB_FILE_BYTES_MAX: usize = 1 << 20;

const CODE: &str = "job";

/// A job as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a job: a map with a `title`, a `budget` and a `plan`")]
pub struct JobFile {
    /// A line for people.
    pub title: String,
    /// The paying client; only this client's agents may bid.
    #[serde(default = "local")]
    pub client: String,
    /// Capabilities required of an agent.
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// Subject, which selects the evaluation weights; `None` uses the agent's domain.
    #[serde(default)]
    pub domain: Option<String>,
    /// Most credits the job may cost.
    pub budget: u64,
    /// Most that its calls of models may cost, in US dollars.
    #[serde(default)]
    pub usd: Option<Usd>,
    /// Most tokens of its calls of models.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Time until the job must be over; `None` for no deadline.
    #[serde(default)]
    pub deadline: Option<HumanDuration>,
    /// Degree to which people watch.
    #[serde(default)]
    pub oversight: Oversight,
    /// Path of the plan file, relative to the folder of the job file.
    pub plan: String,
    /// Plan parameters, as with `--param`; written as texts, numbers, `true` or `false`.
    #[serde(default, deserialize_with = "params")]
    pub params: BTreeMap<String, String>,
}

fn local() -> String {
    CLIENT_DEFAULT.to_owned()
}

fn params<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let params = BTreeMap::<String, Param>::deserialize(deserializer)?;
    Ok(params.into_iter().map(|(name, Param(text))| (name, text)).collect())
}

/// A parameter value as text that parses to the written value.
struct Param(String);

impl<'de> Deserialize<'de> for Param {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Param, D::Error> {
        struct AsText;
        impl Visitor<'_> for AsText {
            type Value = Param;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Param, E> {
                Ok(Param(flag.to_string()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Param, E> {
                Ok(Param(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Param, E> {
                Ok(Param(number.to_string()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Param, E> {
                let finite = Number::from_f64(number);
                let finite = finite.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))?;
                Ok(Param(finite.to_string()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Param, E> {
                Ok(Param(text.to_owned()))
            }
        }
        deserializer.deserialize_any(AsText)
    }
}

/// Reason to reject a job file.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The content is invalid.
    #[error("{}", .findings.iter().map(|finding| format!("{}; {}", finding.detail, finding.help)).collect::<Vec<_>>().join("\n"))]
    Content {
        /// The text.
        source_text: Box<Source>,
        /// All findings.
        findings: Vec<Finding>,
    },
}

impl JobFile {
    /// Reads a file. Rejects a job with a domain outside `domains`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the content is invalid.
    pub fn read(path: &Path, domains: &Domains) -> Result<JobFile, JobFileError> {
        let format = format_of(path)?;
        let text = read_text(path, JOB_FILE_BYTES_MAX)?;
        JobFile::parse_with(&path.display().to_string(), format, &text, Some(domains))
    }

    /// Reads a text with the file name `name`, without checking the domain.
    ///
    /// # Errors
    ///
    /// Every finding in the content.
    pub fn parse(name: &str, format: Format, text: &str) -> Result<JobFile, JobFileError> {
        JobFile::parse_with(name, format, text, None)
    }

    fn parse_with(
        name: &str,
        format: Format,
        text: &str,
        domains: Option<&Domains>,
    ) -> Result<JobFile, JobFileError> {
        let source = Box::new(format.source(name, text.strip_prefix('\u{feff}').unwrap_or(text)));
        let mut file = TypedFile::<JobFile>::read(format, &source, CODE, Some(FileKind::Job));
        let findings = match file.value.take() {
            Some(mut job) => {
                let mut wrong = job.check(&file, domains);
                for (name, written) in file.numbers("params", &source) {
                    match written {
                        // The written form is kept, so a version 1.10 stays `1.10` within a text, as with
                        // `--param`.
                        Some(number) => drop(job.params.insert(name.to_owned(), number.to_owned())),
                        None => wrong.push((
                            Pointer::root().key("params").key(name),
                            format!("parameter {name} is a number that JSON writes differently"),
                            "write it in quotes".to_owned(),
                        )),
                    }
                }
                wrong.retain(|(pointer, ..)| file.is_as_written(pointer.as_str()));
                let of_values = wrong.into_iter().map(|(pointer, detail, help)| {
                    source.finding(CODE, file.at(pointer.as_str()), detail, help)
                });
                let mut findings: Vec<Finding> = file.findings.iter().cloned().chain(of_values).collect();
                findings.sort_by_key(|finding| finding.place.map(|place| (place.line, place.column)));
                if findings.is_empty() {
                    return Ok(job);
                }
                findings
            }
            _ => file.findings,
        };
        Err(JobFileError::Content { source_text: source, findings })
    }

    fn check(&self, file: &TypedFile<JobFile>, domains: Option<&Domains>) -> Vec<(Pointer, String, String)> {
        let key = |key: &str| Pointer::root().key(key);
        let mut wrong = Vec::new();
        if !is_name(&self.client) {
            let detail = format!("{:?} is not a client name", self.client);
            wrong.push((key("client"), detail, format!("use {NAME_RULE}")));
        }
        let terms = JobTerms {
            title: &self.title,
            capabilities: &self.capabilities,
            domain: self.domain.as_deref(),
            budget: self.budget,
            // Deadlines count from the time of posting, here 0.
            deadline: self.deadline.map(|span| span.ticks(1_000)),
        };
        for fault in terms.faults(0) {
            let (place, help) = match &fault {
                JobFault::Title(_) | JobFault::ControlCharacter(_) => {
                    (key("title"), "describe the job in one line")
                }
                JobFault::Capability(capability) => {
                    let list = key("capabilities");
                    let item = file.position("capabilities", capability).map(|at| list.item(at));
                    (item.unwrap_or(list), "write it as a name, such as contracts")
                }
                JobFault::TooMany(_) => (key("capabilities"), "remove some"),
                // A malformed name is an unknown domain too, and reported below.
                JobFault::Domain(_) if domains.is_some() => continue,
                JobFault::Domain(_) => (key("domain"), "write it as a name, such as legal"),
                JobFault::Budget(_) => (key("budget"), "set the most credits the job may cost"),
                JobFault::Deadline { .. } => (key("deadline"), "set a later deadline, such as 1h"),
            };
            let detail = match &fault {
                // The text of the fault includes its own help, for callers without a file.
                JobFault::Deadline { .. } => "the deadline is in the past".to_owned(),
                _ => fault.to_string(),
            };
            wrong.push((place, detail, help.to_owned()));
        }
        if self.deadline.is_some_and(|span| span.ticks(1_000) > TIMEOUT_MS_MAX) {
            let detail = "the deadline is more than ten years away".to_owned();
            wrong.push((key("deadline"), detail, "set an earlier deadline, such as 1h".to_owned()));
        }
        let unknown = domains.and_then(|domains| domains.check(self.domain.as_deref()).err());
        if let Some(UnknownDomain { domain, known }) = unknown {
            let help = match closest_name(&domain, known.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("known domains: {}", known.join(", ")),
            };
            wrong.push((key("domain"), format!("unknown domain {domain:?}"), help));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::agent::CAPABILITIES_MAX;
    use ostler_kernel::market::TITLE_BYTES_MAX;

    use super::*;

    /// Findings of a text with the built-in domains, as `LINE:COLUMN problem; help`.
    fn told(format: Format, text: &str) -> Vec<String> {
        let findings = match JobFile::parse_with("job", format, text, Some(&Domains::default())) {
            Ok(_) => Vec::new(),
            Err(JobFileError::Content { findings, .. }) => findings,
            Err(error) => panic!("{error}"),
        };
        let line = |Finding { code, detail, help, place, .. }: Finding| {
            assert_eq!(code, CODE);
            let place = place.map(|place| format!("{}:{}", place.line, place.column)).unwrap_or_default();
            format!("{place} {detail}; {help}")
        };
        findings.into_iter().map(line).collect()
    }

    #[test]
    fn wrong_values_are_told_beside_wrong_shapes_and_missing_keys() {
        let text =
            "client: a/b\ndeadline: 0s\nbudget: x\ncolour: red\nplan: p.yaml\ncapabilities: [1, a/b]\n";
        let told = told(Format::Yaml, text);
        for part in
            ["\"a/b\" is not a client name", "the deadline is in the past", "colour", "\"title\" is missing"]
        {
            assert!(told.iter().any(|line| line.contains(part)), "{part}: {told:?}");
        }
        let of = |start: &str| told.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!((of("3:"), of("6:")), (1, 1), "nothing follows from a wrong shape: {told:?}");
        assert!(!told.iter().any(|line| line.contains("its title has")), "{told:?}");
    }

    #[test]
    fn what_cannot_be_posted_is_told_where_it_stands() {
        let long = format!("title: {}", "x".repeat(TITLE_BYTES_MAX + 1));
        let names: Vec<String> = (0..=CAPABILITIES_MAX).map(|number| format!("c{number}")).collect();
        let many = format!("capabilities: [{}]", names.join(", "));
        for (line, expected) in [
            ("deadline: 1s", None),
            ("domain: legal", None),
            (
                "budget: 0",
                Some(
                    "3:9 a budget of 0 credits is not within 1 and 9007199254740992; set the most credits the job may \
                     cost",
                ),
            ),
            ("deadline: 0s", Some("3:11 the deadline is in the past; set a later deadline, such as 1h")),
            ("deadline: -5m", Some("3:11 the deadline is in the past; set a later deadline, such as 1h")),
            ("deadline: 3660d", None),
            (
                "deadline: 3661d",
                Some("3:11 the deadline is more than ten years away; set an earlier deadline, such as 1h"),
            ),
            (
                "deadline: 1e300",
                Some("3:11 the deadline is more than ten years away; set an earlier deadline, such as 1h"),
            ),
            ("domain: lega", Some("3:9 unknown domain \"lega\"; did you mean \"legal\"?")),
            (
                "domain: poetry",
                Some(
                    "3:9 unknown domain \"poetry\"; known domains: dashboard, default, legal, security, \
                     web-testing",
                ),
            ),
            (
                "capabilities: [contracts, a/b]",
                Some(
                    "3:27 capability \"a/b\" is not 1 to 64 of A-Z a-z 0-9 . _ -; write it as a name, such as contracts",
                ),
            ),
            (many.as_str(), Some("3:1 it asks for 65 capabilities, CAPABILITIES_MAX allows 64; remove some")),
            ("client: a/b", Some("3:9 \"a/b\" is not a client name; use 1 to 64 of A-Z a-z 0-9 . _ -")),
            (
                long.as_str(),
                Some("3:8 its title has 201 bytes, expected 1 to 200; describe the job in one line"),
            ),
            (
                "title: \"read it\\nand more\"",
                Some("3:8 its title has '\\n' in it, expected one line; describe the job in one line"),
            ),
        ] {
            let key = line.split(':').next().unwrap_or_default();
            // The tested line is the third; the other lines complete the job.
            let rest = ["title: read it", "plan: p.yaml", "budget: 5"];
            let mut lines: Vec<&str> = rest.into_iter().filter(|other| !other.starts_with(key)).collect();
            if lines.len() < 3 {
                lines.push("oversight: supervised");
            }
            lines.insert(2, line);
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(told(Format::Yaml, &lines.join("\n")), expected, "{line}");
        }
    }

    #[test]
    fn every_format_has_places_and_all_faults_are_told_at_once() {
        for (format, text, places) in [
            (
                Format::Yaml,
                "title: x\nbudget: 0\ndeadline: 0s\ndomain: lega\nplan: p\n",
                ["2:9", "3:11", "4:9"],
            ),
            (
                Format::Json,
                "{\"title\": \"x\", \"budget\": 0,\n\"deadline\": \"0s\",\n\"domain\": \"lega\", \"plan\": \"p\"}",
                ["1:26", "2:13", "3:11"],
            ),
            (
                Format::Toml,
                "title = 'x'\nbudget = 0\ndeadline = '0s'\ndomain = 'lega'\nplan = 'p'\n",
                ["2:10", "3:12", "4:10"],
            ),
        ] {
            let told = told(format, text);
            let found: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next()).collect();
            assert_eq!(found, places, "{told:?}");
        }
    }

    #[test]
    fn a_job_of_a_domain_that_nobody_knows_is_read_where_it_is_not_known_which_there_are() {
        for (domain, is_read) in [("lega", true), ("a/b", false)] {
            let text = format!("title: x\nbudget: 1\ndomain: {domain}\nplan: p\n");
            assert_eq!(JobFile::parse("job", Format::Yaml, &text).is_ok(), is_read, "{domain}");
        }
    }

    #[test]
    fn parameters_are_what_the_command_line_would_make_of_them() {
        for (format, text) in [
            (
                Format::Yaml,
                "title: x\nbudget: 1\nplan: p\nparams:\n  count: 5\n  below: -5\n  share: 1.10\n  on: true\n  \
                 text: \"5\"\n",
            ),
            (
                Format::Json,
                "{\"title\": \"x\", \"budget\": 1, \"plan\": \"p\", \"params\": {\"count\": 5, \"below\": -5, \"share\": 1.10, \
                 \"on\": true, \"text\": \"5\"}}",
            ),
            (
                Format::Toml,
                "title = 'x'\nbudget = 1\nplan = 'p'\n[params]\ncount = 5\nbelow = -5\nshare = 1.10\non = true\n\
                 text = '5'\n",
            ),
        ] {
            let job = JobFile::parse("job", format, text).unwrap();
            let params: Vec<(&str, &str)> =
                job.params.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let expected =
                [("below", "-5"), ("count", "5"), ("on", "true"), ("share", "1.10"), ("text", "5")];
            assert_eq!(params, expected, "{format:?}");
        }
        for value in ["0x10", "017", "1_000", "+5", "5.", "*v"] {
            let text = format!("title: x\nbudget: 1\nplan: p\nparams: {{v: &v 1.10, count: {value}}}\n");
            let expected =
                "4:29 parameter count is a number that JSON writes differently; write it in quotes";
            assert_eq!(told(Format::Yaml, &text), [expected], "{value}");
        }
        for (value, found) in [("[5]", "a list"), ("null", "null")] {
            let text = format!("title: x\nbudget: 1\nplan: p\nparams:\n  count: {value}\n");
            let expected = format!("5:10 expected a text, a number, true or false, found {found}; ");
            assert_eq!(told(Format::Yaml, &text), [expected], "{value}");
        }
    }
}
