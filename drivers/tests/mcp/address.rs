//! Servers at an HTTP address: correct, with too large an answer, with a redirect, or with a token.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ostler_kernel::run::FailureCategory;
use serde_json::{Value, json};

use crate::wire::{Request, document, respond};
use crate::world::World;

/// Longer than every operation of these tests, and shorter than every time-out.
const SOON: Duration = Duration::from_secs(20);

/// Bytes of an answer that is too large.
const FLOOD: usize = 100 << 20;

#[derive(Clone, Copy)]
enum Kind {
    Well,
    /// Answers a call with a JSON document of [`FLOOD`] bytes.
    Floods,
    /// Answers a call with an event of [`FLOOD`] bytes.
    FloodsEvents,
    /// Answers every request with a redirect.
    Redirects(SocketAddr),
}

/// Starts a server that ends with the test process.
fn serve(kind: Kind) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream, kind)));
        }
    });
    address
}

fn answer(stream: TcpStream, kind: Kind) -> std::io::Result<()> {
    let Some(Request { head, body, .. }) = Request::read(&stream)? else { return Ok(()) };
    if let Kind::Redirects(elsewhere) = kind {
        let there = format!("Location: http://{elsewhere}/mcp\r\n");
        return respond(&stream, "307 Temporary Redirect", &there, "");
    }
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return respond(&stream, "405 Method Not Allowed", "", "");
    };
    let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
    let result = match method {
        _ if id.is_null() => return respond(&stream, "202 Accepted", "", ""),
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "address", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}),
        "tools/call" => match kind {
            Kind::Floods => return flood(stream, "application/json", "{\"a\": \""),
            Kind::FloodsEvents => return flood(stream, "text/event-stream", "data: "),
            Kind::Well | Kind::Redirects(_) => json!({"content": [{"type": "text", "text": head}]}),
        },
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return document(&stream, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    document(&stream, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn flood(mut stream: TcpStream, kind: &str, begin: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{begin}");
    stream.write_all(head.as_bytes())?;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..FLOOD >> 20 {
        stream.write_all(&piece)?;
    }
    Ok(())
}

fn table(address: SocketAddr) -> String {
    format!("url = \"http://{address}/mcp\"\nimpact = 1\n")
}

#[tokio::test]
async fn a_server_at_an_address_gets_the_token_that_its_table_names() {
    // Cargo sets this variable for every test.
    let more = format!("{}token_env = \"CARGO_PKG_NAME\"", table(serve(Kind::Well)));
    let world = World::at(&more).await;
    let heard = world.call("say", json!({})).await.unwrap();
    assert!(heard["text"].as_str().unwrap().contains("authorization: bearer ostler-drivers"), "{heard}");
    let missing = World::of_address(&format!("{}token_env = \"NO_SUCH_VARIABLE\"", table(serve(Kind::Well))));
    let why = missing.server.look().await.unwrap_err();
    assert_eq!(why, "the environment variable NO_SUCH_VARIABLE is not set");
}

#[tokio::test]
async fn an_answer_of_100_mb_over_http_is_lost_at_its_limit() {
    for kind in [Kind::Floods, Kind::FloodsEvents] {
        let (world, since) = (World::at(&table(serve(kind))).await, Instant::now());
        let failure = world.failure("say", json!({})).await;
        assert_eq!(failure.category, FailureCategory::Crash, "it may have acted: {}", failure.message);
        assert!(since.elapsed() < SOON);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let (send, reached) = mpsc::channel();
    let address = elsewhere.local_addr().unwrap();
    std::thread::spawn(move || elsewhere.accept().map(|_| send.send(())));
    let world = World::of_address(&table(serve(Kind::Redirects(address))));
    let why = world.server.look().await.unwrap_err();
    assert!(why.contains("307"), "{why}");
    assert!(reached.try_recv().is_err(), "somebody came");
}
