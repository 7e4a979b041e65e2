//! Limits of what a server sends. A server that breaks one loses its connection.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, ReadBuf};

use super::connection::MCP_MESSAGE_BYTES_MAX;
use super::given_up::GivenUp;

/// Most requests of a server whose answers the server has not taken. Questions to a person count until they are answered.
pub const MCP_REQUESTS_MAX: usize = 64;

/// Longest id of a request of a server, in bytes: the answer repeats the id.
pub const MCP_REQUEST_ID_BYTES_MAX: usize = 256;

/// The limit that a server broke, as a sentence about the server; unset while there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct Breach(Arc<OnceLock<String>>);

impl Breach {
    fn set(&self, what: String) {
        let _ = self.0.set(what);
    }

    pub(super) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// A transport that ends when the server has more than [`MCP_REQUESTS_MAX`] requests open: each of them keeps a task and an answer in
/// memory, and a server that does not read would have any number of them.
pub(super) struct Bounded<T> {
    inner: T,
    open: Arc<AtomicUsize>,
    breach: Breach,
    given_up: GivenUp,
}

impl<T> Bounded<T> {
    pub(super) fn new(inner: T, breach: Breach, given_up: GivenUp) -> Bounded<T> {
        Bounded { inner, open: Arc::default(), breach, given_up }
    }

    fn check(&self, message: &RxJsonRpcMessage<RoleClient>) -> Result<(), String> {
        let JsonRpcMessage::Request(request) = message else { return Ok(()) };
        if matches!(&request.id, RequestId::String(id) if id.len() > MCP_REQUEST_ID_BYTES_MAX) {
            return Err(format!(
                "it sent a request with an id of more than {MCP_REQUEST_ID_BYTES_MAX} bytes"
            ));
        }
        if self.open.fetch_add(1, Ordering::Relaxed) >= MCP_REQUESTS_MAX {
            return Err(format!(
                "it sent more than {MCP_REQUESTS_MAX} requests and did not take the answers"
            ));
        }
        Ok(())
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sent, open) = (self.inner.send(item), Arc::clone(&self.open));
        async move {
            let sent = sent.await;
            if is_answer {
                open.fetch_sub(1, Ordering::Relaxed);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        self.given_up.note(&message);
        match self.check(&message) {
            Ok(()) => Some(message),
            Err(what) => {
                self.breach.set(what);
                None
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

/// A reader that fails at a line of more than [`MCP_MESSAGE_BYTES_MAX`] bytes, so that no call waits for the answer in vain.
pub(super) struct BoundedLines<R> {
    inner: R,
    length: usize,
    breach: Breach,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(inner: R, breach: Breach) -> BoundedLines<R> {
        BoundedLines { inner, length: 0, breach }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.length = match memchr::memrchr(b'\n', read) {
            Some(at) => read.len() - at - 1,
            None => self.length + read.len(),
        };
        if self.length > MCP_MESSAGE_BYTES_MAX {
            self.breach.set(format!("it sent a message of more than {MCP_MESSAGE_BYTES_MAX} bytes"));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long")));
        }
        Poll::Ready(Ok(()))
    }
}
