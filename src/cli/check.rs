//! `ostler check`: everything that is wrong with a plan, or what it amounts to.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ostler::config::{Config, run_slots_default};
use ostler::finding::Finding;
use ostler::plan_file::{Format, PLAN_FILE_BYTES_MAX, PlanFile};
use ostler_actors::Toolbox;
use ostler_drivers::tool::builtin;
use ostler_kernel::contract::Reliability;
use ostler_kernel::plan::{PlanStats, Method, Plan, Settings};
use serde_json::json;

use super::bounds::Bounds;
use super::cells::{fit_name, harmless_line};
use super::exit::{Failure, code};
use super::term::{Out, Paint, count};
use super::{Globals, findings, foresee, session};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The plan: .yaml, .yml, .json or .toml; or - for stdin, as YAML, which JSON is a part of
    plan: PathBuf,
    /// Value of a parameter ${KEY} of the plan
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    params: Vec<(String, String)>,
    #[command(flatten)]
    bounds: Bounds,
}

/// `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// What stands for a file that comes from stdin.
pub(crate) const STDIN: &str = "-";

/// The plan that somebody named: a file, or what comes from stdin.
pub(crate) fn read_named(path: &Path, params: Vec<(String, String)>) -> Result<PlanFile, Failure> {
    if path != Path::new(STDIN) {
        return read(path, params);
    }
    let text = from_stdin("the plan", PLAN_FILE_BYTES_MAX)?;
    Ok(PlanFile::parse("stdin", Format::Yaml, &text, &given(params)?))
}

/// The text that comes from stdin, whole.
pub(crate) fn from_stdin(what: &str, bytes_max: usize) -> Result<String, Failure> {
    let refused = |why: String| Failure::invalid(format!("{what} from stdin: {why}"));
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(refused(format!("it has more than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        refused(format!("it is no text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })
}

/// A plan file with its parameters filled in.
pub(crate) fn read(path: &Path, params: Vec<(String, String)>) -> Result<PlanFile, Failure> {
    PlanFile::read(path, &given(params)?).map_err(|error| Failure::invalid(error.to_string()))
}

fn given(params: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut given = BTreeMap::new();
    for (name, value) in params {
        if given.insert(name.clone(), value).is_some() {
            return Err(Failure::invalid(format!("--param {name} is given twice")));
        }
    }
    Ok(given)
}

/// Judges a plan as it would be run here.
pub(crate) fn judge(file: &PlanFile, config: &Config) -> Result<(Plan, Vec<Finding>), Vec<Finding>> {
    let toolbox = Toolbox::new(builtin(&config.tools, None)).expect("the built-in tools go together");
    let domains = config.domains();
    file.validate(&Settings { domains: Some(&domains), ..Settings::real(run_slots_default(), &toolbox) })
}

pub(crate) fn check(globals: &Globals, args: CheckArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let workspace = args.bounds.workspace()?;
    let (config, _) = session::settings(globals, Path::new(&workspace))?;
    let file = read_named(&args.plan, args.params)?;
    let (plan, mut advice) = match judge(&file, &config) {
        Ok(judged) => judged,
        Err(findings) => return Err(findings::tell_plan(&file, &findings, globals.json, &mut out)),
    };
    advice.extend(foresee::refusals(&file, &plan, &config, &args.bounds, Path::new(&workspace)));
    let advice = findings::in_order(&advice);
    let stats = PlanStats::of(&plan);
    if globals.json {
        advice.iter().for_each(|finding| out.json(&findings::line(file.source(), finding)));
        let mut told = serde_json::to_value(&stats).expect("facts are names and numbers");
        told["type"] = json!("plan");
        told["id"] = json!(plan.id);
        told["valid"] = json!(true);
        out.json(&told);
        return Ok(code::SUCCEEDED);
    }
    let look = out.look();
    let advice: Vec<&Finding> = advice.iter().collect();
    findings::shown(file.source(), &advice, look).iter().for_each(|told| out.line(told));
    let title = plan.title.as_deref().map(|title| format!(": {}", harmless_line(title)));
    let (title, id) = (title.unwrap_or_default(), fit_name(&plan.id, usize::MAX));
    out.line(format!("{} {}{title}", out.paint(Paint::Good, "valid"), out.paint(Paint::Bold, &id)));
    let names = |names: Vec<&str>| match names.is_empty() {
        true => "none".to_owned(),
        false => harmless_line(&names.join(", ")),
    };
    let impact = match stats.impact_max {
        0 => "0 (observes)",
        1 => "1 (operates)",
        _ => "2 (controls)",
    };
    let path: Vec<&str> = stats.critical_path.iter().map(|id| id.as_str()).collect();
    out.line(format!("  nodes          {} with {}", stats.nodes, count(stats.edges, "edge")));
    out.line(format!("  depth, width   {}, {}", stats.depth, stats.width));
    out.line(format!("  critical path  {}", shortened(&path)));
    out.line(format!("  impact         {impact}"));
    out.line(format!("  tools          {}", names(stats.tools.iter().map(String::as_str).collect())));
    if !stats.models.is_empty() {
        out.line(format!("  models         {}", names(stats.models.iter().map(String::as_str).collect())));
    }
    let outputs: Vec<&str> = plan.outputs.iter().map(|id| id.as_str()).collect();
    out.line(format!("  outputs        {}", shortened(&outputs)));
    out.line(format!("  reliability    {}", reliability(&stats)));
    Ok(code::SUCCEEDED)
}

/// What the contracts let anybody say of the result.
fn reliability(stats: &PlanStats) -> String {
    let word = |method: &Method| serde_json::to_value(method).ok()?.as_str().map(str::to_owned);
    let methods =
        stats.methods.iter().filter_map(|(method, nodes)| Some(format!("{} {nodes}", word(method)?)));
    let methods = methods.collect::<Vec<_>>().join(", ");
    match stats.reliability {
        Some(Reliability { independent, always }) => {
            format!(
                "at least {always:.3}; {independent:.3} if nodes err independently (nodes by method: {methods})"
            )
        }
        None => {
            let unknown: Vec<&str> = stats.unknown_precision.iter().map(|id| id.as_str()).collect();
            format!("no bound: a rule without p judges {} (nodes by method: {methods})", shortened(&unknown))
        }
    }
}

/// Names of a list that are shown.
pub(crate) const NAMES_SHOWN_MAX: usize = 12;

fn shortened(names: &[&str]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        count if count > NAMES_SHOWN_MAX => {
            format!("{} … ({count} in all)", names[..NAMES_SHOWN_MAX].join(", "))
        }
        _ => names.join(", "),
    }
}
