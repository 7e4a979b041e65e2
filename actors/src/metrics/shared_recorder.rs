//! The recorder of a system.

use std::sync::Arc;

use metrics::Recorder;

/// A recorder for several threads.
pub type SharedRecorder = Arc<dyn Recorder + Send + Sync>;
