//! The control socket, for other processes of the same user.

use std::convert::Infallible;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use axum::{Router, middleware};
use hyper::body::Incoming;
use hyper::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::peer::{ChildPrograms, Peer, refuse_from_within};
use crate::places::{Owner, Place, Places, holding};
use crate::problem::Problem;
use crate::unread::UnlessUnread;

const NAME: &str = "control.sock";

/// Code of a refusal during a shutdown; the request was not started.
pub const SHUTTING_DOWN: &str = "leaving";

/// Longest socket path in bytes on every supported system.
const PATH_BYTES_MAX: usize = 100;

/// Concurrent connections. For a further one, a connection of a process with more than its share is closed, an idle one first.
pub const CONNECTIONS_MAX: usize = 256;

/// Concurrent connections that follow a stream, among [`CONNECTIONS_MAX`]; shared as those are.
pub const STREAMS_MAX: usize = 128;

/// Connections for programs of steps; further ones are closed. The others are for operators.
pub const STEP_CONNECTIONS_MAX: usize = 16;

/// Time for a connection to send its first request.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for running requests at the end, before the system shuts down beside them.
const LAST_REQUESTS: Duration = Duration::from_millis(250);

/// Time for connected clients to send a request at the end.
const LAST_WORD: Duration = Duration::from_millis(100);

const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A path to the socket that is short enough for `connect`, and the file that keeps it valid.
pub fn socket_path(data: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let path = data.join(NAME);
    if path.as_os_str().len() <= PATH_BYTES_MAX || !cfg!(target_os = "linux") {
        return Ok((path, None));
    }
    let folder = File::open(data)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
    Ok((path, Some(folder)))
}

/// A serving socket. Dropping it leaves it serving; see [`ControlSocket::close`].
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    /// Device and inode of the socket file; another holder may have replaced it.
    identity: (u64, u64),
    leaving: CancellationToken,
    stop: CancellationToken,
    under_way: TaskTracker,
    served: JoinHandle<()>,
    _folder: Option<File>,
}

impl ControlSocket {
    /// Serves at `data/control.sock`, which only the user may open. Replaces the socket of a dead process, so only the
    /// holder of the data folder may call this. `children`: programs that the process starts.
    ///
    /// # Errors
    ///
    /// The file system refused.
    pub fn bind(data: &Path, router: Router, children: ChildPrograms) -> io::Result<ControlSocket> {
        let (path, folder) = socket_path(data)?;
        // Renamed last, so that no client connects before the mode is set.
        let temporary = path.with_file_name(format!("control.{}", std::process::id()));
        remove(&temporary)?;
        let listener = UnixListener::bind(&temporary)?;
        fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
        let identity = identity(&temporary)?;
        fs::rename(&temporary, &path)?;
        let (leaving, stop) = (CancellationToken::new(), CancellationToken::new());
        let router = router.layer(middleware::from_fn_with_state(children, refuse_from_within));
        let steps = Arc::new(Semaphore::new(STEP_CONNECTIONS_MAX));
        let under_way = TaskTracker::new();
        let answers = Answers {
            router,
            children,
            steps,
            leaving: leaving.clone(),
            stop: stop.clone(),
            under_way: under_way.clone(),
            places: Places::new(CONNECTIONS_MAX),
            streams: Places::new(STREAMS_MAX),
        };
        let served = tokio::spawn(answers.serve(listener));
        Ok(ControlSocket { path, identity, leaving, stop, under_way, served, _folder: folder })
    }

    /// Answers only reads and cancellations of runs from now on; other requests are refused untouched with
    /// [`SHUTTING_DOWN`]. For the time in which the system waits for acting attempts; [`ControlSocket::close`] follows.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// Removes the socket: running requests continue, new ones are refused untouched with [`SHUTTING_DOWN`].
    /// [`ControlSocket::finish`] follows. The socket of another holder, which replaced this one, stays.
    ///
    /// # Errors
    ///
    /// The file system refused. The socket serves on.
    pub fn close(&self) -> io::Result<()> {
        if self.is_in_place() {
            remove(&self.path)?;
        }
        self.stop.cancel();
        Ok(())
    }

    /// True if the path still names this socket, and not that of another holder or nothing.
    pub fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }

    /// Waits, within a limit, until earlier requests are handled. Requests that wait for a run are answered by the end
    /// of the system, and followers are not waited for.
    pub async fn answered(&self) {
        self.under_way.close();
        let _ = tokio::time::timeout(LAST_REQUESTS, self.under_way.wait()).await;
    }

    /// Waits until the last request is answered, for two seconds at most.
    pub async fn finish(self) {
        let mut served = self.served;
        if tokio::time::timeout(LAST_ANSWERS, &mut served).await.is_err() {
            served.abort();
        }
    }
}

#[derive(Clone)]
struct Answers {
    router: Router,
    children: ChildPrograms,
    steps: Arc<Semaphore>,
    leaving: CancellationToken,
    stop: CancellationToken,
    under_way: TaskTracker,
    places: Arc<Places>,
    streams: Arc<Places>,
}

async fn next(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to the control socket could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Answers {
    /// Serves until it is stopped, and then until running requests are answered. Dropping the future closes every
    /// connection.
    async fn serve(self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        while let Some(stream) = self.stop.run_until_cancelled(next(&listener)).await {
            connections.spawn(self.clone().keep(stream));
            while connections.try_join_next().is_some() {}
        }
        // Clients that connected at the last moment learn that nothing was done.
        if let Ok(listener) = listener.into_std() {
            while let Ok((stream, _)) = listener.accept() {
                let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
                if let Ok(stream) = stream {
                    connections.spawn(self.clone().keep(stream));
                }
            }
        }
        while connections.join_next().await.is_some() {}
    }

    /// Answers a connection until it ends, or its place is given up.
    fn keep(self, stream: UnixStream) -> impl Future<Output = ()> + Send {
        let owner = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let given_up = CancellationToken::new();
        // Taken here, and not when the task first runs: connections take places in the order in which they come.
        let place = self.places.take(owner, given_up.clone());
        async move {
            let answered = self.answer(stream, owner, place, given_up.clone());
            given_up.run_until_cancelled(answered).await;
        }
    }

    async fn answer(self, stream: UnixStream, owner: Owner, place: Place, given_up: CancellationToken) {
        let Answers { router, children, steps, leaving: leaves, stop, under_way, streams, .. } = self;
        let peer = Peer::of(&stream);
        let step = peer.may_be_a_step(children).then(|| steps.try_acquire());
        if let Some(Err(_)) = step {
            tracing::warn!(
                "steps have {STEP_CONNECTIONS_MAX} connections to the control socket: one more is closed"
            );
            return;
        }
        let (left, asked) = (stop.clone(), Arc::new(AtomicBool::new(false)));
        let has_asked = Arc::clone(&asked);
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            has_asked.store(true, Ordering::SeqCst);
            let mut refused = left.is_cancelled();
            if leaves.is_cancelled() {
                request.extensions_mut().insert(ShuttingDown);
                refused |= !starts_nothing(&request);
            }
            let (router, token) = (router.clone(), under_way.token());
            let stream = follows(&request).then(|| streams.take(owner, given_up.clone()));
            // Both places are held until the body of the answer has ended.
            let held = (place.request(), stream);
            async move {
                let _token = token;
                if refused {
                    return Ok(leaving().into_response());
                }
                let response = router.oneshot(request).await?;
                Ok::<_, Infallible>(response.map(|body| holding(body, held)))
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT);
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(UnlessUnread::new(stream)), service));
        // Connection errors concern only the client.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = stop.cancelled() => {}
        }
        // A client that is about to send its request gets a refusal instead of a closed connection.
        if !asked.load(Ordering::SeqCst) && tokio::time::timeout(LAST_WORD, connection.as_mut()).await.is_ok()
        {
            return;
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// Marks a request to a process that is shutting down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShuttingDown;

/// True if a request only reads or cancels a run, and so is answered during the shutdown.
fn starts_nothing(request: &Request<Body>) -> bool {
    let parts: Vec<&str> = request.uri().path().split('/').collect();
    request.method() == Method::GET
        || (request.method() == Method::POST && matches!(parts[..], ["", "v1", "runs", _, "cancel"]))
}

/// True if a request follows the events of a run or of a pipeline, or what programs and models write.
fn follows(request: &Request<Body>) -> bool {
    let is_followed = |end: &&str| request.uri().path().ends_with(end);
    request.method() == Method::GET && ["/events", "/output", "/text"].iter().any(is_followed)
}

/// The refusal during a shutdown; closes the connection.
fn leaving() -> impl IntoResponse {
    let what = "the process that held the data folder is leaving it, and has done nothing of this: ask again";
    ([(CONNECTION, "close")], Problem::new(StatusCode::SERVICE_UNAVAILABLE, SHUTTING_DOWN, what))
}

/// Device and inode of a file, links not followed.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use axum::routing::get;
    use rustix::process::geteuid;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::peer::ROOT;
    use crate::unread::UNREAD_MAX;

    fn bind(data: &Path) -> ControlSocket {
        let router = Router::new().route("/", get(async || "hello").post(async || "done"));
        ControlSocket::bind(data, router, ChildPrograms::Any).expect("a socket")
    }

    /// The answer to a request of the user's program, 0 being root.
    async fn asked_by(user: u32, method: &str, data: &Path) -> String {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-i", "-X", method, "--unix-socket"])
            .arg(data.join(NAME))
            .arg("http://ostler/")
            .uid(user);
        let output = tokio::task::spawn_blocking(move || curl.output()).await;
        String::from_utf8_lossy(&output.expect("it ends").expect("curl starts").stdout).into_owned()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn another_user_may_not_ask_whatever_the_mode_of_the_socket() {
        let own = geteuid().as_raw();
        let data = tempfile::tempdir().expect("a folder");
        let socket = bind(data.path());
        for path in [data.path().to_owned(), data.path().join(NAME)] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).expect("its mode is set");
        }
        for method in ["GET", "POST"] {
            let answer = asked_by(own, method, data.path()).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{method}: {answer}");
        }
        if own == ROOT {
            for method in ["GET", "POST"] {
                let answer = asked_by(65_534, method, data.path()).await;
                assert!(answer.starts_with("HTTP/1.1 403"), "{method}: {answer}");
                assert!(answer.contains("asked_by_another_user"), "{method}: {answer}");
            }
        } else {
            println!("not root: nobody else can be made to ask");
        }
        socket.close().expect("it is removed");
        socket.finish().await;
    }

    #[tokio::test]
    async fn the_socket_of_a_holder_that_replaced_this_one_stays() {
        let data = tempfile::tempdir().expect("a folder");
        let (first, second) = (bind(data.path()), bind(data.path()));
        assert!(!first.is_in_place() && second.is_in_place());
        first.close().expect("nothing is to be removed");
        first.finish().await;
        let mut stream = UnixStream::connect(data.path().join(NAME)).await.expect("it serves");
        assert!(ask(&mut stream).await.ends_with("hello"));
        second.close().expect("it is removed");
        assert!(!data.path().join(NAME).exists());
        second.finish().await;
    }

    async fn ask(stream: &mut UnixStream) -> String {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: ostler\r\nConnection: close\r\n\r\n")
            .await
            .expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it is answered");
        answer
    }

    #[tokio::test]
    async fn connections_that_ask_nothing_end() {
        tokio::time::pause();
        let data = tempfile::tempdir().expect("a folder");
        let socket = bind(data.path());
        let begun = tokio::time::Instant::now();
        let mut idle = UnixStream::connect(data.path().join(NAME)).await.expect("there is room");
        assert_eq!(idle.read(&mut [0; 8]).await.unwrap_or(0), 0, "it has ended");
        assert!(begun.elapsed() >= HEAD_WAIT, "{:?}", begun.elapsed());
        socket.close().expect("it is removed");
        socket.finish().await;
    }

    fn bind_with_events(data: &Path) -> ControlSocket {
        let endless = || futures::stream::repeat_with(|| Ok::<_, Infallible>(vec![b'x'; 1 << 16]));
        let events = get(async move || Body::from_stream(endless()));
        let router = Router::new().route("/", get(async || "hello")).route("/events", events);
        ControlSocket::bind(data, router, ChildPrograms::Any).expect("a socket")
    }

    async fn unread(path: &Path) -> UnixStream {
        let mut stream = UnixStream::connect(path).await.expect("there is room");
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: ostler\r\n\r\n").await.expect("it is sent");
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.expect("it is answered");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        stream
    }

    #[tokio::test]
    async fn hundreds_of_streams_that_nobody_reads_keep_nobody_out() {
        let data = tempfile::tempdir().expect("a folder");
        let (socket, path) = (bind_with_events(data.path()), data.path().join(NAME));
        let mut streams = Vec::new();
        for _ in 0..STREAMS_MAX + 50 {
            streams.push(unread(&path).await);
        }
        let mut other = UnixStream::connect(&path).await.expect("there is room");
        assert!(ask(&mut other).await.ends_with("hello"));
        for mut oldest in streams.drain(..50) {
            let mut rest = Vec::new();
            oldest.read_to_end(&mut rest).await.expect("it was closed for a newer one");
        }
        let idle = CONNECTIONS_MAX - STREAMS_MAX + 10;
        let mut waiting = Vec::new();
        for _ in 0..idle {
            waiting.push(UnixStream::connect(&path).await.expect("there is room"));
        }
        let mut other = UnixStream::connect(&path).await.expect("there is room");
        assert!(ask(&mut other).await.ends_with("hello"));
        drop((streams, waiting));
        socket.close().expect("it is removed");
        socket.finish().await;
    }

    #[tokio::test]
    async fn a_stream_that_nobody_reads_is_closed() {
        tokio::time::pause();
        let data = tempfile::tempdir().expect("a folder");
        let (socket, path) = (bind_with_events(data.path()), data.path().join(NAME));
        let mut stream = unread(&path).await;
        tokio::time::sleep(UNREAD_MAX + Duration::from_secs(1)).await;
        // What was sent before is still there; the end follows.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.len() < 1 << 22, "{} bytes: the stream went on", rest.len());
        socket.close().expect("it is removed");
        socket.finish().await;
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread")]
    async fn steps_cannot_take_the_places_of_who_looks_after_them() {
        let data = tempfile::tempdir().expect("a folder");
        let asked = Arc::new(Semaphore::new(0));
        let waits = {
            let asked = asked.clone();
            get(async move || {
                asked.add_permits(1);
                std::future::pending::<&str>().await
            })
        };
        let router = Router::new().route("/", get(async || "hello")).route("/wait", waits);
        let socket = ControlSocket::bind(data.path(), router, ChildPrograms::Steps).expect("a socket");
        let path = data.path().join(NAME);
        let curl = |page: &str| {
            let mut curl = tokio::process::Command::new("curl");
            curl.args(["-s", "--unix-socket"]).arg(&path).arg(format!("http://ostler{page}"));
            curl.stdout(std::process::Stdio::piped()).kill_on_drop(true);
            curl
        };
        let mut steps = Vec::new();
        for _ in 0..STEP_CONNECTIONS_MAX {
            steps.push(curl("/wait").spawn().expect("curl starts"));
            asked.acquire().await.expect("it is open").forget();
        }
        let further = curl("/").output().await.expect("curl starts");
        assert_eq!(String::from_utf8_lossy(&further.stdout), "", "there is no place for it");
        assert!(!further.status.success());
        // This process is no step.
        let mut outside = UnixStream::connect(&path).await.expect("there is room");
        assert!(ask(&mut outside).await.ends_with("hello"));
        for mut step in steps {
            step.kill().await.expect("it ends");
        }
        socket.close().expect("it is removed");
        socket.finish().await;
    }
}
