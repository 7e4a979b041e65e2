//! `web.search` against a real server on the loopback interface.

use expect_test::{Expect, expect};
use ostler_drivers::tool::{
    HTTP_BODY_BYTES_MAX, WEB_SEARCH_DEFAULT, WEB_SEARCH_MAX, WEB_SEARCH_QUERY_CHARS_MAX,
};
use serde_json::{Value, json};

use crate::http::Server;
use crate::world::World;

fn world(server: &Server, path: &str) -> World {
    World::with(&format!("search.url = \"{}\"", server.url(path)))
}

async fn check(answer: &str, params: Value, expected: Expect) {
    let server = Server::answering(answer).await;
    let shown = world(&server, "/search").shown("web.search", params).await;
    expected.assert_eq(&shown.replace(&server.port.to_string(), "PORT"));
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn found(count: usize) -> String {
    let result = |at: usize| json!({"title": "t", "url": format!("https://a.example/{at}"), "content": "c"});
    ok(&json!({"results": (0..count).map(result).collect::<Vec<_>>()}).to_string())
}

#[tokio::test]
async fn results_are_titles_addresses_and_snippets() {
    let body = json!({"query": "x", "number_of_results": 9, "results": [
        {"title": "First\n one", "url": "https://a.example/1", "content": "a\u{200b} \t b", "engine": "e"},
        {"title": null, "url": "http://b.example"},
        {"title": "no address"},
        {"title": "elsewhere", "url": "file:///etc/passwd"},
        {"title": "too long", "url": format!("https://a.example/{}", "x".repeat(2_048))},
    ]});
    check(&ok(&body.to_string()), json!({"query": "x"}), expect![[r#"{"results":[{"snippet":"a b","title":"First one","url":"https://a.example/1"},{"snippet":"","title":"","url":"http://b.example/"}],"truncated":false}"#]]).await;
    check(&ok("{\"results\": []}"), json!({"query": "x"}), expect![[r#"{"results":[],"truncated":false}"#]])
        .await;
    let long = json!({"results": [{"title": "t".repeat(400), "url": "https://a.example/", "content": "c".repeat(2_000)}]});
    let server = Server::answering(ok(&long.to_string())).await;
    let result =
        world(&server, "/").call("web.search", json!({"query": "x"})).await.unwrap()["results"][0].clone();
    let bytes = |key: &str| result[key].as_str().unwrap().len();
    assert_eq!((bytes("title"), bytes("snippet")), (300, 1_000));
}

#[tokio::test]
async fn the_query_is_part_of_the_configured_address() {
    let mut server = Server::answering(found(0)).await;
    let world = world(&server, "/search?language=en");
    world.call("web.search", json!({"query": "a&b=c d#ü"})).await.unwrap();
    let asked = server.asked.recv().await.unwrap();
    expect!["GET /search?language=en&q=a%26b%3Dc+d%23%C3%BC&format=json HTTP/1.1"]
        .assert_eq(asked.lines().next().unwrap());
}

#[tokio::test]
async fn there_are_as_many_results_as_asked_for() {
    for (found_count, max, expected, truncated) in [
        (WEB_SEARCH_DEFAULT + 1, None, WEB_SEARCH_DEFAULT, true),
        (WEB_SEARCH_DEFAULT, None, WEB_SEARCH_DEFAULT, false),
        (3, Some(2), 2, true),
        (WEB_SEARCH_MAX + 1, Some(WEB_SEARCH_MAX), WEB_SEARCH_MAX, true),
    ] {
        let server = Server::answering(found(found_count)).await;
        let mut params = json!({"query": "x"});
        if let Some(max) = max {
            params["max"] = max.into();
        }
        let shown = world(&server, "/").call("web.search", params).await.unwrap();
        let count = shown["results"].as_array().unwrap().len();
        assert_eq!((count, shown["truncated"].as_bool()), (expected, Some(truncated)));
    }
    for params in [
        json!({"query": "x", "max": WEB_SEARCH_MAX + 1}),
        json!({"query": "x".repeat(WEB_SEARCH_QUERY_CHARS_MAX + 1)}),
        json!({"query": ""}),
    ] {
        let server = Server::answering(found(1)).await;
        let told = world(&server, "/").shown("web.search", params).await;
        assert!(told.starts_with("gate_denied: PARAM_SCHEMA"), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_fit_is_told_with_its_remedy() {
    let query = || json!({"query": "x"});
    check("HTTP/1.1 403 Forbidden\r\n\r\n", query(), expect!["structural: http://127.0.0.1:PORT answers 403 Forbidden: add json to search.formats in the settings of the SearXNG server"]).await;
    check("HTTP/1.1 404 Not Found\r\n\r\n", query(), expect!["structural: http://127.0.0.1:PORT answers 404 Not Found: correct url in [tools.search] of the configuration"]).await;
    check("HTTP/1.1 302 Found\r\nlocation: http://a.example/\r\n\r\n", query(), expect!["structural: http://127.0.0.1:PORT answers 302 Found: set url in [tools.search] of the configuration to where the server redirects"]).await;
    check(
        "HTTP/1.1 429 Slow\r\n\r\n",
        query(),
        expect!["rate_limit: http://127.0.0.1:PORT answers 429 Too Many Requests"],
    )
    .await;
    check(&ok("<html>"), query(), expect!["structural: http://127.0.0.1:PORT does not answer in the JSON of SearXNG: correct url in [tools.search] of the configuration"]).await;
    check(&ok("{}"), query(), expect!["structural: http://127.0.0.1:PORT does not answer in the JSON of SearXNG: correct url in [tools.search] of the configuration"]).await;
    check(&ok(&" ".repeat(HTTP_BODY_BYTES_MAX + 1)), query(), expect!["resource_exhaustion: the answer of http://127.0.0.1:PORT has more than 5242880 bytes: search for something narrower"]).await;
}

#[tokio::test]
async fn the_server_is_open_to_this_tool_alone() {
    let mut server = Server::answering(found(1)).await;
    let world = world(&server, "/search");
    world.call("web.search", json!({"query": "x"})).await.unwrap();
    server.asked.recv().await.unwrap();
    for (tool, params) in [
        ("http.fetch", json!({"url": server.url("/")})),
        ("http.request", json!({"method": "GET", "url": server.url("/")})),
    ] {
        let told = world.shown(tool, params).await;
        assert!(told.starts_with("gate_denied: EGRESS_FORBIDDEN"), "{told}");
    }
    assert!(server.asked.try_recv().is_err(), "it was reached");
}
