//! The profile of an agent: its declared type. A profile never changes; an agent with another type has another name.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Oversight;
use crate::contract::{BrokenRule, Contract, SchemaError, compile_schema};
use crate::id::{NAME_RULE, is_name};
use crate::plan::{Method, Node, Plan, Rule};

/// Most capabilities of an agent, or of a job's requirements.
pub const CAPABILITIES_MAX: usize = 64;

/// The type of an agent (definition 1 of the Agent Scheduler paper).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Capabilities by name, as jobs ask for them; sorted, without duplicates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Subject of the agent, such as `legal`: selects recovery strategies and evaluation weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// JSON Schema of the input of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// JSON Schema of the output of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Oversight of all its runs; `None`: each plan decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversight: Option<Oversight>,
    /// Price of a job, in credits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
}

/// Selects one of the two schemas of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaSide {
    /// The schema of inputs.
    Input,
    /// The schema of outputs.
    Output,
}

impl std::fmt::Display for SchemaSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SchemaSide::Input => "input",
            SchemaSide::Output => "output",
        })
    }
}

/// An invalid profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// The capability is not a name.
    #[error("capability {0:?} is not {NAME_RULE}")]
    Capability(String),
    /// More capabilities than [`CAPABILITIES_MAX`].
    #[error("{0} capabilities: an agent has at most {CAPABILITIES_MAX}")]
    Capabilities(usize),
    /// The domain is not a name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Domain(String),
    /// The schema is invalid.
    #[error("{side} schema: {error}")]
    Schema {
        /// The schema's side.
        side: SchemaSide,
        /// The problem with the schema.
        error: SchemaError,
    },
}

impl Profile {
    /// Validates the profile and returns its canonical form: equal profiles have equal forms.
    ///
    /// # Errors
    ///
    /// The first problem.
    ///
    /// ```
    /// use ostler_kernel::agent::Profile;
    /// let profile = Profile { capabilities: vec!["b".into(), "a".into(), "b".into()], ..Profile::default() };
    /// assert_eq!(profile.checked().unwrap().capabilities, ["a", "b"]);
    /// ```
    pub fn checked(mut self) -> Result<Profile, ProfileError> {
        self.capabilities.sort();
        self.capabilities.dedup();
        if let Some(wrong) = self.capabilities.iter().find(|capability| !is_name(capability)) {
            return Err(ProfileError::Capability(wrong.clone()));
        }
        if self.capabilities.len() > CAPABILITIES_MAX {
            return Err(ProfileError::Capabilities(self.capabilities.len()));
        }
        if let Some(domain) = self.domain.as_ref().filter(|domain| !is_name(domain)) {
            return Err(ProfileError::Domain(domain.clone()));
        }
        for (side, schema) in [(SchemaSide::Input, &self.input), (SchemaSide::Output, &self.output)] {
            let Some(schema) = schema else { continue };
            compile_schema(schema).map_err(|error| ProfileError::Schema { side, error })?;
        }
        Ok(self)
    }

    /// True for a profile without any field.
    pub fn is_empty(&self) -> bool {
        *self == Profile::default()
    }

    /// Checks a plan's input against the input schema. The input is the parameters of the entry node, or a map from node to
    /// parameters if the plan has several entries.
    ///
    /// # Errors
    ///
    /// The violations, in words.
    pub fn takes(&self, plan: &Plan) -> Result<(), String> {
        let Some(schema) = &self.input else { return Ok(()) };
        let entries: Vec<&Node> = plan.nodes.iter().filter(|node| node.deps.is_empty()).collect();
        let given = match entries.as_slice() {
            [one] => one.params.as_value().clone(),
            several => {
                let params = several.iter().map(|node| (node.id.to_string(), node.params.as_value().clone()));
                Value::Object(params.collect())
            }
        };
        let rule = Rule { method: Method::Schema, p: None, spec: Some(Arc::new(schema.clone())) };
        let contract = Contract::compile(&[rule]).map_err(|error| error.to_string())?;
        let broken: Vec<String> = contract.judge(&given).broken.iter().map(BrokenRule::to_string).collect();
        if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
    }

    /// True if [`Profile::constrain`] can change a plan.
    pub fn constrains(&self) -> bool {
        self.oversight.is_some() || self.domain.is_some() || self.output.is_some()
    }

    /// Applies the profile to a plan: the stricter oversight holds, the agent's domain holds unless the plan names one, and
    /// the output schema joins the plan's contract. The contract covers the plan's output, or the map of several outputs.
    pub fn constrain(&self, plan: &mut Plan) {
        plan.policy.restrict_by_agent(self.oversight, self.domain.as_deref());
        if let Some(schema) = &self.output {
            let spec = match plan.outputs.as_slice() {
                [one] => of_one(one.as_str(), schema.clone()),
                _ => schema.clone(),
            };
            plan.contract.push(Rule { method: Method::Schema, p: None, spec: Some(Arc::new(spec)) });
        }
    }
}

/// The schema of a map with the member `name` by `schema`.
fn of_one(name: &str, mut schema: Value) -> Value {
    // A reference to the root must mean `schema`, not the map around it.
    if let Some(members) = schema.as_object_mut() {
        members.entry("$id").or_insert_with(|| "urn:ostler:output".into());
    }
    json!({"type": "object", "properties": {name: schema}, "required": [name]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft, Settings};

    fn plan(policy: Value, outputs: Value) -> Plan {
        let node = |id: &Value| json!({"id": id, "contract": [{"method": "schema"}]});
        let nodes: Vec<Value> = outputs.as_array().unwrap().iter().map(node).collect();
        let draft: PlanDraft = serde_json::from_value(json!({
            "id": "p", "policy": policy, "outputs": outputs, "nodes": nodes,
        }))
        .unwrap();
        draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap()
    }

    #[test]
    fn the_stricter_oversight_counts_and_the_domain_of_the_plan() {
        use Oversight::{AutonomousEscalation, SpotCheck, Supervised};
        let check = |plans: Value, own: Option<Oversight>, expected: (Option<Oversight>, &str)| {
            let mut plan = plan(plans.clone(), json!(["a"]));
            let domain = Some("legal".to_owned());
            Profile { oversight: own, domain, ..Profile::default() }.constrain(&mut plan);
            assert_eq!((plan.policy.oversight, plan.policy.domain.as_deref().unwrap()), expected, "{plans}");
        };
        check(json!({}), None, (None, "legal"));
        check(json!({}), Some(SpotCheck), (Some(SpotCheck), "legal"));
        check(json!({"oversight": "supervised"}), Some(SpotCheck), (Some(Supervised), "legal"));
        let autonomous = json!({"oversight": "autonomous_escalation", "domain": "testing"});
        check(autonomous.clone(), Some(SpotCheck), (Some(SpotCheck), "testing"));
        check(autonomous, None, (Some(AutonomousEscalation), "testing"));
    }

    #[test]
    fn what_an_agent_promises_becomes_a_contract_of_its_plans() {
        let output = json!({"$defs": {"text": {"type": "string"}}, "$ref": "#/$defs/text"});
        let check = |output: &Value, outputs: Value, given: Value, expected: bool| {
            let mut plan = plan(json!({}), outputs);
            Profile { output: Some(output.clone()), ..Profile::default() }.constrain(&mut plan);
            let holds = Contract::compile(&plan.contract).unwrap().judge(&given).holds();
            assert_eq!(holds, expected, "{given}");
        };
        check(&output, json!(["a"]), json!({"a": "text"}), true);
        check(&output, json!(["a"]), json!({"a": 7}), false);
        let both = json!({"type": "object", "required": ["a", "b"]});
        check(&both, json!(["a", "b"]), json!({"a": 1, "b": 2}), true);
        check(&both, json!(["a", "b"]), json!({"a": 1}), false);
    }

    #[test]
    fn a_profile_that_no_agent_can_have_is_refused() {
        let check = |profile: Profile, expected: &str| {
            assert_eq!(profile.checked().unwrap_err().to_string(), expected);
        };
        let can = |capabilities: Vec<String>| Profile { capabilities, ..Profile::default() };
        check(can(vec!["a b".to_owned()]), "capability \"a b\" is not 1 to 64 of A-Z a-z 0-9 . _ -");
        let many = |count| can((0..count).map(|at| format!("c{at}")).collect());
        check(many(CAPABILITIES_MAX + 1), "65 capabilities: an agent has at most 64");
        assert!(many(CAPABILITIES_MAX).checked().is_ok());
        let domain = Some("/".to_owned());
        check(Profile { domain, ..Profile::default() }, "domain \"/\" is not 1 to 64 of A-Z a-z 0-9 . _ -");
        let wrong = Profile { output: Some(json!({"type": "nonsense"})), ..Profile::default() };
        assert!(matches!(wrong.checked(), Err(ProfileError::Schema { side: SchemaSide::Output, .. })));
    }
}
