//! The recorder that a system writes its metrics to.

use std::sync::Arc;

use metrics::Recorder;

/// A recorder that several threads record with.
pub type SharedRecorder = Arc<dyn Recorder + Send + Sync>;
