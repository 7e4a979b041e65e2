//! Cancelling a run before its command ends.

use ostler_server::wire::RunRef;
use serde_json::Value;

use crate::cli::exit::Failure;
use crate::cli::output::live::NoView;
use crate::cli::output::terminal::Out;
use crate::cli::session::Session;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::follow::{Display, FollowMode, follow_until};

/// Cancels a run, unless it is over, and waits until its attempts have ended: a data folder that is let go of earlier keeps the
/// run open until the next command holds it. Dropping the future leaves the run cancelled.
pub(crate) async fn cancel_run(session: &mut Session, run: &str, out: &mut Out) -> Result<(), Failure> {
    let path = format!("/v1/runs/{}/cancel", path_segment(run));
    match session.post::<RunRef>(&path, &Value::Null).await.map_err(Failure::from) {
        Ok(_) => {}
        // The run ended first.
        Err(refused) if session.summary(run).await?.status.is_over() => drop(refused),
        Err(refused) => return Err(refused),
    }
    let (mut nothing, mut after) = (NoView, 0);
    let mut display = Display { view: &mut nothing, prompt: None, output: None, text: None, out };
    follow_until(session, run, &mut after, "settled", FollowMode::Execute, &mut display)
        .await
        .map_err(Failure::from)
}
