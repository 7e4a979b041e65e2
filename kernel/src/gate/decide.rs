//! The verdict on a call: a fixed order of checks in which the first failure decides, and deny by default.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::call::{Call, CallClass, Preview};
use super::clearance::{Asker, ClearanceCache, ClearanceRequest};
use super::code::{Denial, DenialCode, Measured, REMEDY, RUN_WITH_INTENT};
use super::egress::{AtConnection, Lookup, Pinned};
use super::params::{RESERVED, is_reserved};
use super::permit::Permit;
use super::policy::{GatePolicy, Grant, ScopeFault};
use super::provenance::Provenance;
use super::resources;
use super::rules::{ClearanceRoute, OnObserve};
use super::seal::Seal;
use super::strict_numbers::has_whole_double;
use super::strict_values::ambiguous_member;
use super::tool::GatedTool;
use crate::id::Digest;
use crate::json::{Object, measure_within};
use crate::lineage;

/// The gate's answer.
#[derive(Debug)]
pub enum Verdict {
    /// The call may run once.
    Allowed {
        /// Passed to the tool by value.
        permit: Permit,
        /// Impact of the call, at least the plan's floor. 0 observe, 1 operate, 2 control.
        impact: u8,
    },
    /// The call must not run.
    Denied(Denial),
}

/// The state of the system around a call, which is no policy and has no epoch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing<'a> {
    /// An operator has stopped all calls.
    pub lockdown: bool,
    /// No verdict can be recorded.
    pub audit_down: bool,
    /// Versions of tools that an operator accepted, by tool; any version of a tool that is not among them is.
    pub accepted: Option<&'a BTreeMap<String, String>>,
}

impl Standing<'_> {
    /// The denial of a call while the system is stopped. `impact`: that of a granted tool.
    ///
    /// # Errors
    ///
    /// `AUDIT_UNAVAILABLE` or `LOCKDOWN`.
    pub fn check(&self, impact: Option<u8>, policy: &GatePolicy) -> Result<(), Denial> {
        self.check_audit(impact, policy)?;
        self.check_lockdown(impact, policy)
    }

    /// The denial of a call whose verdict cannot be recorded.
    ///
    /// # Errors
    ///
    /// `AUDIT_UNAVAILABLE`.
    pub fn check_audit(&self, impact: Option<u8>, policy: &GatePolicy) -> Result<(), Denial> {
        let goes_on = impact == Some(0) && policy.audit_observe == OnObserve::Allow;
        if self.audit_down && !goes_on {
            return Err(Denial::new(DenialCode::AuditUnavailable, "the verdict cannot be recorded"));
        }
        Ok(())
    }

    /// The denial of a call during a lockdown.
    ///
    /// # Errors
    ///
    /// `LOCKDOWN`.
    pub fn check_lockdown(&self, impact: Option<u8>, policy: &GatePolicy) -> Result<(), Denial> {
        let goes_on = impact == Some(0) && policy.lockdown_observe == OnObserve::Allow;
        if self.lockdown && !goes_on {
            let what = format_args!(
                "an operator stopped all calls{REMEDY}run `ostler lockdown off`, then `ostler rerun` for this run"
            );
            return Err(Denial::new(DenialCode::Lockdown, what));
        }
        Ok(())
    }
}

/// A call that passed the checks which need nobody else. It runs with a [`Permit`]; if [`Judged::needs_clearance`], only after
/// a [`Cleared`].
#[derive(Debug)]
pub struct Judged<'a> {
    tool: &'a GatedTool,
    /// Parameters without the tool's defaults.
    pub given: Object,
    /// Parameters including the tool's defaults.
    pub params: Object,
    /// Class of the call, with at least the plan's floor as impact.
    pub class: CallClass,
    /// Impact and its limit.
    pub measured: Measured,
    /// Why the call waits for clearance.
    pub hold: Option<Hold>,
    /// The addresses that URLs of the call were judged by, by parameter, then in their order.
    pub connect: Vec<Pinned>,
    route: Option<&'a ClearanceRoute>,
    epoch: u64,
}

/// Why a call waits for clearance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// `TAINT_SENSITIVE_PARAM` or `TAINT_AUTHOR`.
    pub code: DenialCode,
    /// The sensitive parameters behind it, sorted.
    pub params: Vec<String>,
}

/// A yes for exactly one sealed call: of the clearance authority, or of a person.
#[derive(Debug)]
pub struct Cleared(Seal);

impl Cleared {
    /// A yes for the call with this seal.
    pub fn new(seal: Seal) -> Cleared {
        Cleared(seal)
    }
}

impl<'a> Judged<'a> {
    /// The route of the clearance that the call needs; `None`: none, or only a person can clear a held call.
    pub fn route(&self) -> Option<&'a ClearanceRoute> {
        self.route
    }

    /// True if the call runs only after a [`Cleared`].
    pub fn needs_clearance(&self) -> bool {
        self.hold.is_some() || self.route.is_some()
    }

    /// The seal of this verdict.
    ///
    /// # Errors
    ///
    /// The parameters have no canonical form.
    pub fn seal(&self) -> Result<Seal, Denial> {
        let params = sealed_digest(&self.params)?;
        let tool = self.tool.version().to_owned();
        Ok(Seal { tool, params, epoch: self.epoch, held: self.hold.as_ref().map(|hold| hold.code) })
    }

    /// Checks the seal against the call as it is now: `tool` is `None` if the tool is gone, `given` if its parameters cannot be
    /// resolved any more.
    ///
    /// # Errors
    ///
    /// `SEAL_MISMATCH` or `POLICY_EPOCH_STALE`.
    pub fn check_seal(
        &self,
        tool: Option<&GatedTool>,
        given: Option<Object>,
        epoch: u64,
    ) -> Result<(), Denial> {
        let sealed = self.seal()?;
        let now = tool.zip(given).and_then(|(tool, mut params)| {
            tool.fill_defaults(&mut params);
            let params = sealed_digest(&params).ok()?;
            Some(Seal { tool: tool.version().to_owned(), params, epoch, held: sealed.held })
        });
        let checked = sealed.check(now.as_ref());
        checked.map_err(|code| self.denial(code, "parameters, tool or policy changed after the verdict"))
    }

    /// The request for clearance.
    pub fn request<'b>(&'b self, asker: Asker<'b>) -> ClearanceRequest<'b> {
        let tainted = self.hold.as_ref().map(|hold| hold.params.as_slice());
        ClearanceRequest { tool: self.tool.name(), params: &self.params, asker, tainted }
    }

    /// Key of the answer in a [`ClearanceCache`]; `None` if no answer may count again, as with impact 2.
    ///
    /// # Errors
    ///
    /// The parameters have no canonical form.
    pub fn cache_key(&self, asker: Asker<'_>) -> Result<Option<Digest>, Denial> {
        match self.route {
            Some(route) if self.measured.impact < 2 => {
                Ok(Some(ClearanceCache::key(asker, self.tool.name(), &self.seal()?, route)))
            }
            _ => Ok(None),
        }
    }

    /// A denial after these checks.
    pub fn denial(&self, code: DenialCode, what: impl fmt::Display) -> Denial {
        let held = self.hold.as_ref().filter(|_| self.route.is_some()).map(|hold| hold.code);
        Denial { held, ..Denial::new(code, what).measured(self.measured) }
    }

    /// The permit.
    ///
    /// # Errors
    ///
    /// The call needs a clearance, and `cleared` is none or for another call.
    pub fn permit(self, idempotency_key: Digest, cleared: Option<Cleared>) -> Result<Permit, Denial> {
        if self.needs_clearance() {
            let seal = self.seal()?;
            let uncleared = self.hold.as_ref().map_or(DenialCode::ClearanceUnreachable, |hold| hold.code);
            let Some(Cleared(of)) = cleared else {
                return Err(self.denial(uncleared, "the call waits for clearance, and nobody has given it"));
            };
            of.check(Some(&seal)).map_err(|code| self.denial(code, "the clearance is for another call"))?;
        }
        let digest = self.params.digest().map_err(|error| Denial::new(DenialCode::ParamSchema, error))?;
        let name = self.tool.name().to_owned();
        let measured = (self.measured, self.hold, self.epoch);
        Ok(Permit::new(name, self.params, self.class, digest, idempotency_key, measured))
    }
}

/// Digest of sealed parameters. Canonical JSON writes 1.0 like 1; the seal distinguishes them.
fn sealed_digest(params: &Object) -> Result<Digest, Denial> {
    let digest = params.digest().map_err(|error| Denial::new(DenialCode::ParamSchema, error))?;
    if has_whole_double(params.as_value()) {
        return Ok(lineage::hash("ostler.seal.1", &[params.as_value().to_string().as_bytes()]));
    }
    Ok(digest)
}

/// Decides on a call that needs no clearance; one that does is denied. See [`judge`].
///  
/// The permit carries the digest of the parameters as judged, so a later change of the parameters is detectable.
/// `idempotency_key` lets the receiver of an effect recognise a repetition.
pub fn decide(call: Call<'_>, idempotency_key: Digest, policy: &GatePolicy) -> Verdict {
    let judged = judge(call, policy, Standing::default(), &mut AtConnection);
    match judged.and_then(|judged| judged.permit(idempotency_key, None)) {
        Ok(permit) => Verdict::Allowed { impact: permit.class().impact, permit },
        Err(denial) => Verdict::Denied(denial),
    }
}

/// The verdict of [`decide`] without a permit: what an approver sees before the call runs. A call that needs clearance passes.
///  
/// # Errors
///  
/// The denial that [`decide`] would return.
pub fn preview(call: Call<'_>, policy: &GatePolicy) -> Result<Preview, Denial> {
    let judged = judge(call, policy, Standing::default(), &mut AtConnection)?;
    judged.seal()?; // every later check needs the digest
    Ok(Preview { params: judged.params, class: judged.class, hold: judged.hold })
}

/// The denial that is certain for a call of which only some parameters are known; `None` if the missing ones may still
/// make the call acceptable.
///  
/// Skips limits and schema, which need every parameter; [`GatedTool::judge`] checks a partial set against the schema.
pub fn preflight(call: &Call<'_>, policy: &GatePolicy) -> Option<Denial> {
    let verdict = check_names(&call.params)
        .and_then(|()| granted_tool(call, policy, Standing::default()))
        .and_then(|(tool, grant)| {
            let class = measured_class(call, tool, &call.params, policy);
            check_impact(call, &class, grant, policy)?;
            resources::check(call, &call.params, tool, policy, &mut AtConnection).map(drop)
        });
    verdict.err()
}

/// Judges a call by everything but clearance.
///  
/// The checks run in this order, and the first failure is the verdict:
///  
/// 1. Size and depth of the parameters, and values that two readers may read differently (`PARAM_SCHEMA`).
/// 2. Reserved parameter names (`PLAN_FIELD_FORBIDDEN`).
/// 3. The tool's schema, after defaults are filled in (`PARAM_SCHEMA`).
/// 4. The system: `AUDIT_UNAVAILABLE`, `LOCKDOWN`.
/// 5. The scope (`SCOPE_UNRESOLVED`, `SCOPE_EMPTY`, `OUT_OF_SCOPE`, `TOOL_CHANGED`).
/// 6. The impact, the largest of the tool's, the operator's and the plan's, against intent, cap and ceiling
///    (`IMPACT_OVER_*`).
/// 7. Paths, URLs, labels, values and budgets (`PATH_ESCAPE`, `EGRESS_FORBIDDEN`, `EGRESS_LABEL`, `PARAM_POLICY`,
///    `BUDGET_CUMULATIVE`).
/// 8. Taint (`TAINT_SENSITIVE_PARAM`, `TAINT_AUTHOR`): the call is held.
///  
/// Step 3 runs only for a tool that step 5 grants: a schema error for any other tool would reveal that the tool exists.
/// For the same reason an unregistered tool and an ungranted one give the same code.
///
/// # Errors
///
/// The denial.
pub fn judge<'a>(
    call: Call<'a>,
    policy: &'a GatePolicy,
    standing: Standing<'_>,
    lookup: &mut dyn Lookup,
) -> Result<Judged<'a>, Denial> {
    check_limits(&call.params, policy)?;
    check_names(&call.params)?;
    let granted = granted_tool(&call, policy, standing);
    let mut params = call.params.clone();
    let mut class = None;
    if let Ok((tool, _)) = granted {
        tool.fill_defaults(&mut params); // the tool's own values: exempt from the limits above
        check_schema(tool, &params)?;
        class = Some(measured_class(&call, tool, &params, policy));
    }
    standing.check(class.as_ref().map(|(class, _)| class.impact), policy)?;
    let (tool, grant) = granted?;
    let class = class.unwrap_or_else(|| measured_class(&call, tool, &params, policy));
    let measured = check_impact(&call, &class, grant, policy)?;
    let (class, _) = class;
    let checked = resources::check(&call, &params, tool, policy, lookup);
    let connect = checked.map_err(|denial| denial.measured(measured))?;
    let hold = taint(&call, tool, &params, policy);
    let route = policy.route(call.name).filter(|route| hold.is_some() || !route.only_tainted);
    Ok(Judged {
        tool,
        given: call.params,
        params,
        class,
        measured,
        hold,
        connect,
        route,
        epoch: policy.epoch,
    })
}

/// Checks literal parameters before their references are resolved: limits, values, and names, those of references included.
///
/// # Errors
///
/// `PARAM_SCHEMA` or `PLAN_FIELD_FORBIDDEN`.
pub fn screen<'a>(
    literal: &Map<String, Value>,
    references: impl IntoIterator<Item = &'a str>,
    policy: &GatePolicy,
) -> Result<(), Denial> {
    check_limits(literal, policy)?;
    check_names(literal)?;
    references.into_iter().try_for_each(check_name)
}

impl GatePolicy {
    /// The intent of a caller that asks for `given`.
    ///
    /// # Errors
    ///
    /// `INTENT_ABOVE_TOKEN`; the default is refused like any other.
    pub fn admit(&self, given: Option<u8>) -> Result<u8, Denial> {
        let intent = given.unwrap_or(self.default_intent);
        if intent > self.max_intent {
            let what =
                format_args!("intent {intent} is above {}, the highest that is allowed", self.max_intent);
            return Err(Denial::new(DenialCode::IntentAboveToken, what));
        }
        Ok(intent)
    }

    /// Checks that a run with so many denials may make another call.
    ///
    /// # Errors
    ///
    /// `DENY_BUDGET`.
    pub fn check_denials(&self, denials: u32) -> Result<(), Denial> {
        match self.deny_budget {
            Some(most) if denials >= most => Err(Denial::new(
                DenialCode::DenyBudget,
                format_args!("{denials} calls of the run were denied"),
            )),
            _ => Ok(()),
        }
    }
}

fn check_limits(params: &Map<String, Value>, policy: &GatePolicy) -> Result<(), Denial> {
    let limits = policy.limits;
    let bytes = measure_within(params, limits.max_depth)
        .map_err(|error| Denial::new(DenialCode::ParamSchema, error))?;
    if bytes > limits.max_bytes {
        let what = format_args!("parameters take {bytes} bytes, expected at most {}", limits.max_bytes);
        return Err(Denial::new(DenialCode::ParamSchema, what));
    }
    match ambiguous_member(params) {
        Some(what) => Err(Denial::new(DenialCode::ParamSchema, what)),
        None => Ok(()),
    }
}

/// Rejects parameters that pretend to set the authority of the call. Only the caller, the operator and the tool's author
/// set it.
pub(super) fn check_names(params: &Map<String, Value>) -> Result<(), Denial> {
    params.keys().try_for_each(|name| check_name(name))
}

fn check_name(name: &str) -> Result<(), Denial> {
    if is_reserved(name) {
        return Err(Denial::new(DenialCode::PlanFieldForbidden, format_args!("{name}: {RESERVED}")));
    }
    Ok(())
}

fn check_schema(tool: &GatedTool, params: &Object) -> Result<(), Denial> {
    tool.check(params.as_value()).map_err(|what| Denial::new(DenialCode::ParamSchema, what))
}

/// The tool that the scopes grant, and what they grant of it.
fn granted_tool<'a>(
    call: &Call<'a>,
    policy: &'a GatePolicy,
    standing: Standing<'_>,
) -> Result<(&'a GatedTool, Grant<'a>), Denial> {
    let name = call.name;
    let out_of_scope = |what: fmt::Arguments<'_>| {
        let unregistered = call.tool.is_none();
        Denial { unregistered, ..Denial::new(DenialCode::OutOfScope, what) }
    };
    let grant = policy.grant(call.scope, name).map_err(|fault| match fault {
        ScopeFault::Unresolved(part) => {
            Denial::new(DenialCode::ScopeUnresolved, format_args!("scope {part:?} does not exist"))
        }
        ScopeFault::Empty => Denial::new(DenialCode::ScopeEmpty, "the caller holds no scope"),
    })?;
    let Some(grant) = grant else {
        return Err(out_of_scope(format_args!(
            "scope {:?} does not grant tool {name:?}",
            call.scope.to_string()
        )));
    };
    let Some(tool) = call.tool.filter(|tool| tool.name() == name) else {
        return Err(out_of_scope(format_args!("tool {name:?} is not registered")));
    };
    let version = tool.version();
    let accepted = standing.accepted.and_then(|accepted| accepted.get(name));
    if grant.excludes(version) || accepted.is_some_and(|accepted| accepted != version) {
        let what = format_args!("tool {name:?} is version {version:?}, which nobody has accepted");
        return Err(Denial::new(DenialCode::ToolChanged, what));
    }
    Ok((tool, grant))
}

/// The class of a call with the impact of tool, operator and plan, and whether an impact function failed.
fn measured_class(
    call: &Call<'_>,
    tool: &GatedTool,
    params: &Object,
    policy: &GatePolicy,
) -> (CallClass, bool) {
    let (mut class, mut failed) = tool.measured_class(params);
    if let Some(table) = policy.tools.get(call.name).and_then(|rules| rules.impact.as_ref()) {
        let level = table.level(params);
        failed |= level.is_none();
        class.impact = class.impact.max(level.unwrap_or(2));
    }
    class.impact = class.impact.max(call.floor);
    (class, failed)
}

fn check_impact(
    call: &Call<'_>,
    (class, failed): &(CallClass, bool),
    grant: Grant<'_>,
    policy: &GatePolicy,
) -> Result<Measured, Denial> {
    let (cap, ceiling, impact) = (grant.cap.unwrap_or(u8::MAX), policy.ceiling, class.impact);
    let limit = call.intent.min(cap).min(ceiling);
    let measured = Measured { impact, ceiling: limit, failed: *failed };
    if impact <= limit {
        return Ok(measured);
    }
    let (code, whose) = if call.intent == limit {
        (DenialCode::ImpactOverIntent, "the caller's intent")
    } else if cap == limit {
        (DenialCode::ImpactOverScopeCap, "the scope's cap")
    } else {
        (DenialCode::ImpactOverTenantCeiling, "the tenant's ceiling")
    };
    let name = call.name;
    let help = match code {
        DenialCode::ImpactOverIntent if cap < impact => {
            format!("{REMEDY}{RUN_WITH_INTENT}{impact}, and raise the cap of {name} in its scope")
        }
        DenialCode::ImpactOverIntent if ceiling < impact => String::new(),
        DenialCode::ImpactOverIntent => format!("{REMEDY}{RUN_WITH_INTENT}{impact}"),
        _ => String::new(),
    };
    let what = format_args!("impact {impact} of {name} is above {whose}, {limit}{help}");
    Err(Denial::new(code, what).measured(measured))
}

/// The taint of the sensitive parameters of a call.
fn taint(call: &Call<'_>, tool: &GatedTool, params: &Object, policy: &GatePolicy) -> Option<Hold> {
    let filled = |name: &str| !call.params.contains_key(name);
    taint_of(tool, params.keys().map(String::as_str), &filled, call.provenance, policy)
}

/// Taint of the sensitive parameters among `names`. An untrusted value takes precedence over an untrusted author. `filled`
/// names the parameters that hold the tool's default.
pub fn taint_of<'a>(
    tool: &GatedTool,
    names: impl Iterator<Item = &'a str> + Clone,
    filled: &dyn Fn(&str) -> bool,
    provenance: &Provenance,
    policy: &GatePolicy,
) -> Option<Hold> {
    let of_policy = policy.tools.get(tool.name()).map(|rules| &rules.sensitive);
    let is_sensitive =
        |name: &str| tool.is_sensitive(name) || of_policy.is_some_and(|names| names.contains(name));
    let codes = || {
        let sensitive = names.clone().filter(|name| is_sensitive(name));
        sensitive.filter_map(|name| Some((name, provenance.taint(name, filled(name))?)))
    };
    let code = codes().map(|(_, code)| code).min()?;
    let mut params: Vec<String> =
        codes().filter(|(_, of)| *of == code).map(|(name, _)| name.to_owned()).collect();
    params.sort();
    Some(Hold { code, params })
}
