//! Messages to the actor of all pipelines.

use std::sync::Arc;

use ostler_kernel::pipeline::Topology;
use ostler_kernel::port::Position;
use ractor::RpcReplyPort;

use crate::pipelines::error::PipelineError;
use crate::pipelines::log::Log;

pub(crate) enum PipelinesMessage {
    /// Create a pipeline; the reply has the position of its record.
    Create { topology: Box<Topology>, reply: RpcReplyPort<Result<(Arc<Log>, Position), PipelineError>> },
    /// Remove a pipeline that is not in use; the reply has the position of the record.
    Remove { log: Arc<Log>, reply: RpcReplyPort<Result<Position, PipelineError>> },
    /// Start the actor of a stage with code here.
    Start { log: Arc<Log>, stage: usize },
    /// The actor of a stage did not start, or failed too often.
    Down { child: String, reason: String },
    /// The pool has started, without children.
    PoolUp,
}
