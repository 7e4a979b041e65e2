//! Checks of the configuration, the sandbox and the programs that plans call.

use std::path::Path;

use ostler::config::Config;
use ostler_drivers::cage::{Reached, limits_memory_of_calls, reached};
use ostler_drivers::tool::builtin;
use ostler_kernel::port::CageRung;

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

pub(crate) fn check_programs(config: &Config, report: &mut Report) {
    if !config.tools.shell.enabled {
        report.warn("shell.run", "disabled", "to enable it: enabled = true in [tools.shell]");
        return;
    }
    check_sandbox(config, report);
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

fn check_sandbox(config: &Config, report: &mut Report) {
    if !config.tools.shell.sandbox {
        let what = format!("disabled: {UNCAGED}");
        return report.warn("sandbox", what, "to enable it, remove sandbox = false from [tools.shell]");
    }
    let Reached { rung, missing, is_short, .. } = reached(&config.sandbox);
    let minimum = config.sandbox.minimum;
    let caged = if limits_memory_of_calls() { CAGED.to_owned() } else { format!("{CAGED}; {NO_GROUP}") };
    match rung {
        _ if is_short => {
            let advice = "end what uses up processes, descriptors or memory, and run `ostler doctor` again";
            report.warn("sandbox", format!("cannot be tried now: {missing}"), advice);
        }
        CageRung::Bubblewrap => report.pass("sandbox", format!("bubblewrap: {caged}; {NAMESPACES}")),
        CageRung::Landlock if minimum <= rung => {
            report.pass("sandbox", format!("landlock: {caged}; {FILTERED} ({missing})"))
        }
        _ if minimum <= rung => report.warn("sandbox", format!("none ({missing}): {UNCAGED}"), NO_CAGE),
        _ => {
            let what = format!(
                "{rung} ({missing}), and [sandbox] minimum is {minimum}: programs of impact 0 and 1 are refused"
            );
            report.warn("sandbox", what, NO_CAGE);
        }
    }
}

const CAGED: &str = "programs that steps start read the workspace and the system, not your home folder nor the data folder; they \
                     change files only in the workspace, in a temporary folder of their own and in what [tools.shell] write \
                     names; those that only look change none";

const NO_GROUP: &str = "there is no control group for the memory of a call, so memory_mib limits each of its processes and each piece of \
                        memory that they share, and not all of them together";

const NAMESPACES: &str = "they see no other process and, unless their effect is external, no network";

const FILTERED: &str =
    "they reach no other process, no socket of this machine and, unless their effect is external, no network";

const UNCAGED: &str = "programs that steps start can read and change whatever you can, in the workspace or not, the records of runs too";

const NO_CAGE: &str = "install bubblewrap (`bwrap`) where user namespaces are allowed, or use Linux 6.12 or later with Landlock switched \
                       on (`lsm=` of its command line); minimum = \"none\" in [sandbox] runs programs without a cage";
