//! The local socket: other processes of the same user ask there.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::{Router, middleware};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::peer::{Children, Peer, refuse_from_within};

/// Name of the socket in the data folder.
const NAME: &str = "control.sock";

/// Bytes of a socket's path, on every system that has them.
const PATH_BYTES_MAX: usize = 100;

/// How long answers under way may take at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A path to the socket of a data folder that is short enough to be used, and what keeps it good.
pub fn socket_path(data: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let path = data.join(NAME);
    if path.as_os_str().len() <= PATH_BYTES_MAX || !cfg!(target_os = "linux") {
        return Ok((path, None));
    }
    let folder = File::open(data)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
    Ok((path, Some(folder)))
}

/// A socket that answers. Dropping it leaves it answering; see [`ControlSocket::close`].
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    stop: CancellationToken,
    served: JoinHandle<io::Result<()>>,
    _folder: Option<File>,
}

impl ControlSocket {
    /// Answers at `data/control.sock`, which only this user may open. What a process that died left there is
    /// replaced: only who holds the data folder may call this. `children`: what this process starts.
    ///
    /// # Errors
    ///
    /// The file system said no.
    pub fn bind(data: &Path, router: Router, children: Children) -> io::Result<ControlSocket> {
        let (path, folder) = socket_path(data)?;
        // Nobody may connect before the mode is set, so it gets its name last.
        let temporary = path.with_file_name(format!("control.{}", std::process::id()));
        remove(&temporary)?;
        let listener = UnixListener::bind(&temporary)?;
        fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
        fs::rename(&temporary, &path)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let router = router.layer(middleware::from_fn_with_state(children, refuse_from_within));
        let service = router.into_make_service_with_connect_info::<Peer>();
        let served =
            tokio::spawn(async move { axum::serve(listener, service).with_graceful_shutdown(stopped).await });
        Ok(ControlSocket { path, stop, served, _folder: folder })
    }

    /// Takes the socket away: nobody new gets in, requests under way go on. Call [`ControlSocket::finish`] then.
    pub fn close(&self) -> io::Result<()> {
        remove(&self.path)?;
        self.stop.cancel();
        Ok(())
    }

    /// Waits until the last request is answered, but no longer than two seconds.
    pub async fn finish(self) {
        let mut served = self.served;
        if tokio::time::timeout(LAST_ANSWERS, &mut served).await.is_err() {
            served.abort();
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
