//! What a run's actor knows about reuse in its run.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{RecordPlace, ResultRecorded};
use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::{Frontier, Manifest};

/// What a driver knows about reuse in its run. Lost with the driver: then a result may stay unrecorded, and an explanation be shorter.
#[derive(Default)]
pub(super) struct ReuseProgress {
    /// Manifests of attempts under way.
    pub(super) manifests: BTreeMap<NodeId, Manifest>,
    /// Nearest executed ancestors of decided nodes.
    pub(super) frontiers: BTreeMap<NodeId, Frontier>,
    /// Records that were read.
    pub(super) records: BTreeMap<RecordPlace, Arc<ResultRecorded>>,
    /// Decisions so far.
    pub(super) decisions: usize,
}
