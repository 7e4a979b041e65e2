//! Serving over TCP, with a limit on connections that no client uses up for the others.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::places::Places;
use crate::unread::UnlessUnread;

/// Time for a connection to send the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP/1.1 to at most `most` connections. A further one always gets a place: the oldest of the address with the most
/// connections is closed for it. A connection is closed, too, if it takes more than ten seconds to send the head of a request, or
/// does not read its answer. Ends after `stop`, once running requests have ended; dropping the future closes all connections.
pub async fn serve_tcp(listener: TcpListener, router: Router, most: usize, stop: CancellationToken) {
    let places = Places::new(most);
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                connections.spawn(keep(stream, peer.ip(), Arc::clone(&places), router.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Answers a connection until it ends, or its place is given up.
fn keep(
    stream: TcpStream,
    peer: IpAddr,
    places: Arc<Places<IpAddr>>,
    router: Router,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let given_up = CancellationToken::new();
    // Taken here, and not when the task first runs: connections take places in the order in which they come.
    let place = places.take(peer, given_up.clone());
    async move {
        let _place = place;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let router = router.clone();
            async move { router.oneshot(request.map(Body::new)).await.map_err(|never: Infallible| never) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT);
        let connection = builder.serve_connection(TokioIo::new(UnlessUnread::new(stream)), service);
        let mut connection = std::pin::pin!(connection);
        // Connection errors concern only the client.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = given_up.cancelled() => return,
            () = stop.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = given_up.run_until_cancelled(connection).await;
    }
}
