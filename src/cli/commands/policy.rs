//! `ostler policy`.

mod explain;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ostler::config::{CONFIG_NAME, Config};
use ostler_actors::Toolbox;
use ostler_drivers::cage::Workspaces;
use ostler_drivers::regular_file::read_text;
use ostler_kernel::gate::{
    AtConnection, Call, Denial, DenialCode, GatePolicy, Judged, Provenance, Spent, Standing, judge,
};
use ostler_kernel::json::Object;
use ostler_server::user_folder;
use ostler_server::wire::PolicyEpoch;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::arguments::Globals;
use crate::cli::arguments::bounds::Bounds;
use crate::cli::arguments::plan::tools;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{harmless_line, harmless_lines};
use crate::cli::output::hints;
use crate::cli::output::terminal::{Out, Style, tagged};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::ApiError;
use crate::cli::session::{AccessMode, Session, settings};

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    what: What,
}

impl PolicyArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.what, What::Check | What::Explain(_) | What::Test(_))
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// Accept a configuration or data folder that steps may have written
    ///
    /// A configuration counts if no step could write it since it was used, or if you accept it. Read it before.
    /// A data folder counts if Ostler made it, or if you accept it.
    #[command(after_help = "Examples:\n  ostler policy accept ostler.toml\n  ostler policy accept .ostler")]
    Accept(AcceptArgs),
    /// Check the policy of the configuration, and show its rules
    #[command(after_help = "Example:\n  ostler policy check")]
    Check,
    /// Show the verdict on a call, and the check that decides it
    #[command(
        after_help = "Examples:\n  ostler policy explain fs.read '{\"path\": \"README.md\"}'\n  ostler policy explain fs.read '{\"path\": \"/etc/passwd\"}' --intent 0"
    )]
    Explain(ExplainArgs),
    /// Put the policy of the configuration in force in a running process
    ///
    /// A policy with a fault changes nothing. Later verdicts are by the new policy; earlier approvals
    /// are asked for again.
    #[command(after_help = "Example:\n  ostler policy reload")]
    Reload,
    /// Compare verdicts on the calls of a file with the expected ones
    ///
    /// A line has a `tool`, `params`, optionally `scope` and `intent`, and as `expect`
    /// the code of the verdict: OK, or a code such as PATH_ESCAPE.
    #[command(after_help = "Example:\n  ostler policy test verdicts.jsonl")]
    Test(TestArgs),
}

#[derive(Debug, Args)]
struct AcceptArgs {
    /// The configuration, or the data folder
    #[arg(default_value = CONFIG_NAME)]
    file: PathBuf,
    /// Accept this content alone (b3: and at least 32 digits), as a refusal names it
    #[arg(long)]
    digest: Option<String>,
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// The tool
    tool: String,
    /// Parameters of the call, as a JSON object
    #[arg(default_value = "{}")]
    params: String,
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Debug, Args)]
struct TestArgs {
    /// File of expected verdicts
    file: PathBuf,
    /// Folder that the tools may access
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
}

/// Largest file of expected verdicts, in bytes.
const TEST_BYTES_MAX: u64 = 16 << 20;

/// An expected verdict.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    tool: String,
    #[serde(default)]
    params: Map<String, Value>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    intent: Option<u8>,
    expect: String,
}

/// The gate of a configuration.
struct Gate {
    toolbox: Toolbox,
    policy: GatePolicy,
    workspace: String,
}

impl Gate {
    fn new(config: &Config, workspace: String) -> Gate {
        let tools = tools(config);
        let policy = config.gate(&tools);
        let toolbox = Toolbox::new(tools).expect("the built-in tools go together");
        Gate { toolbox, policy, workspace }
    }

    fn judge<'a>(
        &'a self,
        (tool, params): (&'a str, Map<String, Value>),
        scope: &'a str,
        intent: u8,
        standing: Standing<'_>,
    ) -> Result<Judged<'a>, Denial> {
        let call = Call {
            tool: self.toolbox.gated(tool),
            name: tool,
            params: Object::from(params),
            floor: 0,
            intent: self.policy.admit(Some(intent))?,
            scope: scope.into(),
            workspace: Some(&self.workspace),
            provenance: Provenance::PLAN,
            spent: Spent::NOTHING,
        };
        judge(call, &self.policy, standing, &mut AtConnection)
    }
}

pub(crate) async fn policy(globals: &Globals, args: PolicyArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    match args.what {
        What::Accept(args) => accept(globals, &args, &mut out),
        What::Check => check(globals, &mut out),
        What::Explain(args) => explain::explain(globals, &args, &mut out).await,
        What::Test(args) => test(globals, &args, &mut out),
        What::Reload => reload(globals, &mut out).await,
    }
}

fn accept(globals: &Globals, args: &AcceptArgs, out: &mut Out) -> Result<u8, Failure> {
    let file = args.file.as_path();
    let failed = |error: String| Failure::invalid(format!("configuration {}: {error}", file.display()));
    if file.is_dir() {
        return accept_folder(globals, file, out);
    }
    if file.is_symlink() {
        // Its faults would show what it leads to.
        return Err(failed(
            "it is a link; to use the file that it leads to, name that with --config".to_owned(),
        ));
    }
    let text = Config::read(file).map_err(|error| Failure::invalid(error.to_string()))?.text;
    let folder =
        user_folder().ok_or_else(|| failed("neither XDG_CONFIG_HOME nor HOME names a folder".to_owned()))?;
    let workspaces = Workspaces::at(&folder);
    check_content(&workspaces, args, &text).map_err(failed)?;
    let accepted = workspaces.accept(file, text.as_bytes());
    let digest = accepted.map_err(|error| failed(error.to_string()))?;
    if globals.json {
        out.json(&tagged("configuration_accepted", &json!({"path": file, "digest": digest})));
    } else {
        out.line(harmless_line(&format!("accepted {} ({})", file.display(), &digest[..11])));
    }
    Ok(code::SUCCEEDED)
}

/// Refuses a content that the operator has not named, if he named one, or a step may have exchanged what he read.
fn check_content(workspaces: &Workspaces, args: &AcceptArgs, text: &str) -> Result<(), String> {
    let present = Workspaces::digest(text.as_bytes());
    let file = args.file.display();
    let command =
        hints::command("policy accept", &[&file.to_string()], &format!("--digest {}", &present[..35]));
    match &args.digest {
        Some(named) if named.len() >= 35 && present.starts_with(named.as_str()) => Ok(()),
        Some(named) if named.len() < 35 => Err(format!("--digest {named}: name b3: and at least 32 digits")),
        Some(_) => Err(format!("it has another content now; read it again, then `{command}`")),
        None if workspaces.is_entered(&args.file).map_err(|error| error.to_string())? => {
            let shown = harmless_lines(text);
            Err(format!(
                "a program of a step runs where it can change it; this is its content now, which `{command}` accepts:\n{shown}"
            ))
        }
        None => Ok(()),
    }
}

/// Accepts a data folder that programs of steps may have made.
fn accept_folder(globals: &Globals, data: &Path, out: &mut Out) -> Result<u8, Failure> {
    let failed = |error: String| Failure::invalid(format!("data folder {}: {error}", data.display()));
    let folder =
        user_folder().ok_or_else(|| failed("neither XDG_CONFIG_HOME nor HOME names a folder".to_owned()))?;
    if !settings::data_folder_exists(data)? {
        return Err(failed("it is no data folder".to_owned()));
    }
    let workspaces = Workspaces::at(&folder);
    if workspaces.is_entered(data).map_err(|error| failed(error.to_string()))? {
        return Err(failed("a program of a step runs where it can change it; wait for its end".to_owned()));
    }
    let is_noted = workspaces.accept_folder(data).map_err(|error| failed(error.to_string()))?;
    if globals.json {
        out.json(&tagged("data_folder_accepted", &json!({"path": data, "was_needed": is_noted})));
    } else if is_noted {
        out.line(harmless_line(&format!("accepted {}", data.display())));
    } else {
        out.line(harmless_line(&format!("{} needs no acceptance: no program ran around it", data.display())));
    }
    Ok(code::SUCCEEDED)
}

fn check(globals: &Globals, out: &mut Out) -> Result<u8, Failure> {
    let (config, _) = settings::load_settings(globals, Path::new("."))?;
    let Gate { toolbox, policy, .. } = Gate::new(&config, String::new());
    let rules = &config.policy;
    let counts = [
        ("scopes", policy.scopes.len()),
        ("path rules", rules.paths.len()),
        ("egress rules", rules.egress.len()),
        ("value rules", rules.param_policies.len()),
        ("budgets", rules.budgets.len()),
        ("clearance routes", rules.clearance_routes.len()),
    ];
    let tools = toolbox.iter().count();
    let doubts = config.doubtful_rules();
    if globals.json {
        let counts: Map<String, Value> =
            counts.iter().map(|(name, count)| (name.replace(' ', "_"), json!(count))).collect();
        out.json(&json!({
            "type": "policy", "valid": true, "tools": tools, "ceiling": policy.ceiling,
            "max_intent": policy.max_intent, "deny_budget": policy.deny_budget, "rules": counts,
            "warnings": doubts,
        }));
        return Ok(code::SUCCEEDED);
    }
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    out.line(format!("{} policy over {}", out.styled(Style::Success, "valid"), plural(tools, "tool")));
    out.line(format!("  rules    {}", counts.join(", ")));
    out.line(format!("  impact   at most {}, intent at most {}", policy.ceiling, policy.max_intent));
    let denials = policy.deny_budget.map_or("any number".to_owned(), |most| most.to_string());
    out.line(format!("  denials  {denials} in a run"));
    for doubt in &doubts {
        out.line(harmless_line(&format!("  warning  {doubt}")));
    }
    Ok(code::SUCCEEDED)
}

async fn reload(globals: &Globals, out: &mut Out) -> Result<u8, Failure> {
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let is_remote = session.client.is_remote();
    let reloaded: Result<PolicyEpoch, ApiError> = session.post("/v1/policy/reload", &json!({})).await;
    session.stop().await;
    let reloaded = reloaded?;
    if globals.json {
        out.json(&tagged("policy", &reloaded));
    } else if is_remote {
        out.line(format!("the policy is in force, as epoch {}", reloaded.epoch));
    } else {
        out.line("the policy is valid; no process runs plans, so the next one reads it");
    }
    Ok(code::SUCCEEDED)
}

fn params(text: &str) -> Result<Map<String, Value>, Failure> {
    let refused = |what: String| Failure::invalid(format!("parameters: {what}; give a JSON object"));
    match ostler_kernel::json::parse_value(text).map_err(|error| refused(error.to_string()))? {
        Value::Object(params) => Ok(params),
        _ => Err(refused("not an object".to_owned())),
    }
}

/// The row of the gate's table that gives a code.
fn step(code: &str) -> &'static str {
    use DenialCode as C;
    let Some(code) = DenialCode::ALL.into_iter().find(|known| known.as_str() == code) else {
        return "step 7: nothing denies it";
    };
    match code {
        C::IntentAboveToken | C::DenyBudget | C::ParamSchema | C::PlanFieldForbidden | C::RefForeign => {
            "step 0: request and parameters"
        }
        C::AuditUnavailable | C::Lockdown => "step 1: the system",
        C::ScopeUnresolved | C::ScopeEmpty | C::OutOfScope | C::ToolChanged => "step 2: scope",
        C::ImpactOverIntent | C::ImpactOverScopeCap | C::ImpactOverTenantCeiling => "step 3: impact",
        C::PathEscape | C::EgressForbidden | C::EgressLabel | C::ParamPolicy | C::BudgetCumulative => {
            "step 4: values"
        }
        C::TaintSensitiveParam | C::TaintAuthor => "step 5: taint",
        C::ClearanceUnreachable
        | C::ClearanceTimeout
        | C::ClearanceRedirect
        | C::ClearanceMalformed
        | C::ClearanceDenied => "step 6: clearance",
        C::SealMismatch | C::PolicyEpochStale => "step 7: seal",
    }
}

fn test(globals: &Globals, args: &TestArgs, out: &mut Out) -> Result<u8, Failure> {
    let name = args.file.display().to_string();
    let invalid = |what: String| Failure::invalid(format!("{name}: {what}"));
    let workspace = args.workspace.canonicalize().map_err(|error| invalid(format!("workspace: {error}")))?;
    let (config, _) = settings::load_settings(globals, &workspace)?;
    let gate = Gate::new(&config, workspace.to_string_lossy().into_owned());
    let text = read_text(&args.file, TEST_BYTES_MAX).map_err(|error| invalid(error.to_string()))?;
    let (mut passed, mut failed) = (0, 0);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let expected: Expected =
            serde_json::from_str(line).map_err(|error| invalid(format!("line {}: {error}", at + 1)))?;
        let scope = expected.scope.as_deref().unwrap_or(ostler::config::SCOPE_DEFAULT);
        let intent = expected.intent.unwrap_or(gate.policy.default_intent);
        let call = (expected.tool.as_str(), expected.params);
        let verdict = gate.judge(call, scope, intent, Standing::default());
        let found = verdict.as_ref().map_or_else(|denial| denial.code.as_str(), |_| "OK");
        if found == expected.expect {
            passed += 1;
            continue;
        }
        failed += 1;
        if globals.json {
            out.json(&json!({
                "type": "difference", "line": at + 1, "expected": expected.expect, "found": found,
            }));
        } else {
            let expected = harmless_line(&expected.expect);
            out.line(format!("line {}: expected {expected}, found {found}", at + 1));
        }
    }
    if passed + failed == 0 {
        return Err(invalid("holds no expected verdict; nothing was tested".to_owned()));
    }
    if globals.json {
        out.json(&json!({"type": "compared", "passed": passed, "failed": failed}));
    } else {
        out.line(format!("{passed} passed, {failed} failed"));
    }
    Ok(if failed == 0 { code::SUCCEEDED } else { code::FAILED })
}
