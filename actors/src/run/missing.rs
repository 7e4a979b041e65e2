//! What a run needs and this process lacks: tools, models, the workspace. Such a run does not fail: a line in a configuration file, the
//! start of another program or a mounted disk mends the lack.

use std::path::Path;

use ostler_kernel::plan::model_of_tool;
use ostler_kernel::port::{MCP_PREFIX, WorkspaceUse};
use ostler_kernel::run::Run;

use crate::state::gatekeeper::Gatekeeper;

/// The first thing that an open run needs and the process lacks, with the remedy; `None`: the process has all.
pub(crate) fn missing(gatekeeper: &Gatekeeper, run: &Run, workspace: &str) -> Option<String> {
    let terms = run.goal().map(|goal| goal.terms());
    if let Some(model) = terms.and_then(|terms| terms.models.missing(|model| gatekeeper.has_model(model))) {
        let file = terms.and_then(|terms| terms.model_file.as_deref());
        return Some(no_model(model, file));
    }
    // An undo without its tool fails, so that the others go on; an operator may undo again with the tool.
    let live = run.instances().filter(|(node, instance)| instance.is_live() && !node.is_undo());
    let tools: Vec<&str> = live.filter_map(|(node, _)| node.tool.as_deref()).collect();
    if !workspace.is_empty() && !Path::new(workspace).is_dir() {
        let uses = |tool: &str| gatekeeper.toolbox.workspace_use(tool) != WorkspaceUse::NONE;
        if tools.iter().any(|tool| uses(tool)) {
            return Some(format!(
                "its workspace {workspace} is not there: mount it, move it back or make it again, then repeat this command"
            ));
        }
    }
    let tool = tools.into_iter().find(|tool| gatekeeper.toolbox.version(tool).is_none())?;
    Some(match model_of_tool(tool) {
        Some(model) => no_model(model, None),
        None => no_tool(tool),
    })
}

fn no_tool(tool: &str) -> String {
    match tool.strip_prefix(MCP_PREFIX).and_then(|rest| rest.split_once('.')) {
        Some((server, _)) => format!(
            "tool {tool} is not in this process: its server needs a section [mcp.{server}] in ostler.toml, and the tool an acceptance \
             (`ostler mcp accept {server}`)"
        ),
        None => format!("program or tool {tool} is not in this process: start the program that has it"),
    }
}

fn no_model(model: &str, file: Option<&str>) -> String {
    let help = match file {
        Some(file) => format!("repeat this command with `--model {file}`, which names its script"),
        None => "repeat this command with the `--config FILE` that has it or the `--model scripted:FILE` that names its script".to_owned(),
    };
    format!("its model {model:?} is not configured here: add [models.{model}] to ostler.toml, or {help}")
}
