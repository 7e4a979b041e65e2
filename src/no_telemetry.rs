//! In place of traces, in a program that was built without the feature `otel`.

use std::convert::Infallible;
use std::sync::Arc;

use ostler_actors::SharedRecorder;
use ostler_kernel::port::Journal;

use crate::config::Traces;

/// No traces.
pub(crate) struct Telemetry(Infallible);

impl Telemetry {
    /// Says why nothing is traced.
    pub(crate) async fn start(
        _: Traces,
        _: Arc<dyn Journal>,
        _: Option<&SharedRecorder>,
    ) -> Result<(Arc<dyn Journal>, Telemetry), String> {
        Err("this program was built without the feature otel; build it with the feature, or remove [telemetry]".to_owned())
    }

    pub(crate) async fn stop(self) {
        match self.0 {}
    }
}
