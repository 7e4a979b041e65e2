//! `http.fetch` against real servers on the loopback interface.

use expect_test::{Expect, expect};
use ostler_drivers::tool::{FETCH_BYTES_MAX, FETCH_REDIRECTS_MAX, HTTP_BODY_BYTES_MAX};
use serde_json::json;

use crate::http::Server;
use crate::world::World;

fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn check(answer: &str, expected: Expect) {
    let server = Server::answering(answer).await;
    expected.assert_eq(&shown(&server.world(), &server, "/").await);
}

async fn shown(world: &World, server: &Server, path: &str) -> String {
    let shown = world.shown("http.fetch", json!({"url": server.url(path)})).await;
    shown.replace(&server.port.to_string(), "PORT")
}

/// A world whose egress list has these servers.
fn world_of(servers: &[&Server]) -> World {
    let list: Vec<String> = servers.iter().map(|server| format!("\"127.0.0.1:{}\"", server.port)).collect();
    World::with(&format!("[http]\negress_allow = [{}]", list.join(", ")))
}

fn redirect(status: &str, to: &str) -> String {
    format!("HTTP/1.1 {status}\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

#[tokio::test]
async fn a_page_becomes_its_text() {
    let html = "<title>T</title><nav>n</nav><h1>Head</h1><p>One <a href=/x>link</a><script>s</script>";
    check(&answer("200 OK\r\ncontent-type: text/html", html), expect![[r##"{"links":[{"text":"link","url":"http://127.0.0.1:PORT/x"}],"status":200,"text":"# Head\n\nOne link (http://127.0.0.1:PORT/x)","title":"T","truncated":false,"url":"http://127.0.0.1:PORT/"}"##]]).await;
    check(&answer("404 Not Found\r\ncontent-type: text/plain", "<p>no"), expect![[r#"{"links":[],"status":404,"text":"<p>no","title":"","truncated":false,"url":"http://127.0.0.1:PORT/"}"#]]).await;
    check(&answer("200 OK\r\ncontent-type: application/json", "{\"a\": 1}"), expect![[r#"{"links":[],"status":200,"text":"{\"a\": 1}","title":"","truncated":false,"url":"http://127.0.0.1:PORT/"}"#]]).await;
    check(&answer("204 None", ""), expect![[r#"{"links":[],"status":204,"text":"","title":"","truncated":false,"url":"http://127.0.0.1:PORT/"}"#]]).await;
}

#[tokio::test]
async fn what_is_no_page_of_text_is_a_failure() {
    check(&answer("200 OK\r\ncontent-type: image/png", "x"), expect!["structural: http://127.0.0.1:PORT answers with image/png, which is no text: give http.fetch the URL of a page of HTML or text"]).await;
    check(&answer("200 OK", "a\0"), expect!["structural: http://127.0.0.1:PORT answers with bytes that are no UTF-8 text: give http.fetch the URL of a page of HTML or text"]).await;
    check(
        &answer("200 OK\r\ncontent-encoding: gzip", "x"),
        expect!["structural: http://127.0.0.1:PORT compresses its answer (gzip) unasked: give http.fetch another URL"],
    )
    .await;
    check(
        &answer("429 Slow", ""),
        expect!["rate_limit: http://127.0.0.1:PORT answers 429 Too Many Requests"],
    )
    .await;
    check(
        &answer("503 Busy", ""),
        expect!["transient: http://127.0.0.1:PORT answers 503 Service Unavailable"],
    )
    .await;
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        expect!["crash: lost the answer of http://127.0.0.1:PORT: end of file before message length reached"],
    )
    .await;
}

#[tokio::test]
async fn redirects_are_followed_to_listed_hosts_only() {
    for status in ["301 Moved", "302 Found", "303 Other", "307 Again", "308 Moved"] {
        let target = Server::ok("there").await;
        let server = Server::answering(redirect(status, &target.url("/x?y"))).await;
        let world = world_of(&[&server, &target]);
        let page = world.call("http.fetch", json!({"url": server.url("/")})).await.unwrap();
        assert_eq!(
            (page["text"].as_str(), page["url"].as_str()),
            (Some("there"), Some(&*target.url("/x?y")))
        );
    }
    let mut target = Server::ok("secret").await;
    let server = Server::answering(redirect("302 Found", &target.url("/"))).await;
    let told = shown(&world_of(&[&server]), &server, "/").await.replace(&target.port.to_string(), "OTHER");
    expect![[r#"structural: http://127.0.0.1:PORT redirects elsewhere: 127.0.0.1:OTHER is not on the egress list; if this is intended, list "127.0.0.1:OTHER" in egress_allow of [tools.http] of the configuration"#]].assert_eq(&told);
    assert!(target.asked.try_recv().is_err(), "it was reached");
}

#[tokio::test]
async fn a_redirect_into_a_private_network_or_to_another_scheme_is_refused() {
    for to in [
        "http://169.254.169.254/",
        "http://[::1]/",
        "file:///etc/passwd",
        "http://u:p@127.0.0.1/",
        "http://[",
    ] {
        let server = Server::answering(redirect("302 Found", to)).await;
        let world = World::with(&format!("[http]\negress_allow = [\"*:80\", \"127.0.0.1:{}\"]", server.port));
        let told = world.shown("http.fetch", json!({"url": server.url("/")})).await;
        assert!(
            told.starts_with("structural: http://127.0.0.1:") && told.contains(" redirects "),
            "{to}: {told}"
        );
    }
}

#[tokio::test]
async fn redirects_end_at_the_limit() {
    let mut server = Server::answering(redirect("302 Found", "/again")).await;
    expect!["structural: more than 5 redirects, at last to http://127.0.0.1:PORT: give http.fetch the URL of the page itself"].assert_eq(&shown(&server.world(), &server, "/").await);
    let mut asked = 0;
    while server.asked.try_recv().is_ok() {
        asked += 1;
    }
    assert_eq!(asked, FETCH_REDIRECTS_MAX + 1);
    check(
        &redirect("302 Found", &format!("/{}", "x".repeat(8_192))),
        expect!["structural: http://127.0.0.1:PORT redirects to a URL of more than 8192 bytes"],
    )
    .await;
    check("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", expect![[r#"{"links":[],"status":302,"text":"","title":"","truncated":false,"url":"http://127.0.0.1:PORT/"}"#]]).await;
}

#[tokio::test]
async fn a_text_is_cut_at_its_limit() {
    let server = Server::answering(answer("200 OK\r\ncontent-type: text/plain", "aüb")).await;
    for (bytes, text, truncated) in [(4, "aüb", false), (3, "aü", true), (2, "a", true)] {
        let params = json!({"url": server.url("/"), "max_bytes": bytes});
        let page = server.world().call("http.fetch", params).await.unwrap();
        assert_eq!((page["text"].as_str(), page["truncated"].as_bool()), (Some(text), Some(truncated)));
    }
    let too_many = json!({"url": server.url("/"), "max_bytes": FETCH_BYTES_MAX + 1});
    let told = server.world().shown("http.fetch", too_many).await;
    assert!(told.starts_with("gate_denied: PARAM_SCHEMA"), "{told}");
}

#[tokio::test]
async fn a_page_is_read_up_to_the_limit_of_a_body() {
    for (bytes, truncated) in [(HTTP_BODY_BYTES_MAX, false), (HTTP_BODY_BYTES_MAX + 1, true)] {
        let html = format!("a{}", " ".repeat(bytes - 1));
        let server = Server::answering(answer("200 OK\r\ncontent-type: text/html", &html)).await;
        let page = server.world().call("http.fetch", json!({"url": server.url("/")})).await.unwrap();
        assert_eq!((page["text"].as_str(), page["truncated"].as_bool()), (Some("a"), Some(truncated)));
    }
}

#[tokio::test]
async fn only_what_is_listed_is_read() {
    let server = Server::ok("hi").await;
    let told = shown(&World::new(), &server, "/").await;
    assert!(told.starts_with("gate_denied: EGRESS_FORBIDDEN"), "{told}");
}

/// The recorded page is given back if the server says that it was not modified, and only its own validator is sent.
#[tokio::test]
async fn a_page_that_was_not_modified_is_the_recorded_one() {
    let mut server = Server::answering("HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n").await;
    let recorded = json!({
        "url": server.url("/"), "status": 200, "title": "", "text": "then", "links": [], "truncated": false, "etag": "\"v1\"",
    });
    let world = server.world();
    let again = world.call_with("http.fetch", json!({"url": server.url("/")}), &recorded).await.unwrap();
    assert_eq!(again, recorded);
    assert!(server.asked.recv().await.unwrap().contains("if-none-match: \"v1\""));

    let other = world.call_with("http.fetch", json!({"url": server.url("/other")}), &recorded).await.unwrap();
    assert_eq!(other["status"], 304);
    assert!(!server.asked.recv().await.unwrap().contains("if-none-match"));

    let changed =
        Server::answering(answer("200 OK\r\ncontent-type: text/plain\r\netag: \"v2\"", "now")).await;
    let page = changed.world().call("http.fetch", json!({"url": changed.url("/")})).await.unwrap();
    assert_eq!((&page["text"], &page["etag"]), (&json!("now"), &json!("\"v2\"")));
}
