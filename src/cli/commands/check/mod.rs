//! `ostler check`.

pub(crate) mod preflight;

use std::path::{Path, PathBuf};

use clap::Args;
use ostler::finding::Finding;
use ostler_kernel::contract::Reliability;
use ostler_kernel::plan::{Method, PlanStats};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::bounds::Bounds;
use crate::cli::arguments::plan::{judge, key_value, read_named, with_settings};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::findings;
use crate::cli::output::findings::NAMES_SHOWN_MAX;
use crate::cli::output::terminal::{Out, Style};
use crate::cli::output::units::plural;
use crate::cli::session::settings;

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The plan: .yaml, .yml, .json or .toml; or - for stdin, in YAML or JSON
    plan: PathBuf,
    /// Value of the plan parameter ${KEY}
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = key_value)]
    params: Vec<(String, String)>,
    /// Add the reliability, even if nothing beyond schemas is checked
    #[arg(long, short)]
    verbose: bool,
    /// Model for nodes that ask `default`: a name of the configuration, scripted:FILE or cassette:FILE
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    bounds: Bounds,
}

pub(crate) fn check(globals: &Globals, args: CheckArgs) -> Result<u8, Failure> {
    let globals = &globals.with_model(args.model.as_deref())?;
    let mut out = Out::new();
    let workspace = args.bounds.workspace()?;
    let (config, _) = settings::load_settings(globals, Path::new(&workspace))?;
    let mut file = read_named(&args.plan, args.params)?;
    if let Some(model) = globals.chosen_model(&config, args.model.as_deref())? {
        file.ask(&model);
    }
    let (plan, mut advice) = match judge(&file, &config) {
        Ok(judged) => judged,
        Err(findings) => return Err(findings::report_plan(&file, &findings, globals.json, &mut out)),
    };
    advice.extend(preflight::refusals(&file, &plan, &config, &args.bounds, Path::new(&workspace)));
    let advice = findings::in_order(&advice);
    let stats = with_settings(&config, |settings| PlanStats::of(&plan, settings));
    if globals.json {
        advice.iter().for_each(|finding| out.json(&findings::finding_json(file.source(), finding)));
        let mut object = serde_json::to_value(&stats).expect("facts are names and numbers");
        object["type"] = json!("plan");
        object["id"] = json!(plan.id);
        object["valid"] = json!(true);
        out.json(&object);
        return Ok(code::SUCCEEDED);
    }
    let look = out.finding_look();
    let advice: Vec<&Finding> = advice.iter().collect();
    findings::format_findings(file.source(), &advice, look).iter().for_each(|line| out.line(line));
    let title = plan.title.as_deref().map(|title| format!(": {}", harmless_line(title)));
    let (title, id) = (title.unwrap_or_default(), fit_name(&plan.id, usize::MAX));
    out.line(format!("{} {}{title}", out.styled(Style::Success, "valid"), out.styled(Style::Bold, &id)));
    let names = |names: Vec<&str>| match names.is_empty() {
        true => "none".to_owned(),
        false => harmless_line(&names.join(", ")),
    };
    let impact = match stats.impact_max {
        0 => "0 (observe)",
        1 => "1 (operate)",
        _ => "2 (control)",
    };
    let path: Vec<&str> = stats.critical_path.iter().map(|id| id.as_str()).collect();
    out.line(format!("  nodes          {} with {}", stats.nodes, plural(stats.edges, "edge")));
    out.line(format!("  depth, width   {}, {}", stats.depth, stats.width));
    out.line(format!("  critical path  {}", shortened(&path)));
    out.line(format!("  impact         {impact}"));
    out.line(format!("  tools          {}", names(stats.tools.iter().map(String::as_str).collect())));
    if !stats.models.is_empty() {
        out.line(format!("  models         {}", names(stats.models.iter().map(String::as_str).collect())));
    }
    let outputs: Vec<&str> = plan.outputs.iter().map(|id| id.as_str()).collect();
    out.line(format!("  outputs        {}", shortened(&outputs)));
    if args.verbose || stats.methods.keys().any(|method| *method != Method::Schema) {
        out.line(format!("  reliability    {}", reliability(&stats)));
    }
    Ok(code::SUCCEEDED)
}

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

fn shortened(names: &[&str]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        count if count > NAMES_SHOWN_MAX => {
            format!("{} … ({count} in all)", names[..NAMES_SHOWN_MAX].join(", "))
        }
        _ => names.join(", "),
    }
}
