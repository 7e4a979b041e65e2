//! Checks of the configuration, the sandbox and the programs that plans call.

use std::path::{Path, PathBuf};

use ostler::config::Config;
use ostler_drivers::tool::{Sandbox, builtin, sandbox, writable};

use crate::cli::arguments::Globals;
use crate::cli::commands::doctor::report::Report;
use crate::cli::output::units::duration_exact;

pub(crate) fn check_configuration(
    globals: &Globals,
    config: &Config,
    data: Option<&Path>,
    report: &mut Report,
) {
    let folder = data.unwrap_or(Path::new(ostler::DATA_FOLDER));
    match Config::find(globals.config.as_deref(), folder, Path::new(".")) {
        Some(path) => report.pass("configuration", format!("{}", path.display())),
        None => {
            let folder = folder.display();
            report.pass("configuration", format!("no ostler.toml in {folder} or here: defaults apply"));
        }
    }
    let tools = builtin(&config.tools, None);
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    report.pass("tools", names.join(", "));
    let gate = config.gate(&tools);
    for (name, scope) in &gate.scopes {
        let unknown: Vec<&str> =
            scope.tools.keys().map(String::as_str).filter(|tool| !names.contains(tool)).collect();
        let what = format!("{name} may call {} tools", scope.tools.len() - unknown.len());
        if unknown.is_empty() {
            report.pass("scope", what);
        } else {
            let advice =
                format!("correct or remove {} in [scopes.{name}] of the configuration", unknown.join(", "));
            report.warn("scope", format!("{what}; it names unknown tools"), &advice);
        }
    }
    if config.tools.http.egress_allow == Default::default() {
        report.warn("network", "http.fetch and http.request may reach no host", OPEN_NETWORK);
    } else {
        report.pass(
            "network",
            "http.fetch and http.request may reach the hosts in egress_allow of [tools.http]",
        );
    }
    if data.is_some() {
        report.pass("retention", retention_text(config));
    }
}

fn retention_text(config: &Config) -> String {
    match config.retention.keep {
        Some(keep) => format!(
            "closed runs are removed after {}, when a command opens the data folder to execute runs",
            duration_exact(keep)
        ),
        None => "runs are kept without limit".to_owned(),
    }
}

const OPEN_NETWORK: &str =
    "if plans need it: egress_allow = [\"HOST:PORT\"] in [tools.http] of the configuration";

const PROGRAMS: [&str; 1] = ["git"];

pub(crate) fn check_programs(config: &Config, data: Option<&Path>, report: &mut Report) {
    if !config.tools.shell.enabled {
        report.warn("shell.run", "disabled", "to enable it: enabled = true in [tools.shell]");
        return;
    }
    check_sandbox(config, data, report);
    let path = std::env::var_os("PATH").unwrap_or_default();
    for program in PROGRAMS {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
        match found {
            Some(file) => report.pass(program, file.display().to_string()),
            None => report.warn(program, "not found: nodes that call it fail", "install it, or correct PATH"),
        }
    }
}

fn check_sandbox(config: &Config, data: Option<&Path>, report: &mut Report) {
    match (config.tools.shell.sandbox, sandbox()) {
        (true, Sandbox::Full) => report.pass("sandbox", CONFINED),
        (false, _) => {
            let what = format!("disabled: {UNCONFINED}");
            report.warn("sandbox", what, "to enable it, remove sandbox = false from [tools.shell]");
        }
        (true, Sandbox::Partial) => {
            report.warn("sandbox", format!("partial: {CONFINED}; {OLD_LANDLOCK}"), "use Linux 6.12 or later")
        }
        (true, Sandbox::None) => {
            report.warn("sandbox", format!("not supported by this system: {UNCONFINED}"), NO_LANDLOCK);
        }
    }
    let is_confined = config.tools.shell.sandbox && sandbox() != Sandbox::None;
    let Some(data) = data.map(resolved).filter(|_| is_confined) else { return };
    let around = writable(Path::new("."), &config.tools.shell.write);
    if let Some(folder) = around.into_iter().map(|folder| resolved(&folder)).find(|it| data.starts_with(it)) {
        let what = format!(
            "the data folder is inside {}, where child processes may write: they can change the records of runs",
            folder.display()
        );
        report.warn("records", what, "to prevent that, move it elsewhere: --data DIR, or OSTLER_DATA");
    }
}

const CONFINED: &str = "programs that steps start change files only in the workspace, in the folder for temporary files and in what \
                        [tools.shell] write names; those that only look change none; modes, owners, times and attributes \
                        of files that are yours are not confined";

const UNCONFINED: &str = "programs that steps start can change whatever you can change, in the workspace or not, the records of runs too";

const OLD_LANDLOCK: &str = "but this Linux is old: those that only look can still use the network and signal others, and before Linux 6.2 \
                            any can empty files elsewhere";

const NO_LANDLOCK: &str = "use Linux 6.12 or later with Landlock switched on (`lsm=` of its command line), or run plans as a user, or in \
                           a container, that can reach only what they may change";

/// Resolves symbolic links in the existing part of a path.
fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|part| {
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        part.canonicalize().ok().map(|real| (real, part))
    });
    let Some((real, part)) = found else { return path.to_owned() };
    let missing = path.strip_prefix(part).unwrap_or(Path::new(""));
    if missing.as_os_str().is_empty() { real } else { real.join(missing) }
}
