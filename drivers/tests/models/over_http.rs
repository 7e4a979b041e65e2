//! The recorded and the made-up responses of providers, sent over real HTTP: the driver says of each what its case expects.

use std::path::Path;

use ostler_drivers::model::decode::{Protocol, RecordedCase};
use ostler_kernel::port::{CallOrigin, Message, ModelRequest, Sampling, ToolChoice};

use crate::server::{Reply, Server, response};
use crate::world::World;

fn cases() -> Option<Vec<RecordedCase>> {
    let shared = std::env::var("OSTLER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    let file = Path::new(&shared).join("conformance/model_cases.jsonl");
    match std::fs::read_to_string(&file) {
        Ok(lines) => Some(lines.lines().map(|line| RecordedCase::read(line).unwrap()).collect()),
        Err(error) => {
            println!("skipped: no recorded responses at {} ({error})", file.display());
            None
        }
    }
}

/// Cases that the driver reads otherwise than the decoder, on purpose.
const BY_DESIGN: [(&str, &str); 2] = [
    ("m259", "line ends in the message of an error are shown as blanks"),
    ("m278", "a redirect is not followed, and the same request would be redirected again"),
];

/// The head, and the body in the pieces of the case.
fn reply(case: &RecordedCase) -> Reply {
    let headers: String = case.headers().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = response(&format!("{} .", case.status()), &headers, "");
    Reply::Pieces(std::iter::once(head).chain(case.body().unwrap()).collect())
}

#[tokio::test]
async fn every_recorded_response_reads_the_same_over_http() {
    let Some(cases) = cases() else { return };
    let mut failed: Vec<String> = Vec::new();
    for case in cases {
        let provider = if case.protocol().unwrap() == Protocol::OpenAi { "openai" } else { "anthropic" };
        let server = Server::start(vec![reply(&case)]).await;
        let config = server.config(provider, "max_output_tokens = 1000000");
        let world = World::new(&config, &[], "a-key");
        let request = ModelRequest {
            messages: vec![Message::User("Hi".to_owned())],
            tools: Vec::new(),
            tool_choice: ToolChoice::default(),
            schema: None,
            sampling: Sampling::default(),
            origin: CallOrigin::default(),
        };
        let model = world.models.get("default").unwrap().model.clone();
        let read = model.call(request, &mut |_| {}).await;
        failed.extend(case.difference(&read).map(|difference| format!("{}: {difference}", case.id)));
    }
    failed.retain(|failed| !BY_DESIGN.iter().any(|(id, _)| failed.starts_with(&format!("{id}: "))));
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}
