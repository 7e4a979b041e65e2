//! `ostler policy explain`.

use std::path::Path;

use ostler_drivers::tool::refused_path;
use ostler_kernel::gate::Standing;
use ostler_kernel::plan::nearest;
use ostler_server::wire::Lockdown;
use serde_json::{Map, Value, json};

use super::{ExplainArgs, Gate, params, step};
use crate::cli::arguments::Globals;
use crate::cli::arguments::plan::tools;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::terminal::{Out, Style};
use crate::cli::session::api_client::ApiError;
use crate::cli::session::settings::no_runs_text;
use crate::cli::session::{AccessMode, Session, settings};

pub(super) async fn explain(globals: &Globals, args: &ExplainArgs, out: &mut Out) -> Result<u8, Failure> {
    let workspace = args.bounds.workspace()?;
    let (config, _) = settings::load_settings(globals, Path::new(&workspace))?;
    let gate = Gate::new(&config, workspace);
    if gate.toolbox.gated(&args.tool).is_none() {
        let tools = tools(&config);
        let names = tools.iter().map(|tool| tool.spec().name.as_str());
        let near = nearest(&args.tool, names, &mut usize::MAX.clone());
        let advice = near.map_or_else(
            || "`ostler doctor` lists the tools".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        return Err(Failure::invalid(format!("there is no tool {:?}; {advice}", args.tool)));
    }
    let params = params(&args.params)?;
    let standing = Standing { lockdown: is_locked_down(globals).await?, ..Standing::default() };
    let intent = args.bounds.intent.unwrap_or(gate.policy.default_intent);
    let refused = refused_by_tool(&gate, &args.tool, &params);
    let verdict = gate.judge((&args.tool, params), &args.bounds.scope, intent, standing);
    // A call that the gate denies never reaches its tool.
    let refused = refused.filter(|_| verdict.is_ok());
    let (answer, code, impact, why) = match &verdict {
        Ok(judged) => {
            let sensitive = gate.toolbox.gated(&args.tool).map(|tool| tool.sensitive().clone());
            let sensitive: Vec<String> = sensitive.into_iter().flatten().collect();
            let why = match (judged.route(), sensitive.is_empty()) {
                (Some(route), _) => format!("needs a clearance, by the route of {:?}", route.tool),
                (None, false) => {
                    format!("held for a person if untrusted values reach {}", sensitive.join(", "))
                }
                (None, true) => "every check passed".to_owned(),
            };
            ("allow", "OK", Some(judged.measured), why)
        }
        Err(denial) => ("deny", denial.code.as_str(), denial.measured, denial.operator.clone()),
    };
    if globals.json {
        out.json(&json!({
            "type": "verdict", "answer": answer, "code": code, "why": why, "step": step(code),
            "impact": impact.map(|it| it.impact), "ceiling": impact.map(|it| it.ceiling), "refused": refused,
        }));
    } else {
        let style = if answer == "allow" { Style::Success } else { Style::Bold };
        out.line(format!("{}  {}  {code}", out.styled(style, answer), fit_name(&args.tool, usize::MAX)));
        if let Some(it) = impact {
            out.line(format!("  impact   {} of at most {}", it.impact, it.ceiling));
        }
        out.line(format!("  decided  {}", step(code)));
        out.line(format!("  why      {}", harmless_line(&why)));
        if let Some(refused) = &refused {
            out.line(format!("  refused  by the tool itself: {}", harmless_line(refused)));
        }
    }
    Ok(if verdict.is_ok() && refused.is_none() { code::SUCCEEDED } else { code::FAILED })
}

/// Reason for which a file tool refuses a path of an allowed call: the path lies in a data folder, or outside of the workspace.
fn refused_by_tool(gate: &Gate, tool: &str, params: &Map<String, Value>) -> Option<String> {
    let gated = gate.toolbox.gated(tool).filter(|_| tool.starts_with("fs."))?;
    let paths = params.iter().filter(|(name, _)| gated.takes_path(name));
    let mut paths = paths.filter_map(|(_, value)| value.as_str());
    paths.find_map(|path| refused_path(Path::new(&gate.workspace), path))
}

/// Whether an operator stopped all calls in the data folder; false without one.
async fn is_locked_down(globals: &Globals) -> Result<bool, Failure> {
    let (_, data) = settings::load_settings(globals, Path::new("."))?;
    if no_runs_text(data.as_deref())?.is_some() {
        return Ok(false);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let answer: Result<Lockdown, ApiError> = session.get("/v1/lockdown").await;
    session.stop().await;
    Ok(answer?.on)
}
