//! `docs/errors`: every code has a page; its example has this fault and no other, and the corrected example
//! has none.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ostler::config::{Config, ConfigError};
use ostler::job_file::{JobFile, JobFileError};
use ostler::pipeline_file::PipelineFile;
use ostler::plan_file::{Finding, Format, PlanFile};
use ostler_actors::Toolbox;
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::evaluation::Domains;
use ostler_kernel::gate::{Call, DenialCode, GatePolicy, GatedTool, Provenance, Spent, preview};
use ostler_kernel::plan::{AdviceCode, Change, Delta, DiagnosticCode, NodeProgress, Plan, Settings, merge};
use ostler_kernel::policy::RULE_OF_TWO;
use serde_json::json;

/// Codes other than those of plan rules.
const OTHERS: [&str; 10] =
    ["syntax", "shape", "parameter", "config", "pipeline", "answer", JOB, "D00", BY_THE_GATE, "W11"];

/// Codes of files that are not plans.
const JOB: &str = "job";

/// Code that depends on the bounds of a run.
const BY_THE_GATE: &str = "W06";

fn codes() -> BTreeSet<String> {
    let faults = DiagnosticCode::ALL.iter().map(|code| code.as_str());
    let advice = AdviceCode::ALL.iter().map(|code| code.as_str());
    let denials = DenialCode::ALL.iter().map(|code| code.as_str()).chain([RULE_OF_TWO]);
    faults.chain(advice).chain(denials).chain(OTHERS).map(str::to_owned).collect()
}

fn is_of_gate(code: &str) -> bool {
    code == RULE_OF_TWO || DenialCode::ALL.iter().any(|known| known.as_str() == code)
}

fn is_change(code: &str) -> bool {
    code.starts_with('D') && !is_of_gate(code)
}

/// Codes of the gate that depend on more than a plan and its bounds; their pages have no example.
fn needs_more_than_a_plan(code: DenialCode) -> bool {
    !matches!(
        code,
        DenialCode::ParamSchema
            | DenialCode::PlanFieldForbidden
            | DenialCode::ScopeUnresolved
            | DenialCode::OutOfScope
            | DenialCode::ImpactOverIntent
            | DenialCode::ImpactOverScopeCap
            | DenialCode::ImpactOverTenantCeiling
            | DenialCode::PathEscape
            | DenialCode::EgressForbidden
    )
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fenced blocks of a page, with their languages.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    for fenced in page.split("\n```").skip(1).step_by(2) {
        let (language, text) = fenced.split_once('\n').unwrap();
        blocks.push((language.to_owned(), format!("{text}\n")));
    }
    blocks
}

fn validated(text: &str) -> Result<(Plan, Vec<Finding>), Vec<Finding>> {
    let toolbox = Toolbox::new(builtin(&ToolConfig::default(), None)).unwrap();
    let file = PlanFile::parse("example.yaml", Format::Yaml, text, &BTreeMap::new());
    let domains = Domains::default();
    file.validate(&Settings { domains: Some(&domains), callbacks: true, ..Settings::real(4, &toolbox) })
}

/// Fault codes of a plan; of a valid one, advice codes.
fn found(text: &str) -> (bool, BTreeSet<String>) {
    let (valid, findings) = match validated(text) {
        Ok((_, advice)) => (true, advice),
        Err(findings) => (false, findings),
    };
    (valid, findings.into_iter().map(|finding| finding.code).collect())
}

/// Fault codes of a change to a plan in which the node `begun` runs and others wait.
fn found_in_change(plan: &Plan, change: &str, closed: bool) -> BTreeSet<String> {
    let Ok(delta) = serde_json::from_str::<Delta>(change) else { return BTreeSet::from(["D00".to_owned()]) };
    let toolbox = Toolbox::new(builtin(&ToolConfig::default(), None)).unwrap();
    let standing = |id: &ostler_kernel::id::NodeId| match id.as_str() {
        "begun" => NodeProgress::Started,
        _ => NodeProgress::NotStarted,
    };
    let merged = merge(plan, &Change::Delta(delta), &standing, closed, &Settings::real(4, &toolbox));
    merged.err().unwrap_or_default().iter().map(|fault| fault.code.to_string()).collect()
}

/// The plan with its lists expanded to two elements.
fn expanded(plan: Plan) -> Plan {
    let toolbox = Toolbox::new(builtin(&ToolConfig::default(), None)).unwrap();
    let Some(at) = plan.nodes.iter().position(|node| node.for_each.is_some()) else { return plan };
    let progress = |_: &ostler_kernel::id::NodeId| NodeProgress::NotStarted;
    let expanded = ostler_kernel::plan::expand(&plan, at, 2, &progress, false, &Settings::real(4, &toolbox));
    let mut expanded = expanded.unwrap().plan;
    expanded.version = plan.version;
    expanded
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors");
    let names =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<String> = names
        .filter(|name| name != "README.md")
        .map(|name| name.trim_end_matches(".md").to_owned())
        .collect();
    assert_eq!(pages, codes());
    let list = page("README.md");
    for code in codes() {
        let title = page(&format!("{code}.md")).lines().next().unwrap().to_owned();
        let title = title.strip_prefix(&format!("# {code}: ")).unwrap_or_else(|| panic!("{code}: {title}"));
        assert!(
            list.contains(&format!("| [{code}]({code}.md) | {title} |")),
            "the list lacks {code}: {title}"
        );
    }
}

#[test]
fn the_example_of_each_page_has_its_code_and_the_mended_one_has_not() {
    let others = ["answer", "config", "pipeline", JOB, BY_THE_GATE];
    let of_plans = |code: &String| !is_change(code) && !others.contains(&code.as_str()) && !is_of_gate(code);
    for code in codes().into_iter().filter(of_plans) {
        let page = page(&format!("{code}.md"));
        let [(_, broken), (_, mended)] =
            blocks(&page).try_into().unwrap_or_else(|_| panic!("{code}: two blocks"));
        let (valid, codes) = found(&broken);
        assert_eq!(valid, code.starts_with('W'), "{code}: {codes:?}");
        if valid {
            assert!(codes.contains(&code), "{code}: {codes:?}");
        } else {
            assert_eq!(codes, BTreeSet::from([code.clone()]), "{code}");
        }
        let (valid, codes) = found(&mended);
        assert!(valid && !codes.contains(&code), "{code}, mended: {codes:?}");
    }
}

#[test]
fn the_example_of_each_change_has_its_code_and_the_mended_one_none() {
    for code in codes().into_iter().filter(|code| is_change(code)) {
        let page = page(&format!("{code}.md"));
        let [(_, plan), (_, broken), (_, mended)] =
            blocks(&page).try_into().unwrap_or_else(|_| panic!("{code}: three blocks"));
        let (plan, _) = validated(&plan).unwrap_or_else(|findings| panic!("{code}: {findings:?}"));
        let plan = expanded(plan);
        assert_eq!(found_in_change(&plan, &broken, code == "D05"), BTreeSet::from([code.clone()]), "{code}");
        let mut later = plan.clone();
        later.policy.max_versions = 1_000; // a run with versions left
        assert_eq!(found_in_change(&later, &mended, false), BTreeSet::new(), "{code}, mended");
    }
}

/// Bounds and tools of an example.
struct Bounds {
    config: &'static str,
    intent: u8,
    scope: &'static str,
    ceiling: u8,
    mended_config: String,
}

/// The first denial of the gate in a plan. Results of nodes are given.
fn refused_by_gate(plan: &str, config: &str, bounds: &Bounds) -> Option<DenialCode> {
    let (plan, _) = validated(plan).unwrap_or_else(|findings| panic!("{findings:?}"));
    let config = Config::parse("ostler.toml", config).unwrap();
    let tools = builtin(&config.tools, None);
    let policy = GatePolicy { ceiling: bounds.ceiling, ..config.gate(&tools) };
    let gated: Vec<GatedTool> = tools.into_iter().map(|tool| GatedTool::new(tool).unwrap()).collect();
    plan.nodes.iter().find_map(|node| {
        let name = node.tool.as_deref().unwrap();
        let mut params = node.params.clone();
        for (param, of) in &node.param_refs {
            let whole = json!({"files": ["a.txt"], "result": [["a.txt"]]});
            let steps = of.path.iter().flat_map(|path| path.split('.'));
            let value = steps.fold(&whole, |value, step| match step.parse::<usize>() {
                Ok(index) => &value[index],
                Err(_) => &value[step],
            });
            params.make_mut().insert(param.clone(), value.clone());
        }
        let tool = gated.iter().find(|tool| tool.name() == name);
        let (intent, scope) = (bounds.intent, bounds.scope);
        let call = Call {
            tool,
            name,
            params,
            floor: 0,
            intent,
            scope: scope.into(),
            workspace: Some("/work"),
            provenance: Provenance::PLAN,
            spent: Spent::NOTHING,
        };
        preview(call, &policy).err().map(|denial| denial.code)
    })
}

/// Bounds in the options of a corrected example.
fn with_options(text: &str, bounds: &mut Bounds) {
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        match pair {
            ["--intent", intent] => bounds.intent = intent.parse().unwrap(),
            ["--scope", "default"] => bounds.scope = "default",
            _ => {}
        }
    }
}

#[test]
fn the_example_of_each_code_of_the_gate_is_refused_with_it_and_the_mended_one_is_not() {
    for code in DenialCode::ALL.into_iter().filter(|code| !needs_more_than_a_plan(*code)) {
        let page = page(&format!("{code}.md"));
        let [(_, broken), (kind, mended)] =
            blocks(&page).try_into().unwrap_or_else(|_| panic!("{code}: two blocks"));
        let (config, intent, scope, ceiling) = match code {
            DenialCode::ImpactOverScopeCap => {
                ("[scopes.look]\ntools = ['shell.run']\ncaps = {'shell.run' = 0}\n", 2, "look", 2)
            }
            DenialCode::OutOfScope => ("[scopes.read]\ntools = ['fs.read']\n", 1, "read", 2),
            DenialCode::ScopeUnresolved => ("", 1, "release", 2),
            DenialCode::ImpactOverTenantCeiling => ("", 2, "default", 1),
            _ => ("", 1, "default", 2),
        };
        if code == DenialCode::PlanFieldForbidden {
            // Plan validation reports this fault, so that only changes to a run reach the gate.
            assert_eq!(found(&broken), (false, BTreeSet::from(["V23".to_owned()])));
            assert!(found(&mended).0);
            continue;
        }
        let mut bounds = Bounds { config, intent, scope, ceiling, mended_config: config.to_owned() };
        assert_eq!(refused_by_gate(&broken, bounds.config, &bounds), Some(code));
        let mut plan = broken;
        match kind.as_str() {
            "yaml" => plan = mended,
            "toml" => bounds.mended_config = mended,
            _ => with_options(&mended, &mut bounds),
        }
        assert_eq!(refused_by_gate(&plan, &bounds.mended_config, &bounds), None, "{code}, mended");
    }
}

#[test]
fn the_example_of_a_pipeline_is_refused_and_the_mended_one_is_not() {
    let page = page("pipeline.md");
    let [(_, broken), (_, mended)] = blocks(&page).try_into().unwrap();
    let parsed = |text: &str| PipelineFile::parse("web.yaml", Format::Yaml, text);
    let findings = parsed(&broken).validate().unwrap_err();
    assert!(findings.len() == 1 && findings[0].code == "pipeline", "{findings:?}");
    assert!(parsed(&mended).validate().is_ok());
}

#[test]
fn the_example_of_a_job_is_refused_and_the_mended_one_is_not() {
    let page = page("job.md");
    let [(_, broken), (_, mended)] = blocks(&page).try_into().unwrap();
    match JobFile::parse("job.yaml", Format::Yaml, &broken) {
        Err(JobFileError::Content { findings, .. }) => {
            assert!(!findings.is_empty() && findings.iter().all(|finding| finding.code == JOB));
        }
        other => panic!("{other:?}"),
    }
    JobFile::parse("job.yaml", Format::Yaml, &mended).unwrap();
}

#[test]
fn the_example_of_a_configuration_is_refused_and_the_mended_one_is_not() {
    let page = page("config.md");
    let [(_, broken), (_, mended)] = blocks(&page).try_into().unwrap();
    match Config::parse("ostler.toml", &broken) {
        Err(ConfigError::Content { findings, .. }) => {
            assert!(!findings.is_empty() && findings.iter().all(|finding| finding.code == "config"));
        }
        other => panic!("{other:?}"),
    }
    Config::parse("ostler.toml", &mended).unwrap();
}
