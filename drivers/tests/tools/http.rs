//! `http.request` against a real server on the loopback interface.

use crate::world::World;
use expect_test::{Expect, expect};
use ostler_drivers::tool::{HTTP_BODY_BYTES_MAX, HTTP_REQUEST_BYTES_MAX};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;

/// Answers every connection with the same response and records the requests.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) asked: mpsc::UnboundedReceiver<String>,
}

impl Server {
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, asked) = mpsc::unbounded_channel();
        let answer = answer.into();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !is_whole(&request) && stream.read_buf(&mut request).await.unwrap_or(0) > 0 {}
                let _ = tell.send(String::from_utf8_lossy(&request).into_owned());
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Server { port, asked }
    }

    pub(crate) async fn ok(body: &str) -> Server {
        Server::answering(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await
    }

    /// A world that may reach the server by address and as `localhost`.
    pub(crate) fn world(&self) -> World {
        let port = self.port;
        World::with(&format!(
            "[http]\negress_allow = [\"127.0.0.1:{port}\", \"localhost:{port}\"]\n\
             [http.hosts.\"127.0.0.1:{port}\"]\nidempotency = true\n"
        ))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    async fn shown(&self, mut params: Value) -> String {
        params["url"] = self.url(params["url"].as_str().unwrap_or("/")).into();
        self.world().shown("http.request", params).await.replace(&self.port.to_string(), "PORT")
    }
}

fn is_whole(request: &[u8]) -> bool {
    const TLS_HANDSHAKE: u8 = 22;
    if request.first() == Some(&TLS_HANDSHAKE) {
        return true; // answered by an invalid handshake
    }
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
}

async fn check(answer: &str, params: Value, expected: Expect) {
    expected.assert_eq(&Server::answering(answer).await.shown(params).await);
}

#[tokio::test]
async fn an_answer_is_a_result() {
    let json = "HTTP/1.1 201 Created\r\ncontent-type: application/json; charset=utf-8\r\nx-a: 1\r\nX-A: 2\r\n\r\n{\"a\": [1]}";
    check(json, json!({"method": "GET"}), expect![[r#"{"body":{"a":[1]},"headers":{"content-type":"application/json; charset=utf-8","x-a":"1, 2"},"status":201}"#]]).await;
    check(
        "HTTP/1.1 404 Not Found\r\n\r\nno",
        json!({"method": "GET"}),
        expect![[r#"{"body":"no","headers":{},"status":404}"#]],
    )
    .await;
    check(
        "HTTP/1.1 500 Oops\r\n\r\n",
        json!({"method": "POST"}),
        expect![[r#"{"body":"","headers":{},"status":500}"#]],
    )
    .await;
    let broken = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":";
    check(
        broken,
        json!({"method": "GET"}),
        expect![[r#"{"body":"{\"a\":","headers":{"content-type":"application/json"},"status":200}"#]],
    )
    .await;
}

#[tokio::test]
async fn answers_that_ask_for_patience_are_failures_by_what_may_have_been_done() {
    for (status, get, post) in [
        ("429 Slow", "rate_limit", "rate_limit"),
        ("502 Bad", "transient", "crash"),
        ("503 Busy", "transient", "transient"),
        ("504 Late", "transient", "crash"),
    ] {
        for (method, category) in [("GET", get), ("PUT", get), ("POST", post), ("PATCH", post)] {
            let server = Server::answering(format!("HTTP/1.1 {status}\r\n\r\n")).await;
            let shown = server.shown(json!({"method": method})).await;
            assert!(shown.starts_with(category), "{method} {status}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_request_says_what_it_was_told_to() {
    let mut server = Server::ok("").await;
    let asked = json!({
        "method": "POST", "url": server.url("/a?b=c"), "headers": {"X-Mine": "yes"}, "body": {"k": "v"},
    });
    server.world().call("http.request", asked).await.unwrap();
    let request = server.asked.recv().await.unwrap().replace(&server.port.to_string(), "PORT");
    expect![[r#"
        POST /a?b=c HTTP/1.1
        x-mine: yes
        idempotency-key: 0101010101010101010101010101010101010101010101010101010101010101
        content-type: application/json
        accept: */*
        user-agent: ostler/0.1.0
        host: 127.0.0.1:PORT
        content-length: 9

        {"k":"v"}"#]]
    .assert_eq(&request.replace('\r', ""));
    server.world().call("http.request", json!({"method": "GET", "url": server.url("/")})).await.unwrap();
    let request = server.asked.recv().await.unwrap();
    assert!(!request.contains("idempotency-key"), "{request}");
    let text = json!({"method": "PUT", "url": server.url("/"), "body": "as it is"});
    server.world().call("http.request", text).await.unwrap();
    assert!(server.asked.recv().await.unwrap().ends_with("\r\n\r\nas it is"));
}

#[tokio::test]
async fn headers_and_bodies_that_cannot_be_sent_are_refused() {
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Idempotency-Key",
        "connection",
        "X-HTTP-Method-Override",
        "a b",
        "",
    ] {
        let mut server = Server::ok("").await;
        let shown = server.shown(json!({"method": "GET", "headers": {name: "1"}})).await;
        assert!(shown.starts_with("structural"), "{name}: {shown}");
        assert!(server.asked.try_recv().is_err(), "{name} was sent");
    }
    let shown = Server::ok("").await.shown(json!({"method": "GET", "headers": {"x": "a\r\nb: c"}})).await;
    expect!["structural: header x contains an invalid character"].assert_eq(&shown);
    let long = "x".repeat(HTTP_REQUEST_BYTES_MAX + 1);
    let shown = Server::ok("").await.shown(json!({"method": "POST", "body": long})).await;
    expect!["resource_exhaustion: the body has more than 5242880 bytes"].assert_eq(&shown);
    let shown = Server::ok("").await.shown(json!({"method": "GET", "body": "x"})).await;
    expect!["structural: GET and HEAD have no body"].assert_eq(&shown);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let mut target = Server::ok("secret").await;
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\n\r\n", target.url("/"));
    let server = Server::answering(answer).await;
    let shown = server.shown(json!({"method": "GET"})).await;
    assert!(shown.contains("\"status\":302"), "{shown}");
    assert!(target.asked.try_recv().is_err(), "it was followed");
}

#[tokio::test]
async fn a_lost_answer_is_a_crash_and_no_connection_is_transient() {
    check(
        "",
        json!({"method": "POST"}),
        expect![
            "crash: lost the answer of http://127.0.0.1:PORT: connection closed before message completed"
        ],
    )
    .await;
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        json!({"method": "GET"}),
        expect!["crash: lost the answer of http://127.0.0.1:PORT: end of file before message length reached"],
    )
    .await;
    // Bound but not listening, so that no other server takes the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = socket.local_addr().unwrap().port();
    let world = World::with(&format!("[http]\negress_allow = [\"127.0.0.1:{closed}\"]"));
    let params = json!({"method": "POST", "url": format!("http://127.0.0.1:{closed}/")});
    let shown = world.shown("http.request", params).await.replace(&closed.to_string(), "PORT");
    expect!["transient: cannot connect to http://127.0.0.1:PORT: Connection refused (os error 111)"]
        .assert_eq(&shown);
}

#[tokio::test]
async fn a_body_up_to_the_limit_is_read_and_no_more() {
    let whole = Server::ok(&"x".repeat(HTTP_BODY_BYTES_MAX)).await;
    let value =
        whole.world().call("http.request", json!({"method": "GET", "url": whole.url("/")})).await.unwrap();
    assert_eq!(value["body"].as_str().unwrap().len(), HTTP_BODY_BYTES_MAX);
    let more = Server::ok(&"x".repeat(HTTP_BODY_BYTES_MAX + 1)).await;
    expect!["resource_exhaustion: the answer of http://127.0.0.1:PORT has more than 5242880 bytes"]
        .assert_eq(&more.shown(json!({"method": "GET"})).await);
}

#[tokio::test]
async fn only_what_is_listed_is_reached() {
    let mut server = Server::ok("hi").await;
    let port = server.port;
    let named = json!({"method": "GET", "url": format!("http://localhost:{port}/")});
    assert_eq!(server.world().call("http.request", named.clone()).await.unwrap()["body"], "hi");
    server.asked.recv().await.unwrap();
    for config in ["", "[http]\negress_allow = [\"example.com:443\"]"] {
        for url in [server.url("/"), format!("http://localhost:{port}/"), format!("http://[::1]:{port}/")] {
            let shown = World::with(config).shown("http.request", json!({"method": "GET", "url": url})).await;
            assert!(shown.starts_with("gate_denied") || shown.starts_with("structural"), "{url}: {shown}");
        }
    }
    assert!(server.asked.try_recv().is_err(), "it was reached");
}

#[tokio::test]
async fn without_a_trusted_certificate_there_is_no_connection() {
    let server = Server::ok("hi").await;
    let url = server.url("/").replace("http:", "https:");
    let shown = server.world().shown("http.request", json!({"method": "GET", "url": url})).await;
    let no_certificates = "structural: cannot set up TLS: unexpected error: No CA certificates";
    assert!(shown.starts_with("transient: cannot connect") || shown.starts_with(no_certificates), "{shown}");
}

#[tokio::test]
async fn an_answer_that_was_not_modified_is_the_recorded_one() {
    let mut server = Server::answering("HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n").await;
    let recorded = json!({"status": 200, "headers": {"etag": "\"v1\""}, "body": "then"});
    let (world, url) = (server.world(), server.url("/"));
    let get = json!({"method": "GET", "url": url});
    assert_eq!(world.call_with("http.request", get, &recorded).await.unwrap(), recorded);
    assert!(server.asked.recv().await.unwrap().contains("if-none-match: \"v1\""));
    // A condition of the plan's own, and a request that changes something, are sent as they are.
    let own = json!({"method": "GET", "url": url, "headers": {"if-match": "\"v0\""}});
    let put = json!({"method": "PUT", "url": url, "body": "now"});
    for params in [own, put] {
        assert_eq!(world.call_with("http.request", params, &recorded).await.unwrap()["status"], 304);
        assert!(!server.asked.recv().await.unwrap().contains("if-none-match"));
    }
}
