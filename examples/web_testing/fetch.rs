//! A minimal HTTP client for the loopback interface.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::rt::TokioIo;
use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use tokio::net::TcpStream;

use super::case_studies::Error;

/// Maximum bytes of a response.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tested site.
#[derive(Clone)]
pub(crate) struct Site(SocketAddr);

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) took: Duration,
}

impl Site {
    pub(crate) fn at(address: SocketAddr) -> Site {
        Site(address)
    }

    /// Requests a path.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        let failed = |what: String| Failure::new(FailureCategory::Transient, format!("{path}: {what}"));
        let arguments = tokio::time::timeout(PATIENCE, self.ask(path)).await;
        let arguments = arguments.map_err(|_| failed(format!("no answer within {PATIENCE:?}")))?;
        arguments.map_err(|error| failed(error.to_string()))
    }

    async fn ask(&self, path: &str) -> Result<Answer, Error> {
        let begun = Instant::now();
        let stream = TcpStream::connect(self.0).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Body>(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path).header("host", self.0.to_string()).body(Body::empty())?;
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body?.to_bytes();
        connection.abort();
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status, text, took: begun.elapsed() })
    }
}

impl Answer {
    /// Title of the page.
    pub(crate) fn title(&self) -> String {
        title(&self.text)
    }
}

/// Title of a page with this text.
pub(crate) fn title(text: &str) -> String {
    between(text, "<title>", "</title>").next().unwrap_or_default().to_owned()
}

/// Links of a page with this text to its own site.
pub(crate) fn links(text: &str) -> Vec<String> {
    between(text, "href=\"", "\"").filter(|link| link.starts_with('/')).map(str::to_owned).collect()
}

fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split_once(after).map(|(found, _)| found))
}
