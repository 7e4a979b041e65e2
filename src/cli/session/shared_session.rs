//! A session for requests that go on side by side.

use tokio::sync::Mutex;

use crate::cli::session::api_client::{ApiError, Client};
use crate::cli::session::{RECONNECTS_MAX, Session};

/// A session that is locked only while its client is copied or connects again: no request waits for another.
pub(crate) struct SharedSession(Mutex<Session>);

impl SharedSession {
    pub(crate) fn of(session: Session) -> SharedSession {
        SharedSession(Mutex::new(session))
    }

    /// See [`Session::with_retry`].
    pub(crate) async fn with_retry<T>(
        &self,
        idempotent: bool,
        ask: impl AsyncFn(&Client) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        for _ in 0..RECONNECTS_MAX {
            match ask(&self.client().await).await {
                Err(error) if error.may_be_repeated(idempotent) => {}
                answer => return answer,
            }
            self.0.lock().await.reconnect_again().await?;
        }
        ask(&self.client().await).await
    }

    async fn client(&self) -> Client {
        self.0.lock().await.client.clone()
    }

    /// See [`Session::stop`].
    pub(crate) async fn stop(self) {
        self.0.into_inner().stop().await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use axum::Router;

    use super::*;
    use crate::cli::arguments::Globals;
    use crate::cli::session::AccessMode;

    #[tokio::test]
    async fn a_request_does_not_wait_for_the_answer_of_another() {
        let client = Client::InProcess(Router::new());
        let globals = Globals { data: None, config: None, json: false, extra_model: None };
        let (workspace, mode) = (".".into(), AccessMode::Create);
        let session = SharedSession::of(Session { client, held: None, data: None, globals, workspace, mode });
        let mut unanswered =
            pin!(session.with_retry(true, async |_| std::future::pending::<Result<(), ApiError>>().await));
        assert!(futures::poll!(&mut unanswered).is_pending());
        let mut answered = pin!(session.with_retry(true, async |_| Ok(7)));
        assert!(matches!(futures::poll!(&mut answered), Poll::Ready(Ok(7))));
    }
}
