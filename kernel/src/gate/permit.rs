//! The capability to make one tool call.

use serde_json::{Map, Value};

use super::call::CallClass;
use super::code::Measured;
use super::decide::Hold;
use crate::id::Digest;
use crate::json::Object;

/// Capability to make one call: the tool, its resolved parameters and the digest under which the gate judged them. Only
/// the gate constructs a permit. A tool takes the permit by value, so one permit covers one call.
///  
/// No other code can construct, assemble or copy a permit:
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
    measured: Measured,
    hold: Option<Hold>,
    epoch: u64,
}

impl Permit {
    pub(super) fn new(
        tool: String,
        params: Object,
        class: CallClass,
        digest: Digest,
        idempotency_key: Digest,
        (measured, hold, epoch): (Measured, Option<Hold>, u64),
    ) -> Permit {
        Permit { tool, params, class, digest, idempotency_key, measured, hold, epoch }
    }

    /// Epoch of the policy that allowed the call.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Impact and its limit.
    pub fn measured(&self) -> Measured {
        self.measured
    }

    /// Sensitive parameters for which the call was held until the call was cleared.
    pub fn tainted(&self) -> &[String] {
        self.hold.as_ref().map_or(&[], |hold| &hold.params)
    }

    /// Name of the permitted tool.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The parameters as judged.
    pub fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    /// Consumes the permit and returns its parameters; copies them if the plan shares them.
    pub fn into_params(self) -> Map<String, Value> {
        self.params.into_map()
    }

    /// Class of the call as judged.
    pub fn class(&self) -> CallClass {
        self.class
    }

    /// Digest of the parameters as judged.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Key by which the receiver of the effect recognises a repetition.
    pub fn idempotency_key(&self) -> Digest {
        self.idempotency_key
    }
}
