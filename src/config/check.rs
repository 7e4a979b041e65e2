//! Checks of a well-shaped configuration.

use ostler_drivers::HttpClearance;
use ostler_drivers::mcp::MCP_PREFIX;
use ostler_kernel::evaluation::{DomainError, Domains, WeightFault};
use ostler_kernel::gate::Place;
use ostler_kernel::id::{NAME_RULE, is_name};
use ostler_kernel::plan::{Pointer, model_of_tool};

use super::{Config, KnownTools, RetentionConfig, ReuseRetention, SHUTDOWN_WAIT_MS_MAX};
use crate::plan_file::closest_name;

/// Roles that may have a model of their own.
const ROLES: [&str; 3] = ["planner", "executor", "judge"];

/// Longest wait for the clearance authority, in milliseconds. The node holds its slot meanwhile.
const CLEARANCE_DEADLINE_MS_MAX: u64 = 60_000;

impl Config {
    pub(super) fn check(&self) -> Vec<(Pointer, String, String)> {
        let mut wrong = Vec::new();
        if self.retention.keep.is_some_and(|keep| !RetentionConfig::takes(keep)) {
            let most = RetentionConfig::KEEP_DAYS_MAX;
            wrong.push((
                Pointer::root().key("retention").key("keep"),
                format!("the retention must be above zero and at most {most} days"),
                "set a duration such as \"30d\", or remove `keep` to keep runs for ever".to_owned(),
            ));
        }
        if matches!(self.retention.reuse, Some(ReuseRetention::For(keep)) if !RetentionConfig::takes(keep)) {
            let most = RetentionConfig::KEEP_DAYS_MAX;
            wrong.push((
                Pointer::root().key("retention").key("reuse"),
                format!("the retention must be above zero and at most {most} days"),
                "set a duration such as \"90d\", or \"keep\"".to_owned(),
            ));
        }
        if self.shutdown.wait.is_some_and(|wait| !(0..=SHUTDOWN_WAIT_MS_MAX).contains(&wait.ticks(1_000))) {
            wrong.push((
                Pointer::root().key("shutdown").key("wait"),
                "the shutdown wait must be between 0 and 24h".to_owned(),
                "set a duration such as \"30s\"".to_owned(),
            ));
        }
        for (client, entry) in &self.clients {
            if !is_name(client) {
                let detail = format!("{client:?} is not a client name");
                wrong.push((Pointer::root().key("clients").key(client), detail, format!("use {NAME_RULE}")));
            }
            if !(1..=ostler_scheduler::WEIGHT_MAX).contains(&entry.weight) {
                wrong.push((
                    Pointer::root().key("clients").key(client).key("weight"),
                    format!("the weight of client {client} is {}", entry.weight),
                    format!("set 1 to {}", ostler_scheduler::WEIGHT_MAX),
                ));
            }
            if entry.tokens_per_minute == Some(0) {
                wrong.push((
                    Pointer::root().key("clients").key(client).key("tokens_per_minute"),
                    format!("client {client} may use 0 tokens a minute, which allows no call of a model"),
                    "set at least 1, or remove the key for no limit".to_owned(),
                ));
            }
        }
        self.check_clearance(&mut wrong);
        for fault in self.policy.faults() {
            wrong.push((policy_pointer(&fault.place), fault.what, fault.help.to_owned()));
        }
        self.check_weights(&mut wrong);
        self.service.check(&mut wrong);
        self.telemetry.check(&mut wrong);
        for role in self.roles.keys().filter(|role| !ROLES.contains(&role.as_str())) {
            let help = match closest_name(role, ROLES) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("name one of {}", ROLES.join(", ")),
            };
            wrong.push((Pointer::root().key("roles").key(role), format!("unknown role {role:?}"), help));
        }
        for fault in self.models_config().check() {
            let place = fault.place.split('.').fold(Pointer::root(), |place, key| place.key(key));
            wrong.push((place, format!("{}: {}", fault.place, fault.what), fault.help));
        }
        for (name, server) in &self.mcp {
            for fault in server.check(name) {
                let table = Pointer::root().key("mcp").key(name);
                let place = fault.key.map_or_else(|| table.clone(), |key| table.clone().key(key));
                wrong.push((place, fault.what, fault.help));
            }
        }
        for (scope, entry) in &self.scopes {
            for (tool, cap) in &entry.caps {
                let place = Pointer::root().key("scopes").key(scope).key("caps").key(tool);
                if *cap > 2 {
                    let detail = format!("the cap of {tool} in scope {scope} is {cap}");
                    wrong.push((place, detail, "set 0, 1 or 2".to_owned()));
                }
            }
        }
        wrong
    }

    fn check_clearance(&self, wrong: &mut Vec<(Pointer, String, String)>) {
        let policy = Pointer::root().key("policy");
        match &self.policy.clearance_url {
            None if !self.policy.clearance_routes.is_empty() => wrong.push((
                policy.clone().key("clearance_routes"),
                "there is nobody to ask: every call of these routes would be denied".to_owned(),
                "set clearance_url, or remove the routes; then people clear held calls".to_owned(),
            )),
            Some(url) => {
                if let Err(what) = HttpClearance::check(url) {
                    let help = "write it like \"https://clearance.example.com/decide\"".to_owned();
                    wrong.push((policy.clone().key("clearance_url"), what, help));
                }
            }
            None => {}
        }
        for (at, route) in self.policy.clearance_routes.iter().enumerate() {
            if !(1..=CLEARANCE_DEADLINE_MS_MAX).contains(&route.deadline_ms) {
                let place = policy.clone().key("clearance_routes").item(at).key("deadline_ms");
                let what = format!("the deadline is {} ms", route.deadline_ms);
                wrong.push((place, what, format!("set 1 to {CLEARANCE_DEADLINE_MS_MAX}")));
            }
        }
    }

    /// Caps on tools outside their scope, with the place of the tool name. Suggestions come from `tools`
    /// only.
    pub(super) fn foreign_caps(&self, tools: Option<&KnownTools>) -> Vec<(Pointer, String, String)> {
        let mut wrong = Vec::new();
        for (scope, entry) in &self.scopes {
            for tool in entry.caps.keys().filter(|tool| !entry.tools.contains(*tool)) {
                let there = entry.tools.iter().filter(|tool| tools.is_none_or(|all| all.contains(tool)));
                let elsewhere = || closest_name(tool, tools?.names()).filter(|near| near != tool);
                let help = if let Some(near) = closest_name(tool, there.map(String::as_str)) {
                    format!("did you mean {near:?}?")
                } else if let Some(near) = elsewhere() {
                    format!("did you mean {near:?}? add it to `tools` too")
                } else {
                    "add the tool to `tools`, or remove its cap".to_owned()
                };
                let place = Pointer::root().key("scopes").key(scope).key("caps").key(tool);
                let detail = format!("scope {scope} caps {tool}, which is not among its tools");
                wrong.push((place, detail, help));
            }
        }
        wrong
    }

    fn check_weights(&self, wrong: &mut Vec<(Pointer, String, String)>) {
        let mut domains = Domains::default();
        for (domain, entry) in &self.evaluation.weights {
            let place = Pointer::root().key("evaluation").key("weights").key(domain);
            match domains.set(domain, entry.shares()) {
                Ok(()) => {}
                Err(DomainError::Weights { faults, .. }) => {
                    for fault in faults {
                        let place = match fault {
                            WeightFault::OutOfRange { dimension, .. }
                            | WeightFault::TooFine { dimension, .. } => place.clone().key(dimension.as_str()),
                            WeightFault::Sum { .. } => place.clone(),
                        };
                        let help = "set weights from 0 to 1, such as 0.25, with a sum of 1";
                        wrong.push((place, format!("domain {domain}: {fault}"), help.to_owned()));
                    }
                }
                Err(error @ (DomainError::Name(_) | DomainError::TooMany(_))) => {
                    wrong.push((
                        place,
                        error.to_string(),
                        "choose another name, or remove some domains".to_owned(),
                    ));
                }
            }
        }
    }

    /// True if a tool belongs to a configured model or MCP server. The configuration does not list the tools of a server.
    fn has_own_tool(&self, tool: &str) -> bool {
        let server = tool.strip_prefix(MCP_PREFIX).and_then(|rest| rest.split_once('.'));
        model_of_tool(tool).is_some_and(|model| self.models.contains_key(model))
            || server.is_some_and(|(server, _)| self.mcp.contains_key(server))
    }

    /// Unknown tools in scopes, as place, problem and help.
    pub(super) fn unknown_tools(&self, tools: &KnownTools) -> Vec<(Pointer, String, String)> {
        let mut wrong = Vec::new();
        for (scope, entry) in &self.scopes {
            let list = Pointer::root().key("scopes").key(scope).key("tools");
            let unknown = entry
                .tools
                .iter()
                .enumerate()
                .filter(|(_, tool)| !tools.contains(tool) && !self.has_own_tool(tool));
            for (at, tool) in unknown {
                let help = match closest_name(tool, tools.names()) {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => {
                        let known: Vec<&str> = tools.names().collect();
                        format!("remove it; known tools: {}", known.join(", "))
                    }
                };
                wrong.push((list.item(at), format!("scope {scope} names the unknown tool {tool:?}"), help));
            }
        }
        let is_registered = |tool: &str| tools.contains(tool) || self.has_own_tool(tool);
        for (place, tool) in self.policy.unknown_tools(&is_registered) {
            let help = match closest_name(tool, tools.names()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => "`ostler help tools` lists them".to_owned(),
            };
            wrong.push((policy_pointer(&place), format!("there is no tool {tool:?}"), help));
        }
        wrong
    }

    /// Rules of `[policy]` for parameters that their tool does not have: such a rule would never apply.
    pub(super) fn unknown_params(&self, tools: &KnownTools) -> Vec<(Pointer, String, String)> {
        let rules = self.policy.params().into_iter();
        let wrong = rules.filter_map(|(place, tool, param)| {
            let (what, help) = unknown_param(tools, tool, param)?;
            Some((policy_pointer(&place), what, help))
        });
        wrong.collect()
    }

    /// Rules for tools of MCP servers that may be misspelt, one line each: the tools are known once the server is accepted, so these rules
    /// are no faults.
    pub fn doubtful_rules(&self) -> Vec<String> {
        let tools = KnownTools::of(&self.servers.tools());
        let is_of_server = |tool: &str| tool.starts_with(MCP_PREFIX) && self.has_own_tool(tool);
        let unlisted = |tool: &str| match closest_name(tool, tools.names()) {
            Some(near) => format!("{tool} is no accepted tool; did you mean {near:?}?"),
            None => format!("{tool} is no accepted tool; `ostler mcp tools` lists those that are"),
        };
        let named = self.policy.unknown_tools(&|tool| !is_of_server(tool) || tools.contains(tool));
        let mut doubts: Vec<String> =
            named.into_iter().map(|(place, tool)| format!("{}: {}", told(&place), unlisted(tool))).collect();
        for (place, tool, param) in self.policy.params() {
            if let Some((what, help)) = unknown_param(&tools, tool, param) {
                doubts.push(format!("{}: {what}; {help}", told(&place)));
            }
        }
        for (name, server) in &self.mcp {
            let prefix = format!("{MCP_PREFIX}{name}.");
            let of_server = || tools.names().filter_map(|tool| tool.strip_prefix(&prefix));
            let has_param = |tool: &str, param: &str| {
                tools.params(&format!("{prefix}{tool}")).is_none_or(|params| params.contains(param))
            };
            for tool in server.impact.tools().filter(|tool| !of_server().any(|known| known == *tool)) {
                doubts.push(format!("mcp.{name}.impact: {}", unlisted(&format!("{prefix}{tool}"))));
            }
            for entry in &server.sensitive {
                let is_of_one = |tool: &str| {
                    entry
                        .strip_prefix(tool)
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|it| has_param(tool, it))
                };
                if !of_server().any(|tool| has_param(tool, entry) || is_of_one(tool)) {
                    doubts.push(format!(
                        "mcp.{name}.sensitive: no accepted tool of {name} has the parameter {entry:?}; `ostler mcp tools {name} --json` \
                         shows them"
                    ));
                }
            }
        }
        doubts
    }
}

/// The problem with a parameter that a tool does not have, and the remedy; `None` if the tool has it, or if its parameters are not known.
fn unknown_param(tools: &KnownTools, tool: &str, param: &str) -> Option<(String, String)> {
    let known = tools.params(tool).filter(|known| !known.contains(param))?;
    let names = || known.iter().map(String::as_str);
    let help = match closest_name(param, names()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
    };
    Some((format!("{tool} has no parameter {param:?}"), help))
}

/// The place of a rule as text, such as `policy.paths[0].param`.
fn told(place: &[Place]) -> String {
    place.iter().fold("policy".to_owned(), |text, step| match step {
        Place::Key(key) if key.contains('.') => format!("{text}.{key:?}"),
        Place::Key(key) => format!("{text}.{key}"),
        Place::Item(at) => format!("{text}[{at}]"),
    })
}

/// The place of a rule in the configuration.
fn policy_pointer(place: &[Place]) -> Pointer {
    place.iter().fold(Pointer::root().key("policy"), |pointer, step| match step {
        Place::Key(key) => pointer.key(key),
        Place::Item(at) => pointer.item(*at),
    })
}
