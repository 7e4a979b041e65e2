//! Messages to the actor of all pipelines.

use std::sync::Arc;

use ostler_kernel::pipeline::Topology;
use ostler_kernel::port::Position;
use ractor::RpcReplyPort;

use crate::pipelines::error::PipelineError;
use crate::pipelines::log::Log;

pub(crate) enum PipelinesMessage {
    /// A pipeline is to exist from here on; the answer is where that is recorded.
    Create { topology: Box<Topology>, reply: RpcReplyPort<Result<(Arc<Log>, Position), PipelineError>> },
    /// A stage has code in this process: it is to have an actor.
    Start { log: Arc<Log>, stage: usize },
    /// The actor of a stage could not be started, or failed too often.
    Down { child: String, reason: String },
    /// The pool is up, empty.
    PoolUp,
}
