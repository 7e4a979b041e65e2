//! The world of a case: policy, tools, results, names, clock, and what its runs have done.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ostler_kernel::gate::{
    Addresses, ClearanceCache, GatedTool, Literals, Lookup, Provenance, Results, Source, Spent, Standing,
    trace,
};
use ostler_kernel::id::Ticks;
use serde_json::{Map, Value};

use super::case::{AuditState, Author, CallScript, Case, NodeScript, WorldEvent};
use super::policy::CasePolicy;
use super::tool::ToolScript;
use crate::graph::CaseError;

pub(super) struct World {
    written: Map<String, Value>,
    pub(super) policy: Arc<CasePolicy>,
    scripts: BTreeMap<String, ToolScript>,
    tools: BTreeMap<String, Arc<GatedTool>>,
    /// Approved versions of tools.
    accepted: BTreeMap<String, String>,
    pub(super) nodes: BTreeMap<String, NodeScript>,
    pub(super) dns: Dns,
    pub(super) now: Ticks,
    pub(super) cache: ClearanceCache,
    runs: BTreeMap<(String, String), RunState>,
}

/// What the calls of a run have done so far.
#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) denials: u32,
    pub(super) spent: Spent,
}

/// What an event tells the audit log, or does to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    PolicyInvalid,
    InterjectNoAuthority,
    Crash,
}

impl World {
    pub(super) fn new(case: &mut Case) -> Result<World, CaseError> {
        let scripts = std::mem::take(&mut case.tools);
        let mut tools = BTreeMap::new();
        for (name, script) in &scripts {
            tools.insert(name.clone(), Arc::new(script.gated(name, &script.hash)?));
        }
        let written = std::mem::take(&mut case.policy);
        let policy = CasePolicy::read(&written, 1, &|tool| tools.contains_key(tool))
            .map_err(|fault| CaseError::Shape(format!("policy: {fault}")))?;
        Ok(World {
            written,
            policy: Arc::new(policy),
            accepted: scripts.iter().map(|(name, script)| (name.clone(), script.hash.clone())).collect(),
            scripts,
            tools,
            nodes: std::mem::take(&mut case.nodes),
            dns: Dns { answers: std::mem::take(&mut case.dns), ..Dns::default() },
            now: 0,
            cache: ClearanceCache::default(),
            runs: BTreeMap::new(),
        })
    }

    pub(super) fn tool(&self, name: &str) -> Option<Arc<GatedTool>> {
        self.tools.get(name).cloned()
    }

    pub(super) fn run(&mut self, call: &CallScript) -> &mut RunState {
        self.runs.entry((call.tenant.clone(), call.run.clone())).or_default()
    }

    /// The state of the system. `known`: before the gate, where a sink that fails in writing is not known yet.
    pub(super) fn standing(&self, known: bool) -> Standing<'_> {
        let audit_down = match self.policy.audit {
            AuditState::Ok => false,
            AuditState::Down => true,
            AuditState::WriteFails => !known,
        };
        Standing { lockdown: self.policy.lockdown, audit_down, accepted: Some(&self.accepted) }
    }

    /// Records that the sink takes.
    pub(super) fn audit_records(&self) -> u8 {
        u8::from(self.policy.audit == AuditState::Ok)
    }

    /// Provenance of the call's values.
    pub(super) fn provenance(&self, call: &CallScript, literal: &Map<String, Value>) -> Provenance {
        let literals = Literals { params: literal, labels: &call.from.0 };
        let refs = call.param_refs.iter().map(|(name, from)| (name.as_str(), from.from.as_str()));
        trace(self, &call.user, call.author == Author::Untrusted, literals, refs, [])
    }

    pub(super) fn happen(&mut self, event: &WorldEvent) -> Result<Told, CaseError> {
        match event {
            WorldEvent::ToolHash { tool, hash } => {
                if let Some(script) = self.scripts.get(tool).filter(|_| self.tools.contains_key(tool)) {
                    self.tools.insert(tool.clone(), Arc::new(script.gated(tool, hash)?));
                }
            }
            WorldEvent::Approve { tool } => {
                if let Some(current) = self.tools.get(tool) {
                    self.accepted.insert(tool.clone(), current.version().to_owned());
                }
            }
            WorldEvent::Unregister { tool } => drop(self.tools.remove(tool)),
            WorldEvent::Lockdown { on } => self.switch("lockdown", Value::from(*on))?,
            WorldEvent::Audit { state } => {
                self.switch("audit", serde_json::to_value(state).map_err(CaseError::shape)?)?;
            }
            WorldEvent::NodeOutput { node, value } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    node.output = Some(value.clone());
                }
            }
            WorldEvent::Interject {} => return Ok(Told::InterjectNoAuthority),
            WorldEvent::Crash => return Ok(Told::Crash),
            WorldEvent::Reload { policy } => return Ok(self.reload(policy)),
        }
        Ok(Told::Nothing)
    }

    /// Sets a switch, which is no change of the policy.
    fn switch(&mut self, name: &str, value: Value) -> Result<(), CaseError> {
        self.written.insert(name.to_owned(), value);
        let switches: Map<String, Value> = self
            .written
            .iter()
            .filter(|(name, _)| ["lockdown", "audit"].contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let read = CasePolicy::read(&switches, 0, &|_| true).map_err(CaseError::Shape)?;
        let now = &*self.policy;
        self.policy = Arc::new(CasePolicy {
            gate: now.gate.clone(),
            users: now.users.clone(),
            intent: now.intent,
            lockdown: read.lockdown,
            audit: read.audit,
        });
        Ok(())
    }

    fn reload(&mut self, fields: &Map<String, Value>) -> Told {
        let mut whole = self.written.clone();
        whole.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
        let epoch = self.policy.gate.epoch + 1;
        match CasePolicy::read(&whole, epoch, &|tool| self.tools.contains_key(tool)) {
            Ok(policy) => {
                (self.written, self.policy) = (whole, Arc::new(policy));
                Told::Nothing
            }
            Err(_) => Told::PolicyInvalid,
        }
    }
}

impl Results for World {
    fn source(&self, id: &str) -> Option<Source<'_>> {
        let node = self.nodes.get(id)?;
        Some(Source {
            tool: &node.tool,
            untrusted_author: node.author == Author::Untrusted,
            literals: Literals { params: &node.params, labels: &node.from.0 },
            reads: node.param_refs.values().map(|from| from.from.as_str()).collect(),
            seen: Vec::new(),
            labels: node.labels.iter().map(String::as_str).collect(),
        })
    }

    fn is_trusted(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| !tool.tool().reads_strangers())
    }
}

/// Scripted answers to look-ups of names.
#[derive(Debug, Default)]
pub(super) struct Dns {
    answers: BTreeMap<String, Vec<Vec<String>>>,
    asked: BTreeMap<String, usize>,
    /// First addresses of the look-ups of this run of the gate, as given.
    pub(super) first: Vec<String>,
}

impl Lookup for Dns {
    fn addresses(&mut self, host: &str) -> Addresses {
        let Some(answers) = self.answers.get(host) else { return Addresses::Found(Vec::new()) };
        let asked = self.asked.entry(host.to_owned()).or_default();
        let answer = answers.get(*asked).or(answers.last()).cloned().unwrap_or_default();
        *asked += 1;
        // An answer that is no address makes the whole unusable.
        let addresses: Option<Vec<IpAddr>> = answer.iter().map(|text| text.parse().ok()).collect();
        self.first.extend(answer.into_iter().next());
        Addresses::Found(addresses.unwrap_or_default())
    }
}
