//! `http.fetch`: reads a page as text.

use encoding_rs::{Encoding, UTF_8};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, EgressFault, Permit, REMEDY};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, LOCATION};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking_tool::off_runtime;
use super::config::HttpConfig;
use super::html::{self, Page, boundary, one_line};
use super::http_client::{ETAG_BYTES_MAX, HttpClient, body, get, place};
use super::tool_spec::{READ, object, parse, spec, structural};

/// Default of `max_bytes`.
pub const FETCH_BYTES_DEFAULT: usize = 256 << 10;
/// Maximum of `max_bytes`.
pub const FETCH_BYTES_MAX: usize = 1 << 20;
/// Maximum redirects of a call.
pub const FETCH_REDIRECTS_MAX: usize = 5;
/// Maximum bytes of a URL.
const URL_BYTES_MAX: usize = 8_192;
/// Maximum bytes of a media type in a failure.
const MEDIA_BYTES_MAX: usize = 100;
/// Bytes in which a page names its encoding.
const SNIFFED_BYTES: usize = 1_024;

const ACCEPT: &str = "text/html, application/xhtml+xml, text/*;q=0.9, */*;q=0.5";

/// Reads one page. Follows redirects, each to a destination of the egress list and to a permitted address, as the first.
///
/// HTML becomes its readable text, other text stays as it is, and anything else is a failure. A page beyond
/// [`HTTP_BODY_BYTES_MAX`](super::HTTP_BODY_BYTES_MAX), or a text beyond `max_bytes`, is cut, and the result says so.
#[derive(Debug)]
pub(super) struct HttpFetch {
    spec: ToolSpec,
    client: HttpClient,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    url: String,
    max_bytes: Option<usize>,
}

impl HttpFetch {
    pub(super) fn new(config: &HttpConfig) -> HttpFetch {
        let text = json!({"type": "string"});
        let link = object(&["text", "url"], json!({"text": text, "url": text}));
        let spec = spec(
            "http.fetch",
            "Read a web page as text: HTML is reduced to its title, headings, paragraphs, lists and links. At most 5 redirects are followed, each to a host that may be reached. The page of a status such as 404 is a result too. `truncated` is true if the text is cut at max_bytes. `etag` is the validator of the page, if the server names one.",
            object(
                &["url"],
                json!({
                    "url": {"type": "string", "format": "uri", "minLength": 1, "maxLength": URL_BYTES_MAX},
                    "max_bytes": {"type": "integer", "minimum": 1, "maximum": FETCH_BYTES_MAX},
                }),
            ),
            object(
                &["url", "status", "title", "text", "links", "truncated"],
                json!({
                    "url": text,
                    "status": {"type": "integer"},
                    "title": text,
                    "text": text,
                    "links": {"type": "array", "items": link},
                    "truncated": {"type": "boolean"},
                    "etag": text,
                }),
            ),
        );
        HttpFetch { spec, client: HttpClient::new(config.egress_allow.clone()) }
    }

    /// Reads the page; a page that was not modified since it was `recorded` is the recorded one.
    async fn fetch(&self, params: Params, recorded: Option<&Value>) -> ToolResult {
        let bytes_max = params.max_bytes.unwrap_or(FETCH_BYTES_DEFAULT);
        let mut next = params.url;
        let text = |name: &str| recorded?.get(name)?.as_str();
        let was_found = recorded.is_some_and(|recorded| recorded["status"] == 200);
        let (page, etag) = (text("url"), text("etag").filter(|_| was_found));
        for _ in 0..=FETCH_REDIRECTS_MAX {
            let (client, url) = self.client.open(&next).await?;
            // The validator belongs to the page at the end of all redirects.
            let etag = etag.filter(|_| page == Some(url.as_str()));
            let response = get(&client, &url, ACCEPT, etag).await?;
            if let (Some(recorded), Some(_), StatusCode::NOT_MODIFIED) = (recorded, etag, response.status()) {
                return Ok(recorded.clone());
            }
            match self.redirect(&url, &response)? {
                Some(target) => next = target,
                None => return read(url, response, bytes_max).await,
            }
        }
        let what = "give http.fetch the URL of the page itself";
        Err(structural(format!(
            "more than {FETCH_REDIRECTS_MAX} redirects, at last to {}: {what}",
            shown(&next)
        )))
    }

    /// The destination of a redirect, if the response is one; the egress list must have its host.
    fn redirect(&self, url: &Url, response: &Response) -> Result<Option<String>, Failure> {
        let is_redirect = matches!(
            response.status(),
            StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
        );
        let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
            return Ok(None);
        };
        let from = place(url);
        let target = url
            .join(&String::from_utf8_lossy(location.as_bytes()))
            .map_err(|error| structural(format!("{from} redirects to no URL: {error}")))?;
        let target = String::from(target);
        if target.len() > URL_BYTES_MAX {
            return Err(structural(format!("{from} redirects to a URL of more than {URL_BYTES_MAX} bytes")));
        }
        match self.client.judge(&target) {
            Ok(_) => Ok(Some(target)),
            Err(fault) => Err(structural(format!("{from} redirects elsewhere: {fault}{}", remedy(&fault)))),
        }
    }
}

fn remedy(fault: &EgressFault) -> String {
    match fault {
        EgressFault::NotListed { host, port } | EgressFault::NotPublic { host, port } => {
            format!("{REMEDY}list \"{host}:{port}\" in egress_allow of [tools.http] of the configuration")
        }
        EgressFault::Ambiguous(_)
        | EgressFault::Scheme
        | EgressFault::OtherScheme { .. }
        | EgressFault::NotFound { .. } => String::new(),
    }
}

/// Scheme, host and port of a URL.
fn shown(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "another place".to_owned(), |url| place(&url))
}

impl Tool for HttpFetch {
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

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move { self.fetch(parse(permit.into_params())?, context.recorded.as_deref()).await })
    }
}

async fn read(url: Url, mut response: Response, bytes_max: usize) -> ToolResult {
    let status = response.status().as_u16();
    let place = place(&url);
    let content_type = header(response.headers(), CONTENT_TYPE);
    // The request accepts no compressed body; a server may send one all the same.
    let encoding = header(response.headers(), CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        let encoding = one_line(&encoding, MEDIA_BYTES_MAX);
        return Err(structural(format!(
            "{place} compresses its answer ({encoding}) unasked: give http.fetch another URL"
        )));
    }
    let etag = header(response.headers(), ETAG);
    let (bytes, is_longer) = body(&url, &mut response).await?;
    let base = url.clone();
    let page = off_runtime(move |_| {
        page(&base, &content_type, &bytes, bytes_max).ok_or_else(|| {
            let media = match one_line(media_type(&content_type), MEDIA_BYTES_MAX) {
                media if media.is_empty() => "bytes that are no UTF-8 text".to_owned(),
                media => format!("{media}, which is no text"),
            };
            structural(format!(
                "{place} answers with {media}: give http.fetch the URL of a page of HTML or text"
            ))
        })
    })
    .await?;
    let links: Vec<Value> =
        page.links.into_iter().map(|link| json!({"text": link.text, "url": link.url})).collect();
    let mut read = json!({
        "url": url.as_str(),
        "status": status,
        "title": page.title,
        "text": page.text,
        "links": links,
        "truncated": page.truncated || is_longer,
    });
    if !etag.is_empty() && etag.len() <= ETAG_BYTES_MAX {
        read["etag"] = etag.into();
    }
    Ok(read)
}

fn header(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The readable text of a body; `None` if the body is no text.
fn page(url: &Url, content_type: &str, bytes: &[u8], bytes_max: usize) -> Option<Page> {
    let media = media_type(content_type).to_ascii_lowercase();
    if !is_text(&media) {
        return None;
    }
    let begin = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let is_html = match media.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => begins_as_html(begin),
        _ => false,
    };
    let named = charset(content_type.as_bytes()).or_else(|| charset(begin).filter(|_| is_html));
    let (text, _, has_faults) = named.unwrap_or(UTF_8).decode(bytes);
    // Without a media type only the text itself shows that it is text.
    if text.contains('\0') || (media.is_empty() && has_faults) {
        return None;
    }
    if is_html {
        return Some(html::reduce(&text, url, bytes_max));
    }
    let cut = boundary(&text, bytes_max);
    let truncated = cut < text.len();
    Some(Page { title: String::new(), text: text[..cut].to_owned(), links: Vec::new(), truncated })
}

fn is_text(media: &str) -> bool {
    const TEXTS: [&str; 10] = [
        "application/json",
        "application/ld+json",
        "application/x-ndjson",
        "application/xml",
        "application/xhtml+xml",
        "application/javascript",
        "application/x-javascript",
        "application/yaml",
        "application/toml",
        "application/x-sh",
    ];
    let is_structured = media.ends_with("+json") || (media.ends_with("+xml") && !media.starts_with("image/"));
    media.is_empty() || media.starts_with("text/") || is_structured || TEXTS.contains(&media)
}

fn begins_as_html(bytes: &[u8]) -> bool {
    let begin = bytes.trim_ascii_start();
    let begins =
        |with: &str| begin.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with.as_bytes()));
    begins("<!doctype html") || begins("<html")
}

/// The encoding that follows `charset=`, in a header or at the begin of a page.
fn charset(bytes: &[u8]) -> Option<&'static Encoding> {
    const KEY: &[u8] = b"charset=";
    let lower = bytes.to_ascii_lowercase();
    let at = memchr::memmem::find(&lower, KEY)? + KEY.len();
    let label = lower[at..].trim_ascii_start();
    let label = label.strip_prefix(b"\"").or_else(|| label.strip_prefix(b"'")).unwrap_or(label);
    let is_end = |byte: &u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.'));
    let end = label.iter().position(is_end).unwrap_or(label.len());
    Encoding::for_label(&label[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: &str, bytes: &[u8], expected: Option<&str>) {
        let url = Url::parse("http://a.example/").unwrap();
        let text = page(&url, content_type, bytes, 100).map(|page| page.text);
        assert_eq!(text.as_deref(), expected, "{content_type}");
    }

    #[test]
    fn a_text_is_read_in_its_encoding() {
        check("text/plain", "ü".as_bytes(), Some("ü"));
        check("text/plain; charset=iso-8859-1", b"\xfc", Some("ü"));
        check("text/plain; charset=\"Shift_JIS\"", b"\x82\xa0", Some("あ"));
        check("text/plain; charset=unknown", "ü".as_bytes(), Some("ü"));
        check("text/plain", b"\xff\xfea\x00", Some("a"));
        check("text/html", b"<meta charset='latin1'>\xfc", Some("ü"));
        check("text/plain", b"<meta charset='latin1'>\xfc", Some("<meta charset='latin1'>\u{fffd}"));
        check("text/html; charset=utf-8", "<meta charset='latin1'>ü".as_bytes(), Some("ü"));
    }

    #[test]
    fn html_is_reduced_other_text_passes_and_bytes_are_refused() {
        check("TEXT/HTML;x", b"<p>a<p>b", Some("a\n\nb"));
        check("", b" <!DOCTYPE html><p>a", Some("a"));
        check("", b"<p>a", Some("<p>a"));
        check("application/json", b"{\"a\": 1}", Some("{\"a\": 1}"));
        check("application/atom+xml", b"<feed/>", Some("<feed/>"));
        for media in ["image/png", "image/svg+xml", "application/pdf", "application/octet-stream"] {
            check(media, b"a", None);
        }
        check("text/plain", b"a\0b", None);
        check("", b"\xff\x00", None);
        check("", b"a\xff", None);
    }
}
