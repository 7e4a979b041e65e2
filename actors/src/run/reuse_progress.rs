//! Memory of a driver about reuse.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{RecordPlace, ResultRecorded};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::lineage::{Frontier, Manifest};

/// Memory of a driver about reuse in its run, lost with the driver. After a loss, a result may stay unrecorded, and an explanation
/// may name fewer nodes.
#[derive(Default)]
pub(super) struct ReuseProgress {
    /// Identity and abridged manifest of the work of running attempts.
    pub(super) manifests: BTreeMap<NodeId, (Digest, Manifest)>,
    /// Nearest executed ancestors of the nodes with a decision.
    pub(super) frontiers: BTreeMap<NodeId, Frontier>,
    /// Cache of records.
    pub(super) records: BTreeMap<RecordPlace, Arc<ResultRecorded>>,
    /// Number of decisions, for yields.
    pub(super) decisions: usize,
}
