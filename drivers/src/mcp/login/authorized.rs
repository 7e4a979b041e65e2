//! Requests to a server with the token of a login.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use oauth2::http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use super::Login;

type Refused = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client that adds the token of a login. A refused token is renewed once. The library's own client renews once for each call.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Authorized {
    client: reqwest::Client,
    login: Option<Arc<Login>>,
}

impl Authorized {
    /// Without a login, requests carry the token that the transport was given, if any.
    pub(in crate::mcp) fn new(client: reqwest::Client, login: Option<Arc<Login>>) -> Authorized {
        Authorized { client, login }
    }

    async fn with_token<T, F, Fut>(&self, given: Option<String>, send: F) -> Result<T, Refused>
    where
        F: Fn(Option<String>) -> Fut,
        Fut: Future<Output = Result<T, Refused>>,
    {
        let send = async |token: Option<String>| {
            let sent = send(token.clone()).await;
            sent.map_err(|error| unauthorized(error, token.as_deref()))
        };
        let Some(login) = self.login.as_ref().filter(|_| given.is_none()) else {
            return send(given).await;
        };
        let token = login.token().await?;
        match (send(token.clone()).await, token) {
            (Err(StreamableHttpError::AuthRequired(challenge)), Some(old)) => {
                match login.renewed(old).await {
                    Ok(token) => send(Some(token)).await,
                    Err(AuthError::AuthorizationRequired) => {
                        Err(StreamableHttpError::AuthRequired(challenge))
                    }
                    Err(error) => Err(error.into()),
                }
            }
            (answered, _) => answered,
        }
    }
}

/// A 401 without a challenge is one, too. The text of a server, which becomes a message, may show the request with its token.
fn unauthorized(error: Refused, token: Option<&str>) -> Refused {
    match error {
        StreamableHttpError::UnexpectedServerResponse(what) if what.starts_with("HTTP 401") => {
            StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()))
        }
        StreamableHttpError::UnexpectedServerResponse(what) => {
            let shown = match token.filter(|token| !token.is_empty()) {
                Some(token) => what.replace(token, "…").into(),
                None => what,
            };
            StreamableHttpError::UnexpectedServerResponse(shown)
        }
        error => error,
    }
}

impl StreamableHttpClient for Authorized {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Refused> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Refused> {
        let send = |token| {
            let (uri, session) = (Arc::clone(&uri), session.clone());
            let (message, headers) = (message.clone(), headers.clone());
            self.client.post_message_with_response_limits(uri, message, session, token, headers, limits)
        };
        self.with_token(token, send).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Refused> {
        let send = |token| {
            self.client.delete_session(Arc::clone(&uri), Arc::clone(&session), token, headers.clone())
        };
        self.with_token(token, send).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Refused> {
        let max = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<Events, Refused> {
        let send = |token| {
            let (uri, session) = (Arc::clone(&uri), session.clone());
            let (last_event, headers) = (last_event.clone(), headers.clone());
            self.client.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max)
        };
        self.with_token(token, send).await
    }
}
