//! Memory of a driver about reuse.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{RecordPlace, ResultRecorded};
use ostler_kernel::id::{Digest, NodeId, Ticks};
use ostler_kernel::lineage::{Frontier, Manifest};
use serde_json::Value;

/// A recorded read.
pub(super) struct Offered {
    /// Digest of the recorded result.
    pub(super) artifact: Digest,
    /// The recorded result, until the attempt takes it.
    pub(super) value: Option<Arc<Value>>,
}

/// Memory of a driver about reuse in its run, lost with the driver. After a loss, a result may stay unrecorded, and an explanation
/// may name fewer nodes.
#[derive(Default)]
pub(super) struct ReuseProgress {
    /// Identity and abridged manifest of the work of running attempts.
    pub(super) manifests: BTreeMap<NodeId, (Digest, Manifest)>,
    /// Recorded reads whose tools are asked whether their sources were modified.
    pub(super) offered: BTreeMap<NodeId, Offered>,
    /// Nearest executed ancestors of the nodes with a decision.
    pub(super) frontiers: BTreeMap<NodeId, Frontier>,
    /// Cache of records.
    pub(super) records: BTreeMap<RecordPlace, (Ticks, Arc<ResultRecorded>)>,
    /// Number of decisions, for yields.
    pub(super) decisions: usize,
}
