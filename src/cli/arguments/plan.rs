//! Reading and validating a plan named on the command line.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use ostler::config::{CONFIG_NAME, Config, run_slots_default};
use ostler::finding::Finding;
use ostler::plan_file::{Format, PLAN_FILE_BYTES_MAX, PlanFile};
use ostler_actors::Toolbox;
use ostler_drivers::mcp::MCP_PREFIX;
use ostler_drivers::model::Models;
use ostler_drivers::tool::builtin;
use ostler_kernel::plan::{Plan, Settings, model_of_tool};
use ostler_kernel::port::Tool;

use crate::cli::exit::Failure;
use crate::cli::output::hints;

/// Parses `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

pub(crate) const STDIN: &str = "-";

/// Reads a plan from a file or from stdin.
pub(crate) fn read_named(path: &Path, params: Vec<(String, String)>) -> Result<PlanFile, Failure> {
    if path != Path::new(STDIN) {
        return read(path, params);
    }
    let text = from_stdin("the plan", PLAN_FILE_BYTES_MAX)?;
    Ok(PlanFile::parse("stdin", Format::Yaml, &text, &params_by_name(params)?))
}

pub(crate) fn from_stdin(what: &str, bytes_max: usize) -> Result<String, Failure> {
    let refused = |why: String| Failure::invalid(format!("{what} from stdin: {why}"));
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(refused(format!("larger than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        refused(format!("it is not text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })
}

pub(crate) fn read(path: &Path, params: Vec<(String, String)>) -> Result<PlanFile, Failure> {
    PlanFile::read(path, &params_by_name(params)?).map_err(|error| Failure::invalid(error.to_string()))
}

fn params_by_name(params: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut given = BTreeMap::new();
    for (name, value) in params {
        if given.insert(name.clone(), value).is_some() {
            return Err(Failure::invalid(format!("--param {name}: given twice; give each parameter once")));
        }
    }
    Ok(given)
}

/// The built-in tools, the tools of configured models, and the accepted tools of MCP servers. A model that cannot be set up is reported when the system starts.
pub(crate) fn tools(config: &Config) -> Vec<Arc<dyn Tool>> {
    let mut tools = builtin(&config.tools, None);
    tools.extend(config.models().iter().flat_map(Models::tools));
    tools.extend(config.servers.tools());
    tools
}

/// Validates a plan with the built-in tools, the configured models and the configured domains.
pub(crate) fn judge(file: &PlanFile, config: &Config) -> Result<(Plan, Vec<Finding>), Vec<Finding>> {
    with_settings(config, |settings| file.validate(settings)).map_err(|findings| {
        let broken = config.models().err().map(|faults| faults.to_string());
        let named = findings.into_iter().map(|finding| naming_new_server(finding, config));
        named.map(|finding| naming_broken_model(finding, config, broken.as_deref())).collect()
    })
}

/// A model may be unknown only because it cannot be set up.
fn naming_broken_model(finding: Finding, config: &Config, broken: Option<&str>) -> Finding {
    let of_tool = finding.detail.strip_prefix("unknown tool ").and_then(model_of_tool);
    let model = of_tool.or_else(|| finding.detail.strip_prefix("unknown model "));
    match broken.filter(|_| model.is_some_and(|model| config.models.contains_key(model))) {
        Some(why) => Finding { help: format!("it is configured, and cannot be set up: {why}"), ..finding },
        None => finding,
    }
}

/// A tool may be unknown only because nobody has configured or accepted its MCP server yet.
fn naming_new_server(finding: Finding, config: &Config) -> Finding {
    let tool = finding.detail.strip_prefix("unknown tool ").and_then(|tool| tool.strip_prefix(MCP_PREFIX));
    let is_its = |name: &str| tool.is_some_and(|tool| tool.split('.').next() == Some(name));
    let Some(server) = config.servers.new_ones().find(|server| is_its(server.name())) else {
        let name = tool.and_then(|tool| tool.split('.').next()).unwrap_or_default();
        if name.is_empty() || config.mcp.contains_key(name) {
            return finding;
        }
        let help = format!(
            "its server is not configured: add [mcp.{name}] to {CONFIG_NAME}; `ostler mcp ls` lists the servers"
        );
        return Finding { help, ..finding };
    };
    let accept = hints::command("mcp accept", &[server.name()], "");
    let help = format!(
        "accept its server first: `{accept}`; `ostler run` accepts a new server by itself, once the server starts and lists its tools"
    );
    Finding { help, ..finding }
}

/// Calls `act` with the settings of a real run.
pub(crate) fn with_settings<T>(config: &Config, act: impl FnOnce(&Settings<'_>) -> T) -> T {
    let toolbox = Toolbox::new(tools(config)).expect("the built-in tools go together");
    let toolbox = toolbox.with_judge(config.judge_model());
    let domains = config.domains();
    let callbacks = config.service.callback_listen.is_some();
    let settings = Settings::real(run_slots_default(), &toolbox);
    act(&Settings { domains: Some(&domains), callbacks, ..settings })
}
