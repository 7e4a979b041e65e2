//! The agents of an audit: three independent scanners and a synthesis.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use ostler::kernel::event::Failure;
use ostler::kernel::plan::Effect;
use ostler::{Program, ProgramContext};
use serde::Deserialize;
use serde_json::{Value, json};

use super::case_studies::analyst::{Analyst, agent, answer, instruction_with, read};
use super::finding::{Finding, Report, Scanned, Severity, schema};
use super::folder;
use super::scanners::failed;

/// A scanner of the run's folder. Each file is a durable step, so a file scanned before a crash is not scanned again.
pub(crate) fn scanner(
    name: &str,
    instruction: &'static str,
    wants: fn(&str) -> bool,
    analyst: impl Analyst,
) -> Program {
    let analyst = Arc::new(analyst);
    let scan = move |agent: ProgramContext, input: Value| {
        let analyst = Arc::clone(&analyst);
        async move {
            let instruction = instruction_with(instruction, &input);
            let root = agent.workspace().to_owned();
            let listed = agent.step("list", || async { folder::list(&root) }).await?;
            let (mut files, mut findings) = (0, Vec::new());
            for file in listed.iter().filter(|file| wants(&file.path)) {
                let look = || async {
                    let text = folder::text(&root, file)?;
                    let given = json!({"path": file.path, "mode": file.mode, "text": text});
                    answer::<Vec<Finding>>(analyst.complete(&instruction, &given).await?)
                };
                findings.extend(agent.step(format!("file {}", file.path), look).await?);
                files += 1;
            }
            Ok::<Scanned, Failure>(Scanned::of(files, findings, input["feedback"].as_str()))
        }
    };
    let takes = json!({"type": "object", "properties": {"feedback": {"type": "string"}}, "additionalProperties": false});
    let gives = json!({"type": "object", "required": ["files", "findings", "confidence"],
                       "properties": {"files": {"type": "integer"}, "findings": schema(), "confidence": {"type": "number"}}});
    Program::new(name, "1", scan).description(instruction).input(takes).output(gives).effect(Effect::Read)
}

/// The agent that writes the report.
pub(crate) fn synthesis(analyst: impl Analyst) -> Program {
    let parts = ["secrets", "permissions", "dependencies"];
    let takes: BTreeMap<&str, Value> = parts.into_iter().map(|part| (part, schema())).collect();
    agent::<Report>("security.synthesis", "Put the findings of these scanners together.", analyst)
        .input(
            json!({"type": "object", "properties": takes, "required": parts, "additionalProperties": false}),
        )
        .output(report_schema())
}

/// JSON Schema of the report.
pub(crate) fn report_schema() -> Value {
    json!({"type": "object", "required": ["findings", "text"],
           "properties": {"findings": schema(), "text": {"type": "string", "minLength": 1}}})
}

/// Combines findings, worst first. A finding in a file with findings of another scanner is raised, because one weakness can open the
/// way to the other.
pub(crate) struct Synthesis;

impl Analyst for Synthesis {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        #[derive(Deserialize)]
        struct Found {
            secrets: Vec<Finding>,
            permissions: Vec<Finding>,
            dependencies: Vec<Finding>,
        }
        let Found { secrets, permissions, dependencies } = read(input)?;
        let mut scanners: BTreeMap<String, u32> = BTreeMap::new();
        for found in [&secrets, &permissions, &dependencies] {
            let paths: BTreeSet<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
            paths.into_iter().for_each(|path| *scanners.entry(path.to_owned()).or_default() += 1);
        }
        let mut findings: Vec<Finding> = [secrets, permissions, dependencies].concat();
        for finding in findings.iter_mut().filter(|finding| scanners[&finding.path] > 1) {
            if finding.severity == Severity::High {
                finding.severity = Severity::Critical;
            }
        }
        findings.sort_by_key(|finding| {
            (std::cmp::Reverse(finding.severity), finding.path.clone(), finding.line, finding.what.clone())
        });
        let text = report(&findings, scanners.len()).map_err(failed)?;
        serde_json::to_value(Report { findings, text }).map_err(failed)
    }
}

fn report(findings: &[Finding], files: usize) -> Result<String, std::fmt::Error> {
    let mut text = format!("# {} findings in {files} files\n\n", findings.len());
    if findings.is_empty() {
        text += "Nothing was found.\n";
    }
    for finding in findings {
        let severity = format!("{:?}", finding.severity).to_lowercase();
        writeln!(text, "- {severity}: {}: {}", finding.place(), finding.what)?;
    }
    Ok(text)
}
