//! The one way to a tool.

use serde_json::{Map, Value};

use super::call::CallClass;
use crate::id::Digest;
use crate::json::Object;

/// Leave to make one call: the tool, its resolved parameters, and the digest they were judged under. Only the
/// gate makes one; a tool takes it by value, so it is good for one call.
///
/// Outside the gate none can be made, whole or in parts:
///
/// ```compile_fail,E0624
/// # use ostler_kernel::gate::{CallClass, Permit};
/// # use ostler_kernel::id::Digest;
/// # fn forge(class: CallClass) -> Permit {
/// Permit::new("shell.run".into(), serde_json::Map::new(), class, Digest([0; 32]), Digest([0; 32]))
/// # }
/// ```
///
/// ```compile_fail,E0451
/// # use ostler_kernel::gate::{CallClass, Permit};
/// # use ostler_kernel::id::Digest;
/// # fn forge(class: CallClass) -> Permit {
/// Permit {
///     tool: "shell.run".into(),
///     params: serde_json::Map::new(),
///     class,
///     digest: Digest([0; 32]),
///     idempotency_key: Digest([0; 32]),
/// }
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # fn copy(permit: ostler_kernel::gate::Permit) -> ostler_kernel::gate::Permit {
/// permit.clone()
/// # }
/// ```
#[derive(Debug)]
pub struct Permit {
    tool: String,
    params: Object,
    class: CallClass,
    digest: Digest,
    idempotency_key: Digest,
}

impl Permit {
    pub(super) fn new(
        tool: String,
        params: Object,
        class: CallClass,
        digest: Digest,
        idempotency_key: Digest,
    ) -> Permit {
        Permit { tool, params, class, digest, idempotency_key }
    }

    /// The tool it is for.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The parameters that were judged.
    pub fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    /// Gives the parameters away: a copy, if the plan has them too.
    pub fn into_params(self) -> Map<String, Value> {
        self.params.into_map()
    }

    /// What the call was judged to do.
    pub fn class(&self) -> CallClass {
        self.class
    }

    /// Digest of the parameters that were judged.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What a receiver can recognise a repetition by.
    pub fn idempotency_key(&self) -> Digest {
        self.idempotency_key
    }
}
