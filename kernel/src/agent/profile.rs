//! What an agent says of itself, once: the type that it has. It never changes; an agent that is to be another one gets
//! another name.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Oversight;
use crate::contract::{SchemaError, compile_schema};
use crate::id::{NAME_RULE, is_name};

/// Capabilities of one agent.
pub const CAPABILITIES_MAX: usize = 64;

/// What an agent is (definition 1 of the Agent Scheduler paper), besides its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// What it can do, by names that jobs ask for; in ascending order, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it is for, such as `legal`: decides how failures are met, and by which weights its runs are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// JSON Schema of what its runs are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// JSON Schema of what comes of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How far people watch it; `None`: as each plan says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversight: Option<Oversight>,
    /// What it asks for a job, in credits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
}

/// One of the two schemas of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Of what its runs are given.
    Input,
    /// Of what comes of them.
    Output,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Side::Input => "input",
            Side::Output => "output",
        })
    }
}

/// A profile that no agent can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// A capability is no name.
    #[error("capability {0:?} is not {NAME_RULE}")]
    Capability(String),
    /// There are too many.
    #[error("{0} capabilities: an agent has at most {CAPABILITIES_MAX}")]
    Capabilities(usize),
    /// The domain is no name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Domain(String),
    /// A schema is none.
    #[error("the {side} schema cannot be judged by: {error}")]
    Schema {
        /// Which.
        side: Side,
        /// What is wrong with it.
        error: SchemaError,
    },
}

impl Profile {
    /// The same in the form that is kept, in which two that say the same are equal.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
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
        for (side, schema) in [(Side::Input, &self.input), (Side::Output, &self.output)] {
            let Some(schema) = schema else { continue };
            compile_schema(schema).map_err(|error| ProfileError::Schema { side, error })?;
        }
        Ok(self)
    }

    /// Whether it can do all of these.
    pub fn can(&self, wanted: &[String]) -> bool {
        wanted.iter().all(|capability| self.capabilities.binary_search(capability).is_ok())
    }
}
