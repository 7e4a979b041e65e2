//! Codes of denials, and the denial with what only operators may know.

use std::fmt;

use crate::contract::excerpt;
use crate::id::RunId;

/// The text that a model, a planner or a plan's author sees for a denial. Reveals nothing about the policy.
pub const REFUSAL: &str = "the call was refused";

/// Separates the problem from the remedy in [`Denial::operator`].
pub const REMEDY: &str = "; if this is intended, ";

/// The remedy for an impact above the intent; the impact follows.
pub(super) const RUN_WITH_INTENT: &str = "run it with --intent ";

/// Reason for a denied call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The first check that failed.
    pub code: DenialCode,
    /// Details for operators and the audit log only; bounded length.
    pub operator: String,
    /// Impact and its limit; `None` if an earlier check failed.
    pub measured: Option<Measured>,
    /// The taint for which the call was held for clearance.
    pub held: Option<DenialCode>,
    /// No tool of this name is registered.
    pub unregistered: bool,
}

/// Impact of a call and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// The smallest of intent, cap and the tenant's ceiling.
    pub ceiling: u8,
    /// The tool's impact function failed, so the impact counts as 2.
    pub failed: bool,
}

impl Denial {
    /// A denial before the impact was measured.
    pub fn new(code: DenialCode, what: impl fmt::Display) -> Denial {
        Denial { code, operator: excerpt(what), measured: None, held: None, unregistered: false }
    }

    pub(super) fn measured(self, measured: Measured) -> Denial {
        Denial { measured: Some(measured), ..self }
    }

    /// The denial of a call that undoes an effect of `run`: not the run gets another intent, but its undo.
    pub fn of_undo(self, run: RunId) -> Denial {
        let operator = match self.operator.split_once(RUN_WITH_INTENT) {
            Some((what, intent)) => format!("{what}run `ostler undo {run} --intent {intent}`"),
            None => self.operator,
        };
        Denial { operator, ..self }
    }

    /// Text that a model may see: the fault of the parameters of a tool within its scope, otherwise [`REFUSAL`].
    pub fn for_model(&self) -> &str {
        if self.code.is_about_the_step() { &self.operator } else { REFUSAL }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Codes of denials, in the order of the checks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DenialCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl DenialCode {
            /// All codes, in the order of the checks.
            pub const ALL: [DenialCode; [$($text),+].len()] = [$(DenialCode::$name,)+];

            /// The code as journals and conformance cases spell it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(DenialCode::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The requested intent exceeds what the caller may ask for.
    IntentAboveToken = "INTENT_ABOVE_TOKEN",
    /// The run has used up its denials.
    DenyBudget = "DENY_BUDGET",
    /// The parameters exceed a limit or violate the tool's schema.
    ParamSchema = "PARAM_SCHEMA",
    /// A field or a parameter bears a reserved name, such as `impact` or `scope`.
    PlanFieldForbidden = "PLAN_FIELD_FORBIDDEN",
    /// A reference leads to a node that the call may not read.
    RefForeign = "REF_FOREIGN",
    /// The verdict cannot be recorded.
    AuditUnavailable = "AUDIT_UNAVAILABLE",
    /// An operator stopped all calls.
    Lockdown = "LOCKDOWN",
    /// The policy defines no scope of the given name.
    ScopeUnresolved = "SCOPE_UNRESOLVED",
    /// The caller holds no scope.
    ScopeEmpty = "SCOPE_EMPTY",
    /// The scope does not grant the tool, or the tool is not registered.
    OutOfScope = "OUT_OF_SCOPE",
    /// The tool is another version than the one that was approved or pinned.
    ToolChanged = "TOOL_CHANGED",
    /// The impact exceeds the caller's intent.
    ImpactOverIntent = "IMPACT_OVER_INTENT",
    /// The impact exceeds the scope's cap for the tool.
    ImpactOverScopeCap = "IMPACT_OVER_SCOPE_CAP",
    /// The impact exceeds the tenant's ceiling.
    ImpactOverTenantCeiling = "IMPACT_OVER_TENANT_CEILING",
    /// A path may lead out of its root.
    PathEscape = "PATH_ESCAPE",
    /// A URL names a destination outside the egress rules.
    EgressForbidden = "EGRESS_FORBIDDEN",
    /// Data with a label that must not leave would leave.
    EgressLabel = "EGRESS_LABEL",
    /// A value violates a rule of the operator.
    ParamPolicy = "PARAM_POLICY",
    /// The calls of the run together would exceed a limit of the operator.
    BudgetCumulative = "BUDGET_CUMULATIVE",
    /// A sensitive parameter has an untrusted value.
    TaintSensitiveParam = "TAINT_SENSITIVE_PARAM",
    /// An author who has read untrusted data wrote a sensitive parameter.
    TaintAuthor = "TAINT_AUTHOR",
    /// The clearance authority cannot be reached.
    ClearanceUnreachable = "CLEARANCE_UNREACHABLE",
    /// The clearance authority did not answer before the deadline.
    ClearanceTimeout = "CLEARANCE_TIMEOUT",
    /// The clearance authority answered with a redirect.
    ClearanceRedirect = "CLEARANCE_REDIRECT",
    /// The answer of the clearance authority is not a strict JSON object with a boolean `allow`.
    ClearanceMalformed = "CLEARANCE_MALFORMED",
    /// The clearance authority said no.
    ClearanceDenied = "CLEARANCE_DENIED",
    /// Parameters or tool changed after the verdict.
    SealMismatch = "SEAL_MISMATCH",
    /// The policy changed after the verdict.
    PolicyEpochStale = "POLICY_EPOCH_STALE",
}

impl DenialCode {
    /// True if the step itself is faulty: its author may know what to write instead, and learns nothing about the policy.
    pub fn is_about_the_step(self) -> bool {
        matches!(self, DenialCode::ParamSchema | DenialCode::PlanFieldForbidden | DenialCode::RefForeign)
    }

    /// True if a run has only so many denials of this code. The first two concern no single call.
    pub fn counts_as_denial(self) -> bool {
        !matches!(self, DenialCode::IntentAboveToken | DenialCode::DenyBudget)
    }
}

impl fmt::Display for DenialCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_uses_up_denials_by_its_calls_alone() {
        let free: Vec<&str> = DenialCode::ALL
            .iter()
            .filter(|code| !code.counts_as_denial())
            .map(|code| code.as_str())
            .collect();
        assert_eq!(free, ["INTENT_ABOVE_TOKEN", "DENY_BUDGET"]);
    }

    #[test]
    fn a_model_reads_only_what_is_wrong_with_its_step() {
        for code in DenialCode::ALL {
            let denial = Denial::new(code, "the details");
            let told = ["PARAM_SCHEMA", "PLAN_FIELD_FORBIDDEN", "REF_FOREIGN"].contains(&code.as_str());
            assert_eq!(denial.for_model(), if told { "the details" } else { REFUSAL }, "{code}");
        }
    }
}
