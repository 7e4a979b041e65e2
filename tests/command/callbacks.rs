//! Addresses of waits: who knows one may answer, once.

use std::net::TcpStream;
use std::path::Path;

use super::web::{Web, post, request};
use super::world::{World, until};

const PAID: &str = r#"{"status": "paid"}"#;

/// A wait whose address an earlier node sends to a shop, and a wait that keeps the run open.
const ORDER: &str = r#"
id: order
nodes:
  - id: payment
    kind: wait
    deadline: 1h
    contract: [{method: schema, spec: {type: object, required: [status]}}]
  - {id: hold, kind: wait, deadline: 1h}
  - id: invoice
    tool: http.request
    params:
      method: POST
      url: http://SHOP/invoices
      body: {paid_at: "{{ payment.address }}", released_at: "{{ hold.address }}"}
"#;

fn shop() -> Web {
    Web::start(|received| (200, received.body.clone()))
}

fn world(shop: &Web, plan: &str) -> World {
    let world = World::new();
    let shop = shop.address.to_string();
    let config =
        format!("[service]\ncallback_listen = \"127.0.0.1:0\"\n[tools.http]\negress_allow = [\"{shop}\"]\n");
    world.file("ostler.toml", &config).file("order.yaml", &plan.replace("SHOP", &shop));
    world
}

const RUN: &str = "run order.yaml --workspace work --config ostler.toml";

fn address(shop: &Web, name: &str) -> String {
    let sent: serde_json::Value = serde_json::from_str(&shop.wait_for("POST /invoices").body).unwrap();
    sent[name].as_str().unwrap().to_owned()
}

fn token(address: &str) -> &str {
    address.rsplit_once('/').unwrap().1
}

/// True if a file below the folder contains the text.
fn is_stored(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().map(Result::unwrap).any(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => is_stored(&entry.path(), text),
        kind if kind.is_file() => {
            let bytes = std::fs::read(entry.path()).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        }
        _ => false,
    })
}

#[test]
fn an_address_answers_its_wait_once_and_tells_strangers_nothing() {
    let shop = shop();
    let world = world(&shop, ORDER);
    let holder = world.start(RUN);
    let (pay, hold) = (address(&shop, "paid_at"), address(&shop, "released_at"));
    let (base, secret) = pay.rsplit_once('/').unwrap();
    let stranger = post(&format!("{base}/{}", "0".repeat(64)), PAID);
    assert_eq!(stranger.0, 404, "{}", stranger.1);
    let other_run = pay.replacen("/callback/0", "/callback/1", 1);
    for url in [
        format!("{base}/{}", token(&hold)),
        other_run,
        pay.replace("/payment/", "/nobody/"),
        pay.replace("/payment/", "/invoice/"),
        format!("{base}/HIDDEN"),
        format!("{pay}/more"),
        base.to_owned(),
        pay.replace("/v1/callback/", "/v1/runs/"),
    ] {
        assert_eq!(post(&url, PAID), stranger, "{url}");
        assert_eq!(post(&url, "no JSON"), stranger, "{url}");
    }
    assert_eq!(request("GET", &pay, "", "", 0), stranger);
    assert_eq!(post(&pay, "no JSON").0, 400);
    let refused = post(&pay, r#"{"state": "paid"}"#);
    assert!(refused.0 == 422 && refused.1.contains("\"invalid\""), "{refused:?}");
    let id = "Idempotency-Key: first\r\n";
    assert_eq!(request("POST", &pay, id, PAID, PAID.len()), (200, r#"{"verdict":"accepted"}"#.to_owned()));
    assert_eq!(request("POST", &pay, id, PAID, PAID.len()), (200, r#"{"verdict":"duplicate"}"#.to_owned()));
    let late = post(&pay, PAID);
    assert!(late.0 == 410 && late.1.contains("\"late\""), "{late:?}");
    let shown =
        world.ostler("show @last --json").exits(0).out + &world.ostler("events @last --json").exits(0).out;
    assert_eq!(post(&hold, "true").0, 200);
    let ended = holder.end().exits(0);
    for text in [shown, ended.out, ended.err] {
        assert!(!text.contains(secret) && !text.contains(token(&hold)), "{text}");
    }
    // The shop's response repeats the address; its record does not.
    world.ostler("artifact @last/invoice --json").exits(0).says("/payment/HIDDEN");
    assert!(!is_stored(&world.data(), secret) && !is_stored(&world.data(), token(&hold)));
}

#[test]
fn a_question_in_a_run_below_ends_no_command_that_listens_for_values() {
    let shop = shop();
    let child = r#"
  - id: child
    tool: agent.ask
    params: {plan: {id: inner, nodes: [{id: q, kind: human_approval, params: {question: "may I?"}, human_timeout: 1h}]}}
"#;
    let world = world(&shop, &format!("{}{child}", ORDER.trim_end()));
    let holder = world.start(RUN);
    let (pay, hold) = (address(&shop, "paid_at"), address(&shop, "released_at"));
    until("the run below asks", || world.ostler("approvals").out.contains("may I?"));
    assert_eq!(post(&pay, PAID).0, 200);
    assert_eq!(post(&hold, "true").0, 200);
    holder.end().exits(3).says("q waits for a person in run");
}

#[test]
fn an_early_callback_survives_a_kill() {
    let shop = shop();
    let plan =
        ORDER.replace("    deadline: 1h\n    contract", "    deadline: 1h\n    deps: [hold]\n    contract");
    let world = world(&shop, &plan);
    let holder = world.start(RUN);
    let pay = address(&shop, "paid_at");
    assert_eq!(post(&pay, r#"{"state": "unknown"}"#), (202, r#"{"verdict":"kept"}"#.to_owned()));
    assert_eq!(post(&pay, PAID).0, 202);
    holder.signal("KILL");
    holder.end();
    let resumed = world.start("resume @last --config ostler.toml");
    super::world::until("the run is held", || world.ostler("ps").out.contains("waiting"));
    world.ostler("answer @last hold --value 1").exits(0);
    resumed.end().exits(0);
    world.ostler("artifact @last/payment --json").exits(0).says("paid");
}

#[test]
fn a_flood_of_callbacks_keeps_out_neither_an_operator_nor_a_sender() {
    let shop = shop();
    let world = world(&shop, ORDER);
    let holder = world.start(RUN);
    let (pay, hold) = (address(&shop, "paid_at"), address(&shop, "released_at"));
    let host = pay.strip_prefix("http://").unwrap().split_once('/').unwrap().0;
    let before = holder.rss_bytes();
    let idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(host).unwrap()).collect();
    let wrong = format!("{}/{}", pay.rsplit_once('/').unwrap().0, "0".repeat(64));
    for _ in 0..300 {
        assert_eq!(post(&wrong, PAID).0, 404);
    }
    let huge = request("POST", &pay, "", "[", 100 << 20);
    assert!(huge.0 == 413 && huge.1.contains("body_too_large"), "{huge:?}");
    assert!(holder.rss_bytes() < before + (64 << 20), "{before} bytes before");
    world.ostler("answer @last hold --value 1").exits(0);
    assert_eq!(post(&hold, "1").0, 410);
    assert_eq!(post(&pay, PAID).0, 200);
    holder.end().exits(0);
    drop(idle);
}

#[test]
fn an_address_is_refused_without_a_listener_and_where_it_would_be_recorded() {
    let world = World::new();
    world.file("order.yaml", ORDER).file("listen.toml", "[service]\ncallback_listen = \"127.0.0.1:0\"\n");
    let told = world.ostler("check order.yaml").exits(2).complains("V33");
    let told = told.complains("no listener takes callbacks, so payment has no address");
    told.complains("set callback_listen = \"127.0.0.1:8787\" under [service] in ostler.toml");
    world.ostler("run order.yaml --workspace work").exits(2).complains("V33");
    world.ostler("check order.yaml --config listen.toml").exits(0);
    let misspelt = ORDER.replace("hold.address", "hld.address");
    world.file("order.yaml", &misspelt);
    world.ostler("check order.yaml --config listen.toml").exits(2).complains("did you mean \"hold\"?");
    let program = "id: p\nnodes:\n  - {id: w, kind: wait, deadline: 1h}\n  - {id: tell, tool: shell.run, params: {argv: [echo, \"{{ w.address }}\"]}}\n";
    world.file("order.yaml", program);
    world
        .ostler("check order.yaml --config listen.toml")
        .exits(2)
        .complains("shown to others on this machine");
}

#[test]
fn the_example_has_its_payment_from_the_shop() {
    let shop = Web::start(|order| {
        let body: serde_json::Value = serde_json::from_str(&order.body).unwrap();
        let address = body["answer_to"].as_str().unwrap().to_owned();
        std::thread::spawn(move || {
            assert_eq!(post(&address, r#"{"status": "perhaps"}"#).0, 422);
            assert_eq!(post(&address, PAID).0, 200);
        });
        (201, order.body.clone())
    });
    let world = World::new();
    let [plan, config] = shop.example("payment");
    world.file("payment.yaml", &plan).file("payment.toml", &config);
    world.ostler("run payment.yaml --config payment.toml").exits(0);
    world.ostler("artifact @last/receipt --path text").exits(0).says("Order 17: paid");
}
