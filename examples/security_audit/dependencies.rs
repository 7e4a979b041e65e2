//! The dependency scanner: reads manifests and reports versions with known vulnerabilities.

use ostler::kernel::event::Failure;
use serde::Deserialize;
use serde_json::Value;

use super::case_studies::analyst::{Analyst, read};
use super::finding::{Finding, Severity};
use super::scanners::{File, told};

/// Known vulnerabilities, bundled with the example.
const ADVISORIES: &str = include_str!("advisories.toml");

#[derive(Debug, Deserialize)]
struct Advisories {
    advisory: Vec<Advisory>,
}

#[derive(Debug, Deserialize)]
struct Advisory {
    ecosystem: String,
    package: String,
    below: String,
    id: String,
    severity: Severity,
    what: String,
}

/// A dependency as declared.
#[derive(Debug, PartialEq)]
struct Dependency {
    line: usize,
    package: String,
    /// Version as declared; empty for any.
    version: String,
}

impl Dependency {
    /// The version, if the declaration permits exactly one by the rules of its ecosystem.
    fn exact(&self, ecosystem: &str) -> Option<&str> {
        let is_number = |text: &&str| text.starts_with(|first: char| first.is_ascii_digit());
        match ecosystem {
            "pypi" => self.version.strip_prefix("==").filter(is_number),
            "crates" => self.version.strip_prefix('=').map(str::trim).filter(is_number),
            _ => Some(self.version.as_str()).filter(is_number),
        }
    }

    /// The lowest permitted version, if stated. A range does not prove that the lowest version is used.
    fn lowest(&self) -> Option<&str> {
        let version = self.version.trim_start_matches(|sign: char| "=^~>! ".contains(sign));
        let version = version.split([',', ' ']).next().unwrap_or_default();
        Some(version).filter(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// True if any version is permitted.
    fn is_any(&self) -> bool {
        ["", "*", "latest", "x"].contains(&self.version.as_str())
    }
}

/// Numeric components of a version, without any suffix.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version
        .split('.')
        .map(|part| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0));
    let mut numbers: Vec<u64> = numbers.collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

/// The line that names a package.
fn line_of(text: &str, package: &str) -> usize {
    let names = |line: &str| line.trim_start().trim_start_matches('"').starts_with(package);
    text.lines().position(names).map_or(0, |at| at + 1)
}

fn of_requirements(text: &str) -> Vec<Dependency> {
    let lines =
        (1..).zip(text.lines()).map(|(line, text)| (line, text.split('#').next().unwrap_or("").trim()));
    let told = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('-'));
    told.map(|(line, text)| {
        let end = text.find(|sign: char| "=<>!~[; ".contains(sign)).unwrap_or(text.len());
        let (package, version) = text.split_at(end);
        Dependency { line, package: package.to_lowercase(), version: version.trim().to_owned() }
    })
    .collect()
}

fn of_package_json(text: &str) -> Result<Vec<Dependency>, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let tables = ["dependencies", "devDependencies"].iter().filter_map(|table| file[*table].as_object());
    let named = tables.flatten().map(|(package, version)| Dependency {
        line: line_of(text, package),
        package: package.clone(),
        version: version.as_str().unwrap_or_default().to_owned(),
    });
    Ok(named.collect())
}

fn of_cargo_toml(text: &str) -> Result<Vec<Dependency>, String> {
    let file: toml::Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = tables.iter().filter_map(|table| file.get(*table)?.as_table());
    let mut found = Vec::new();
    for (package, wanted) in tables.flatten() {
        // Dependencies from a path or workspace declare their version elsewhere.
        let version = match wanted {
            toml::Value::String(version) => Some(version.clone()),
            toml::Value::Table(table) => table.get("version").and_then(|it| it.as_str()).map(str::to_owned),
            _ => None,
        };
        let line = line_of(text, package);
        found.extend(version.map(|version| Dependency { line, package: package.clone(), version }));
    }
    Ok(found)
}

/// True for manifests and lock files.
pub(crate) fn is_about_dependencies(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("requirements.txt" | "package.json" | "Cargo.toml"))
}

/// Reports unbounded versions and versions with known vulnerabilities.
pub(crate) struct Dependencies {
    known: Vec<Advisory>,
}

impl Dependencies {
    pub(crate) fn new() -> Result<Dependencies, toml::de::Error> {
        Ok(Dependencies { known: toml::from_str::<Advisories>(ADVISORIES)?.advisory })
    }

    fn look(&self, file: &File, ecosystem: &str, needed: &Dependency) -> Vec<Finding> {
        let Dependency { line, package, version } = needed;
        if needed.is_any() {
            let what = format!("{package} in any version: whatever is published next is taken");
            return vec![file.finding(*line, Severity::Medium, 0.9, what)];
        }
        let Some(lowest) = needed.lowest() else { return Vec::new() };
        let about = self.known.iter().filter(|known| {
            known.ecosystem == ecosystem
                && known.package == *package
                && numbers(lowest) < numbers(&known.below)
        });
        about
            .map(|Advisory { below, id, severity, what, .. }| {
                let confidence = if needed.exact(ecosystem).is_some() { 0.95 } else { 0.75 };
                let what = format!("{package} {version}, {id}: {what} (fixed in {below})");
                file.finding(*line, *severity, confidence, what)
            })
            .collect()
    }
}

impl Analyst for Dependencies {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let file: File = read(input)?;
        let (ecosystem, needed) = match file.path.rsplit('/').next() {
            Some("requirements.txt") => ("pypi", Ok(of_requirements(&file.text))),
            Some("package.json") => ("npm", of_package_json(&file.text)),
            Some("Cargo.toml") => ("crates", of_cargo_toml(&file.text)),
            _ => return told(&[]),
        };
        let needed = match needed {
            Ok(needed) => needed,
            Err(why) => {
                return told(&[file.finding(0, Severity::Low, 0.9, format!("cannot be read: {why}"))]);
            }
        };
        let findings: Vec<Finding> =
            needed.iter().flat_map(|needed| self.look(&file, ecosystem, needed)).collect();
        told(&findings)
    }
}
