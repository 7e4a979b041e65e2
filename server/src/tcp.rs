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
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::places::{Places, UnderWay, holding};
use crate::unread::UnlessUnread;

/// Time for a connection to send the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP/1.1 to at most `most` connections. A further one always gets a place: another is closed for it, of an address with
/// more than its share, and one without a request under way before others. A connection is closed, too, if it takes more than ten seconds to send the head of a request, or
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

/// The answer to a request, which is under way until its body has ended.
async fn answered(
    router: Router,
    request: Request<Incoming>,
    under_way: UnderWay<IpAddr>,
) -> Result<Response<Body>, Infallible> {
    let response = router.oneshot(request.map(Body::new)).await?;
    Ok(response.map(|body| holding(body, under_way)))
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
        let service = service_fn(move |request: Request<Incoming>| {
            let (router, under_way) = (router.clone(), place.request());
            async move { answered(router, request, under_way).await }
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn idle_connections_of_an_address_end_no_call_of_it() {
        let (asked, answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let call = {
            let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
            get(async move || {
                asked.add_permits(1);
                answer.acquire().await.expect("it is open").forget();
                "called"
            })
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("an address");
        let address = listener.local_addr().expect("its address");
        let (most, stop) = (4, CancellationToken::new());
        let served = tokio::spawn(serve_tcp(listener, Router::new().route("/", call), most, stop.clone()));
        let mut caller = TcpStream::connect(address).await.expect("there is room");
        let request = b"GET / HTTP/1.1\r\nHost: ostler\r\nConnection: close\r\n\r\n";
        caller.write_all(request).await.expect("it is sent");
        asked.acquire().await.expect("it is open").forget();
        let mut idle = Vec::new();
        for _ in 0..2 * most {
            idle.push(TcpStream::connect(address).await.expect("there is room"));
        }
        for mut closed in idle.drain(..=most) {
            assert_eq!(closed.read(&mut [0]).await.unwrap_or(0), 0, "closed for a newer one");
        }
        answer.add_permits(1);
        let mut answered = String::new();
        caller.read_to_string(&mut answered).await.expect("it is answered");
        assert!(answered.ends_with("called"), "{answered:?}");
        stop.cancel();
        drop(idle);
        served.await.expect("it ends");
    }
}
