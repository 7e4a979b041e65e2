//! `web.search`: asks a configured search server.

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::config::SearchUrl;
use super::html::one_line;
use super::http_client::{HTTP_BODY_BYTES_MAX, HttpClient, body, get, place};
use super::tool_spec::{READ, exhausted, object, parse, spec, structural};

/// Default of `max`.
pub const WEB_SEARCH_DEFAULT: usize = 10;
/// Maximum of `max`.
pub const WEB_SEARCH_MAX: usize = 50;
/// Maximum characters of a query.
pub const WEB_SEARCH_QUERY_CHARS_MAX: usize = 512;
/// Maximum bytes of a title.
const TITLE_BYTES_MAX: usize = 300;
/// Maximum bytes of a snippet.
const SNIPPET_BYTES_MAX: usize = 1_000;
/// Maximum bytes of an address; a result with a longer one is left out.
const URL_BYTES_MAX: usize = 2_048;

/// Asks a server in the form of SearXNG: `GET URL?q=QUERY&format=json`. Titles and snippets are cut and on one line.
///
/// The operator names the server, so a plan chooses the query and never the destination. The server's host is open to this
/// tool alone: the egress list, by which the gate judges URLs, does not have it. Redirects are not followed.
#[derive(Debug)]
pub(super) struct WebSearch {
    spec: ToolSpec,
    client: HttpClient,
    server: Url,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    query: String,
    max: Option<usize>,
}

/// What a server answers, of which any part may be absent.
#[derive(Debug, Deserialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Debug, Deserialize)]
struct Found {
    title: Option<String>,
    url: Option<String>,
    content: Option<String>,
}

impl WebSearch {
    pub(super) fn new(server: &SearchUrl) -> WebSearch {
        let text = json!({"type": "string"});
        let result =
            object(&["title", "url", "snippet"], json!({"title": text, "url": text, "snippet": text}));
        let spec = spec(
            "web.search",
            "Search the web with the server of [tools.search]; without one, the tool is absent. Gives the first results: read a page with http.fetch.",
            object(
                &["query"],
                json!({
                    "query": {"type": "string", "minLength": 1, "maxLength": WEB_SEARCH_QUERY_CHARS_MAX},
                    "max": {"type": "integer", "minimum": 1, "maximum": WEB_SEARCH_MAX},
                }),
            ),
            object(
                &["results", "truncated"],
                json!({
                    "results": {"type": "array", "items": result},
                    "truncated": {"type": "boolean"},
                }),
            ),
        );
        WebSearch { spec, client: HttpClient::new(server.egress.clone()), server: server.url.clone() }
    }

    async fn search(&self, params: Params) -> ToolResult {
        let max = params.max.unwrap_or(WEB_SEARCH_DEFAULT);
        let mut url = self.server.clone();
        url.query_pairs_mut().append_pair("q", &params.query).append_pair("format", "json");
        let (client, url) = self.client.open(url.as_str()).await?;
        let mut response = get(&client, &url, "application/json", None).await?;
        let place = place(&url);
        refuse_status(&place, response.status())?;
        let (bytes, is_longer) = body(&url, &mut response).await?;
        if is_longer {
            return Err(exhausted(format!(
                "the answer of {place} has more than {HTTP_BODY_BYTES_MAX} bytes: search for something narrower"
            )));
        }
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|_| {
            structural(format!(
                "{place} does not answer in the JSON of SearXNG: correct url in [tools.search] of the configuration"
            ))
        })?;
        let results: Vec<Value> = answer.results.into_iter().filter_map(Found::shown).take(max + 1).collect();
        let truncated = results.len() > max;
        Ok(json!({"results": results.into_iter().take(max).collect::<Vec<_>>(), "truncated": truncated}))
    }
}

fn refuse_status(place: &str, status: StatusCode) -> Result<(), Failure> {
    let advice = match status {
        StatusCode::OK => return Ok(()),
        StatusCode::FORBIDDEN => "add json to search.formats in the settings of the SearXNG server",
        status if status.is_redirection() => {
            "set url in [tools.search] of the configuration to where the server redirects"
        }
        _ => "correct url in [tools.search] of the configuration",
    };
    Err(structural(format!("{place} answers {status}: {advice}")))
}

impl Found {
    /// The result; `None` without an address over http or https.
    fn shown(self) -> Option<Value> {
        let url = self.url.filter(|url| url.len() <= URL_BYTES_MAX)?;
        let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let line = |text: Option<String>, bytes_max| one_line(text.as_deref().unwrap_or_default(), bytes_max);
        Some(json!({
            "title": line(self.title, TITLE_BYTES_MAX),
            "url": url.as_str(),
            "snippet": line(self.content, SNIPPET_BYTES_MAX),
        }))
    }
}

impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn reads_strangers(&self) -> bool {
        true
    }

    fn sends_out(&self) -> bool {
        true
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        READ
    }

    fn call(&self, permit: Permit, _context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move { self.search(parse(permit.into_params())?).await })
    }
}
