//! The verdict on a call: a fixed order of checks in which the first failure decides, and deny by default.

use std::fmt;

use serde_json::{Map, Number, Value};

use super::call::{Call, CallClass, Preview};
use super::params::{RESERVED, is_reserved};
use super::permit::Permit;
use super::policy::GatePolicy;
use super::tool::GatedTool;
use super::{egress::Egress, path};
use crate::contract::excerpt;
use crate::id::Digest;
use crate::json::{MAX_INTEGER, Object, measure_within};

/// The text that a model, a planner or a plan's author sees for a denial. Reveals nothing about the policy.
pub const REFUSAL: &str = "the call was refused";

/// Separates the problem from the remedy in [`Denial::operator`].
pub const REMEDY: &str = "; if this is intended, ";

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

/// Reason for a denied call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The first check that failed.
    pub code: DenialCode,
    /// Details for operators and the audit log only; bounded length.
    pub operator: String,
}

impl Denial {
    /// Text that a model may see: the fault of the parameters of a tool within its scope, otherwise [`REFUSAL`].
    pub fn for_model(&self) -> &str {
        match self.code {
            DenialCode::ParamSchema | DenialCode::PlanFieldForbidden => &self.operator,
            DenialCode::ScopeUnresolved
            | DenialCode::OutOfScope
            | DenialCode::ImpactOverIntent
            | DenialCode::ImpactOverScopeCap
            | DenialCode::ImpactOverTenantCeiling
            | DenialCode::PathEscape
            | DenialCode::EgressForbidden => REFUSAL,
        }
    }
}

/// Codes of denials, in the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenialCode {
    /// The parameters exceed a limit or violate the tool's schema.
    ParamSchema,
    /// A parameter bears a reserved name, such as `impact` or `scope`.
    PlanFieldForbidden,
    /// The policy defines no scope of the given name.
    ScopeUnresolved,
    /// The scope does not grant the tool, or the tool is not registered.
    OutOfScope,
    /// The impact exceeds the caller's intent.
    ImpactOverIntent,
    /// The impact exceeds the scope's cap for the tool.
    ImpactOverScopeCap,
    /// The impact exceeds the tenant's ceiling.
    ImpactOverTenantCeiling,
    /// A path may lead out of the workspace.
    PathEscape,
    /// A URL names a destination outside the egress list.
    EgressForbidden,
}

impl DenialCode {
    /// All codes, in the order of the checks.
    pub const ALL: [DenialCode; 9] = [
        DenialCode::ParamSchema,
        DenialCode::PlanFieldForbidden,
        DenialCode::ScopeUnresolved,
        DenialCode::OutOfScope,
        DenialCode::ImpactOverIntent,
        DenialCode::ImpactOverScopeCap,
        DenialCode::ImpactOverTenantCeiling,
        DenialCode::PathEscape,
        DenialCode::EgressForbidden,
    ];

    /// The code as journals and conformance cases spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            DenialCode::ParamSchema => "PARAM_SCHEMA",
            DenialCode::PlanFieldForbidden => "PLAN_FIELD_FORBIDDEN",
            DenialCode::ScopeUnresolved => "SCOPE_UNRESOLVED",
            DenialCode::OutOfScope => "OUT_OF_SCOPE",
            DenialCode::ImpactOverIntent => "IMPACT_OVER_INTENT",
            DenialCode::ImpactOverScopeCap => "IMPACT_OVER_SCOPE_CAP",
            DenialCode::ImpactOverTenantCeiling => "IMPACT_OVER_TENANT_CEILING",
            DenialCode::PathEscape => "PATH_ESCAPE",
            DenialCode::EgressForbidden => "EGRESS_FORBIDDEN",
        }
    }
}

impl fmt::Display for DenialCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides on a call.
///  
/// The checks run in this order, and the first failure is the verdict:
///  
/// 1. Size and depth of the parameters, and values that two readers may read differently (`PARAM_SCHEMA`).
/// 2. Reserved parameter names (`PLAN_FIELD_FORBIDDEN`).
/// 3. The tool's schema, after defaults are filled in (`PARAM_SCHEMA`).
/// 4. The scope (`SCOPE_UNRESOLVED`, `OUT_OF_SCOPE`).
/// 5. The impact, the larger of the tool's own and the plan's floor, against intent, cap and ceiling (`IMPACT_OVER_*`).
/// 6. Paths (`PATH_ESCAPE`).
/// 7. URLs (`EGRESS_FORBIDDEN`).
///  
/// Step 3 runs only for a tool that the scope grants: a schema error for any other tool would reveal that the tool exists.
/// For the same reason an unregistered tool and an ungranted one give the same code. The permit carries the digest of the
/// parameters as judged, so a later change of the parameters is detectable. `idempotency_key` lets the receiver of an
/// effect recognise a repetition.
pub fn decide(call: Call<'_>, idempotency_key: Digest, policy: &GatePolicy) -> Verdict {
    let name = call.name;
    match evaluate(call, policy) {
        Ok((Preview { params, class }, digest)) => {
            let permit = Permit::new(name.to_owned(), params, class, digest, idempotency_key);
            Verdict::Allowed { permit, impact: class.impact }
        }
        Err(denial) => Verdict::Denied(denial),
    }
}

/// The verdict of [`decide`] without a permit: what an approver sees before the call runs.
///  
/// # Errors
///  
/// The denial that [`decide`] would return.
pub fn preview(call: Call<'_>, policy: &GatePolicy) -> Result<Preview, Denial> {
    evaluate(call, policy).map(|(preview, _)| preview)
}

/// The denial that is certain for a call of which only some parameters are known; `None` if the missing ones may still
/// make the call acceptable.
///  
/// Skips limits and schema, which need every parameter; [`GatedTool::judge`] checks a partial set against the schema.
pub fn preflight(call: &Call<'_>, policy: &GatePolicy) -> Option<Denial> {
    let verdict =
        check_names(&call.params).and_then(|()| granted_tool(call, policy)).and_then(|(tool, cap)| {
            check_impact(call, tool, cap, policy.ceiling)?;
            check_paths(call, tool)?;
            check_urls(call, tool, &policy.egress)
        });
    verdict.err()
}

/// Runs the checks; returns the completed call and the digest of its parameters.
fn evaluate(mut call: Call<'_>, policy: &GatePolicy) -> Result<(Preview, Digest), Denial> {
    check_limits(&call.params, policy)?;
    check_names(&call.params)?;
    let granted = granted_tool(&call, policy);
    if let Ok((tool, _)) = granted {
        tool.fill_defaults(&mut call.params); // the tool's own values: exempt from the limits above
        check_schema(tool, &call.params)?;
    }
    let (tool, cap) = granted?;
    let class = check_impact(&call, tool, cap, policy.ceiling)?;
    check_paths(&call, tool)?;
    check_urls(&call, tool, &policy.egress)?;
    let digest = call.params.digest().map_err(|error| denial(DenialCode::ParamSchema, error))?;
    Ok((Preview { params: call.params, class }, digest))
}

fn check_limits(params: &Map<String, Value>, policy: &GatePolicy) -> Result<(), Denial> {
    let limits = policy.limits;
    let bytes =
        measure_within(params, limits.max_depth).map_err(|error| denial(DenialCode::ParamSchema, error))?;
    if bytes > limits.max_bytes {
        let what = format_args!("parameters take {bytes} bytes, expected at most {}", limits.max_bytes);
        return Err(denial(DenialCode::ParamSchema, what));
    }
    let ambiguous = params
        .iter()
        .find_map(|(name, value)| Some(NUL).filter(|_| has_nul(name)).or_else(|| ambiguous_value(value)));
    match ambiguous {
        Some(what) => Err(denial(DenialCode::ParamSchema, what)),
        None => Ok(()),
    }
}

/// Rejects parameters that pretend to set the authority of the call. Only the caller, the operator and the tool's author
/// set it.
fn check_names(params: &Map<String, Value>) -> Result<(), Denial> {
    match params.keys().find(|name| is_reserved(name)) {
        Some(name) => Err(denial(DenialCode::PlanFieldForbidden, format_args!("{name}: {RESERVED}"))),
        None => Ok(()),
    }
}

const NUL: &str = "a text contains the character U+0000";

fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// Finds a value that a receiver may read differently from the gate: C programs end a string at U+0000, and a double
/// cannot tell 2^53 from 2^53 + 1. Recursion is bounded by the depth limit.
fn ambiguous_value(value: &Value) -> Option<&'static str> {
    let too_big = |number: &Number| {
        let integer = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
        integer.is_some_and(|magnitude| magnitude >= MAX_INTEGER)
    };
    match value {
        Value::String(text) => has_nul(text).then_some(NUL),
        Value::Number(number) => too_big(number).then_some("an integer is 2^53 or larger; give it as a text"),
        Value::Array(items) => items.iter().find_map(ambiguous_value),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, inner)| Some(NUL).filter(|_| has_nul(name)).or_else(|| ambiguous_value(inner))),
        Value::Null | Value::Bool(_) => None,
    }
}

fn check_schema(tool: &GatedTool, params: &Object) -> Result<(), Denial> {
    tool.check(params.as_value()).map_err(|what| denial(DenialCode::ParamSchema, what))
}

/// The tool that the scope grants, and the scope's cap on its impact.
fn granted_tool<'a>(call: &Call<'a>, policy: &GatePolicy) -> Result<(&'a GatedTool, Option<u8>), Denial> {
    let cap = policy
        .cap(call.scope, call.name)
        .map_err(|part| denial(DenialCode::ScopeUnresolved, format_args!("scope {part:?} does not exist")))?;
    match (cap, call.tool) {
        (Some(cap), Some(tool)) if tool.name() == call.name => Ok((tool, cap)),
        (Some(_), _) => {
            Err(denial(DenialCode::OutOfScope, format_args!("tool {:?} is not registered", call.name)))
        }
        (None, _) => {
            let what = format_args!("scope {:?} does not grant tool {:?}", call.scope, call.name);
            Err(denial(DenialCode::OutOfScope, what))
        }
    }
}

fn check_impact(
    call: &Call<'_>,
    tool: &GatedTool,
    cap: Option<u8>,
    ceiling: u8,
) -> Result<CallClass, Denial> {
    let mut class = tool.class(&call.params);
    class.impact = class.impact.max(call.floor);
    let cap = cap.unwrap_or(u8::MAX);
    let limit = call.intent.min(cap).min(ceiling);
    if class.impact <= limit {
        return Ok(class);
    }
    let (code, whose) = if call.intent == limit {
        (DenialCode::ImpactOverIntent, "the caller's intent")
    } else if cap == limit {
        (DenialCode::ImpactOverScopeCap, "the scope's cap")
    } else {
        (DenialCode::ImpactOverTenantCeiling, "the tenant's ceiling")
    };
    let (impact, name) = (class.impact, call.name);
    let help = match code {
        DenialCode::ImpactOverIntent if cap < impact => {
            format!("{REMEDY}run it with --intent {impact}, and raise the cap of {name} in its scope")
        }
        DenialCode::ImpactOverIntent if ceiling < impact => String::new(),
        DenialCode::ImpactOverIntent => format!("{REMEDY}run it with --intent {impact}"),
        _ => String::new(),
    };
    Err(denial(code, format_args!("impact {impact} of {name} is above {whose}, {limit}{help}")))
}

fn check_paths(call: &Call<'_>, tool: &GatedTool) -> Result<(), Denial> {
    for (name, value) in call.params.iter().filter(|(name, _)| tool.takes_path(name)) {
        for_each_string(value, &mut |text| match text {
            Some(text) => path::judge(text, call.workspace).map_err(|fault| {
                denial(DenialCode::PathEscape, format_args!("{name} {:?}: {fault}", excerpt(text)))
            }),
            None => {
                Err(denial(DenialCode::PathEscape, format_args!("{name}: expected a path, found no text")))
            }
        })?;
    }
    Ok(())
}

fn check_urls(call: &Call<'_>, tool: &GatedTool, egress: &Egress) -> Result<(), Denial> {
    for (name, value) in call.params.iter().filter(|(name, _)| tool.takes_url(name)) {
        for_each_string(value, &mut |text| match text {
            Some(text) => egress.judge(text).map(drop).map_err(|fault| {
                denial(DenialCode::EgressForbidden, format_args!("{name}: {:?}: {fault}", excerpt(text)))
            }),
            None => Err(denial(
                DenialCode::EgressForbidden,
                format_args!("{name}: expected a URL, found no text"),
            )),
        })?;
    }
    Ok(())
}

/// Visits a value, or every element of nested lists. The visitor receives `None` for a value that is not a string.
fn for_each_string(
    value: &Value,
    judge: &mut dyn FnMut(Option<&str>) -> Result<(), Denial>,
) -> Result<(), Denial> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| for_each_string(item, judge)),
        Value::String(text) => judge(Some(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => judge(None),
    }
}

fn denial(code: DenialCode, what: impl fmt::Display) -> Denial {
    Denial { code, operator: excerpt(what) }
}
