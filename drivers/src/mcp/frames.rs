//! A connection over pipes, for tests that invent the frames of a server.

use std::sync::Arc;

use ostler_kernel::port::NoLog;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Map;
use tokio::io::{AsyncRead, AsyncWrite};

use super::bounded::{Bounded, BoundedLines, Breach};
use super::caller::{Caller, Host};
use super::connection::{self, Listing};
use super::given_up::GivenUp;
use super::question::Asking;
use super::refusal::NotConnected;
use super::result;

/// Shakes hands over pipes, lists the tools and calls the first tool. Returns the list, and true if the call had a result; `None`
/// without a tool.
///
/// # Errors
///
/// The handshake or the list failed.
#[doc(hidden)]
pub async fn talk<R, W>(read: R, write: W) -> Result<(Listing, Option<bool>), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let breach = Breach::default();
    let lines = BoundedLines::new(read, breach.clone());
    let transport = AsyncRwTransport::new(lines, write).with_max_line_length(usize::MAX);
    let transport = Bounded::new(transport, breach, GivenUp::default());
    let opened = Host::default().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await;
    let running = opened.map_err(|error| error.to_string())?;
    let listed = connection::list(running.peer()).await;
    let listing = listed.map_err(|error| match error {
        NotConnected::Other(why) => why,
        NotConnected::Refused(refusal) => format!("{refusal:?}"),
    })?;
    let Some(tool) = listing.tools.first() else { return Ok((listing, None)) };
    let asking = Asking::new(&tool.name, Arc::new(NoLog), 1, None);
    let caller = Caller::new(running.peer().clone(), running.service().clone(), GivenUp::default());
    let answered = match caller.call(&tool.name, Map::new(), asking).await {
        Ok(answer) => result::value("frames", answer, |_| None).is_ok(),
        Err(_) => false,
    };
    Ok((listing, Some(answered)))
}
