//! The verdict on a call. The first reason to deny counts, and denying is the default.

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

/// All that a model, a planner or a plan's author learns of a denial: nothing that a failing tool would not say.
pub const REFUSAL: &str = "the call was refused";

/// What stands in a denial before what would mend it.
pub const REMEDY: &str = "; if it is meant to, ";

/// The gate's answer.
#[derive(Debug)]
pub enum Verdict {
    /// The call may be made, once.
    Allowed {
        /// What the tool takes.
        permit: Permit,
        /// Impact of the call, the plan's floor included.
        impact: u8,
    },
    /// It may not.
    Denied(Denial),
}

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The reason's code.
    pub code: DenialCode,
    /// What happened, for operators and the audit only; of bounded length.
    pub operator: String,
}

impl Denial {
    /// What a model may see: what is wrong with the parameters of a tool that it may call, or [`REFUSAL`].
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

/// The reasons, in the order they are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenialCode {
    /// The parameters break a limit or the tool's schema.
    ParamSchema,
    /// A parameter has the name of something that says what a call may do.
    PlanFieldForbidden,
    /// There is no scope of that name.
    ScopeUnresolved,
    /// The scope does not have the tool, or there is no such tool.
    OutOfScope,
    /// It would do more than the caller asked for.
    ImpactOverIntent,
    /// It would do more than the scope lets this tool do.
    ImpactOverScopeCap,
    /// It would do more than the tenant may.
    ImpactOverTenantCeiling,
    /// A path could lead out of the workspace.
    PathEscape,
    /// A URL leads where data may not be sent.
    EgressForbidden,
}

impl DenialCode {
    /// All of them.
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

    /// The word used in journals and conformance cases.
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

/// Judges a call: limits and reserved names, then (only for a tool that the scope grants, so that no refusal shows the schema of
/// another) defaults and schema, then scope, impact, paths and URLs. `idempotency_key`: what a receiver can recognise
/// a repetition of it by.
pub fn decide(call: Call<'_>, idempotency_key: Digest, policy: &GatePolicy) -> Verdict {
    let name = call.name;
    match weigh(call, policy) {
        Ok((Preview { params, class }, digest)) => {
            let permit = Permit::new(name.to_owned(), params, class, digest, idempotency_key);
            Verdict::Allowed { permit, impact: class.impact }
        }
        Err(denial) => Verdict::Denied(denial),
    }
}

/// What [`decide`] would say of a call, without leave to make it.
///
/// # Errors
///
/// Why it may not be made.
pub fn preview(call: Call<'_>, policy: &GatePolicy) -> Result<Preview, Denial> {
    weigh(call, policy).map(|(preview, _)| preview)
}

/// What speaks against a call of which only some parameters are known yet, if anything does: it would be denied with
/// whatever others. Parameters are not judged by the schema, which needs all of them; [`GatedTool::judge`] does.
pub fn preflight(call: &Call<'_>, policy: &GatePolicy) -> Option<Denial> {
    let weighed = check_names(&call.params).and_then(|()| granted(call, policy)).and_then(|(tool, cap)| {
        check_impact(call, tool, cap, policy.ceiling)?;
        check_paths(call, tool)?;
        check_urls(call, tool, &policy.egress)
    });
    weighed.err()
}

/// What the call comes to, and the digest of its parameters.
fn weigh(mut call: Call<'_>, policy: &GatePolicy) -> Result<(Preview, Digest), Denial> {
    check_limits(&call.params, policy)?;
    check_names(&call.params)?;
    let granted = granted(&call, policy);
    if let Ok((tool, _)) = granted {
        tool.fill_defaults(&mut call.params); // which are the tool's own, and as long as they are
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
        let what = format_args!("parameters of {bytes} bytes, at most {} are allowed", limits.max_bytes);
        return Err(denial(DenialCode::ParamSchema, what));
    }
    let ambiguous = params
        .iter()
        .find_map(|(name, value)| Some(NUL).filter(|_| has_nul(name)).or_else(|| read_otherwise(value)));
    match ambiguous {
        Some(what) => Err(denial(DenialCode::ParamSchema, what)),
        None => Ok(()),
    }
}

/// Nobody says by a parameter what a call may do: that is for who asks, for the operator and for the author of the tool.
fn check_names(params: &Map<String, Value>) -> Result<(), Denial> {
    match params.keys().find(|name| is_reserved(name)) {
        Some(name) => Err(denial(DenialCode::PlanFieldForbidden, format_args!("{name}: {RESERVED}"))),
        None => Ok(()),
    }
}

const NUL: &str = "a text with the character U+0000 in it";

fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// What in a value others may read otherwise than it was judged: many a receiver takes U+0000 for the end of a text, and
/// 2^53 is what a double makes of the integer after it, too. Calls itself as deep as the parameters may be nested.
fn read_otherwise(value: &Value) -> Option<&'static str> {
    let too_big = |number: &Number| {
        let integer = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
        integer.is_some_and(|magnitude| magnitude >= MAX_INTEGER)
    };
    match value {
        Value::String(text) => has_nul(text).then_some(NUL),
        Value::Number(number) => {
            too_big(number).then_some("an integer of 2^53 or more; give it as a text, or give a smaller one")
        }
        Value::Array(items) => items.iter().find_map(read_otherwise),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, inner)| Some(NUL).filter(|_| has_nul(name)).or_else(|| read_otherwise(inner))),
        Value::Null | Value::Bool(_) => None,
    }
}

fn check_schema(tool: &GatedTool, params: &Object) -> Result<(), Denial> {
    tool.check(params.as_value()).map_err(|what| denial(DenialCode::ParamSchema, what))
}

/// The tool that the scope grants, and its cap. A tool that does not exist looks like one that is not granted.
fn granted<'a>(call: &Call<'a>, policy: &GatePolicy) -> Result<(&'a GatedTool, Option<u8>), Denial> {
    let cap = policy
        .cap(call.scope, call.name)
        .map_err(|part| denial(DenialCode::ScopeUnresolved, format_args!("no scope {part:?}")))?;
    match (cap, call.tool) {
        (Some(cap), Some(tool)) if tool.name() == call.name => Ok((tool, cap)),
        (Some(_), _) => {
            Err(denial(DenialCode::OutOfScope, format_args!("no tool {:?} is registered", call.name)))
        }
        (None, _) => {
            let what = format_args!("scope {:?} does not have tool {:?}", call.scope, call.name);
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
        each_text(value, &mut |text| match text {
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
        each_text(value, &mut |text| match text {
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

/// Asks about a value, or about every element of its lists at any depth; `None` stands for what is no text.
fn each_text(value: &Value, judge: &mut dyn FnMut(Option<&str>) -> Result<(), Denial>) -> Result<(), Denial> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| each_text(item, judge)),
        Value::String(text) => judge(Some(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => judge(None),
    }
}

fn denial(code: DenialCode, what: impl fmt::Display) -> Denial {
    Denial { code, operator: excerpt(what) }
}
