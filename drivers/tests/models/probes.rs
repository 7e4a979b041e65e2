//! Probes of servers with each kind of fault.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use ostler_drivers::model::{Probe, ProbeCheck, probe};

use crate::server::{Reply, Server, response, stream};
use crate::world::World;

async fn check(world: &World, expected: Expect) {
    let Probe { is_reachable, checks, nano_usd } = probe(world.models.get("default").unwrap()).await;
    let mut shown = format!("reachable {is_reachable}, nano-USD {nano_usd:?}\n");
    for check in checks {
        let has_piece = check.first_piece.is_some();
        let outcome = check.outcome.map_err(|failure| failure.to_string());
        writeln!(shown, "{}: {outcome:?}, first piece {has_piece}", check.name).unwrap();
    }
    expected.assert_eq(&shown);
}

fn scripted(script: &str) -> World {
    World::new("[models.default]\nprovider = \"scripted\"\nfile = \"s\"", &[("s", script)], "")
}

#[tokio::test]
async fn four_calls_show_what_works() {
    let script = r#"
roles:
  probe:
    - text: Hello.
    - text: one two three
    - answer: {sum: 5}
    - calls: [{tool: math.add, params: {a: 2, b: 3}}]
"#;
    check(
        &scripted(script),
        expect![[r#"
        reachable true, nano-USD Some(0)
        text: Ok("6 bytes"), first piece true
        stream: Ok("3 pieces"), first piece true
        schema: Ok("{\"sum\":5}"), first piece true
        tool: Ok("{\"a\":2,\"b\":3}"), first piece true
    "#]],
    )
    .await;
    let script = r#"
roles:
  probe:
    - {text: "", finish: length}
    - text: one
    - text: five
    - text: no call
"#;
    check(
        &scripted(script),
        expect![[r#"
        reachable true, nano-USD Some(0)
        text: Err("an empty text (finish length)"), first piece false
        stream: Err("the whole answer came in one piece"), first piece true
        schema: Err("no JSON: expected ident at line 1 column 2"), first piece true
        tool: Err("no call of the tool"), first piece true
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_probe_without_a_provider_ends_at_once() {
    let hello = r#"{"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}"#;
    for (reply, expected) in [
        (
            Reply::Bytes(Vec::new()),
            expect![[
                r#"reachable false; text: Err("connection: no response from http://127.0.0.1:PORT: connection closed before message completed")"#
            ]],
        ),
        (
            Reply::Bytes(response("401 No", "", "{\"error\":{\"message\":\"wrong key\"}}")),
            expect![[r#"reachable true; text: Err("auth (status 401): wrong key")"#]],
        ),
        (
            Reply::Bytes(response("503 Busy", "", "")),
            expect![[
                r#"reachable true; text: Err("overloaded (status 503)"); stream: Err("overloaded (status 503)"); schema: Err("overloaded (status 503)"); tool: Err("overloaded (status 503)")"#
            ]],
        ),
        (
            Reply::Bytes(stream(&[hello, "[DONE]"])),
            expect![[
                r#"reachable true; text: Ok("5 bytes"); stream: Err("the whole answer came in one piece"); schema: Err("no JSON: expected value at line 1 column 1"); tool: Err("no call of the tool")"#
            ]],
        ),
    ] {
        let server = Server::start(vec![reply]).await;
        let config = server.config("openai", "");
        let world = World::new(&config, &[], "a-key");
        let port = server.port.to_string();
        let Probe { is_reachable, checks, .. } = probe(world.models.get("default").unwrap()).await;
        let told = |check: &ProbeCheck| {
            format!("{}: {:?}", check.name, check.outcome.as_ref().map_err(ToString::to_string))
        };
        let shown: Vec<String> = checks.iter().map(told).collect();
        expected.assert_eq(&format!("reachable {is_reachable}; {}", shown.join("; ")).replace(&port, "PORT"));
    }
}
