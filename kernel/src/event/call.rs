//! Records of the tokens and the money that calls of models reserve and use.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, NodeId};
use crate::json::Json;
use crate::ledger::Amounts;
use crate::port::ModelCall;

/// Record of [`Event::CallReserved`](super::Event::CallReserved).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReserved {
    /// The node whose attempt or patch calls, or [`RUN_JUDGE`](crate::port::RUN_JUDGE).
    pub node: NodeId,
    /// Number of the call, never used twice in a data folder by chance: drawn at random.
    pub call: u64,
    /// Name of the model in the configuration.
    pub model: String,
    /// Most that the call is expected to use.
    pub amounts: Amounts,
}

/// Record of [`Event::CallSettled`](super::Event::CallSettled).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSettled {
    /// Number of the call.
    pub call: u64,
    /// What was reserved, and is free again.
    pub reserved: Amounts,
    /// What the call used.
    pub used: Amounts,
    /// Digest of the prices that the charge follows from; `None` without a known price.
    pub prices: Option<Digest>,
}

/// Largest question and answer in one record, in bytes of canonical JSON together. A longer exchange is not recorded.
pub const EXCHANGE_BYTES_MAX: usize = 64 << 10;

/// Record of [`Event::ModelExchanged`](super::Event::ModelExchanged).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelExchanged {
    /// The node whose program called.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Parameters of the tool that called the model.
    pub params: Json,
    /// Result of the tool.
    pub answer: Json,
    /// The call, with its usage.
    pub call: ModelCall,
}

/// Record of [`Event::ResultJudged`](super::Event::ResultJudged): the verdict of a model on a result, by a rule of the node's
/// contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultJudged {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Index of the rule in the contract.
    pub rule: u32,
    /// Name of the model in the configuration.
    pub model: String,
    /// Probability that an accepted result is right, as the rule says; `None`: unknown.
    pub precision: Option<f64>,
    /// True if the result holds.
    pub holds: bool,
    /// The model's reason; of bounded length, and possibly empty.
    pub why: String,
}

impl CallReserved {
    /// What an account has used after this record, if the call never ends.
    #[must_use]
    pub fn charge(&self, used: Amounts) -> Amounts {
        used.plus(self.amounts)
    }
}

impl CallSettled {
    /// What an account has used after this record.
    #[must_use]
    pub fn charge(&self, used: Amounts) -> Amounts {
        used.minus(self.reserved).plus(self.used)
    }
}
