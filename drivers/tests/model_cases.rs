//! Recorded responses of model providers: each decodes as expected, in one piece and split at every byte.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed unwrap fails the test, and a skip says why"
)]

use std::path::Path;

use ostler_drivers::model::decode::{Decoder, Limits, Protocol, decode_case};
use ostler_kernel::port::{Completion, ModelError, ModelErrorClass};
use serde_json::{Value, json};

/// Longest body that is split at every byte, in bytes.
const SPLIT_MAX: usize = 4_096;

/// Reads the cases, or says why there are none.
fn cases() -> Option<String> {
    let shared = std::env::var("OSTLER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    let file = Path::new(&shared).join("conformance/model_cases.jsonl");
    let cases = std::fs::read_to_string(&file);
    if let Err(error) = &cases {
        println!("skipped: no recorded responses at {} ({error})", file.display());
    }
    cases.ok()
}

/// A recorded response.
struct Recorded {
    id: String,
    protocol: Protocol,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Recorded {
    /// The case of this line, if its body stands in it as text.
    fn of(line: &str) -> Option<Recorded> {
        let case: Value = serde_json::from_str(line).unwrap();
        let headers = case["response"]["headers"].as_object().cloned().unwrap_or_default();
        Some(Recorded {
            id: case["id"].as_str().unwrap().to_owned(),
            protocol: if case["protocol"] == "openai" { Protocol::OpenAi } else { Protocol::Anthropic },
            status: case["response"]["status"].as_u64().unwrap() as u16,
            headers: headers
                .into_iter()
                .map(|(name, value)| (name, value.as_str().unwrap().to_owned()))
                .collect(),
            body: case["response"]["body"].as_str()?.as_bytes().to_vec(),
        })
    }

    fn decode<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
        limits: Limits,
    ) -> Result<Completion, ModelError> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut decoder = Decoder::with_limits(self.protocol, self.status, headers, limits);
        pieces.for_each(|piece| drop(decoder.push(piece)));
        decoder.end()
    }
}

#[test]
fn every_recorded_response_decodes_as_expected() {
    let Some(cases) = cases() else { return };
    let found = cases.lines().filter_map(|line| {
        let decoded = decode_case(line).unwrap();
        decoded.difference().map(|difference| format!("{}: {difference}", decoded.id))
    });
    let failed: Vec<String> = found.collect();
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn no_result_depends_on_the_chunks() {
    let Some(cases) = cases() else { return };
    for case in cases.lines().filter_map(Recorded::of).filter(|case| case.body.len() <= SPLIT_MAX) {
        let limits = Limits::default();
        let whole = case.decode([&case.body[..]].into_iter(), limits);
        assert_eq!(case.decode(case.body.chunks(1), limits), whole, "{}: one byte at a time", case.id);
        for at in 0..case.body.len() {
            let (first, rest) = case.body.split_at(at);
            assert_eq!(case.decode([first, rest].into_iter(), limits), whole, "{}: split at {at}", case.id);
        }
    }
}

#[test]
fn no_limit_depends_on_the_chunks() {
    let Some(cases) = cases() else { return };
    let limits = Limits { response_bytes: 600, line_bytes: 300, calls: 1 };
    for case in cases.lines().filter_map(Recorded::of) {
        let whole = case.decode([&case.body[..]].into_iter(), limits);
        for size in [1, 7, 299, 300, 301, 599, 600, 601] {
            assert_eq!(case.decode(case.body.chunks(size), limits), whole, "{}: chunks of {size}", case.id);
        }
    }
}

#[test]
fn a_limit_is_exact_and_names_itself() {
    let case = Recorded {
        id: String::new(),
        protocol: Protocol::OpenAi,
        status: 200,
        headers: Vec::new(),
        body: b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n"
            .to_vec(),
    };
    let decode = |limits| case.decode([&case.body[..]].into_iter(), limits);
    let (bytes, line) = (case.body.len(), case.body.len() - 2);
    let limits = Limits { response_bytes: bytes, line_bytes: line, calls: 0 };
    assert_eq!(decode(limits).unwrap().text, "hi");
    for (limits, told) in [
        (Limits { response_bytes: bytes - 1, ..limits }, format!("more than {} bytes;", bytes - 1)),
        (Limits { line_bytes: line - 1, ..limits }, format!("more than {} bytes in a line", line - 1)),
    ] {
        let error = decode(limits).unwrap_err();
        assert_eq!((error.class, error.status), (ModelErrorClass::InvalidOutput, None));
        assert!(error.message.contains(&told), "{error}");
    }
}

#[test]
fn a_million_random_bytes_are_no_panic_and_no_answer() {
    let words: [&[u8]; 12] = [
        b"data: ",
        b"event: error",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"{\"choices\":[{\"delta\":{",
        b"}}]}",
        b"[DONE]",
        b"\"content\":\"\\u00",
        b"\xEF\xBB\xBF",
        b"\xFF",
        b"{\"type\":\"content_block_start\",\"index\":0}",
    ];
    // A linear congruential generator; the upper bits are random enough.
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for protocol in [Protocol::OpenAi, Protocol::Anthropic] {
        for with_words in [false, true] {
            let mut decoder = Decoder::new(protocol, 200, [].into_iter());
            let mut sent = 0;
            while sent < 500_000 {
                let piece =
                    if with_words { words[random() % words.len()].to_vec() } else { vec![random() as u8] };
                sent += piece.len();
                decoder.push(&piece);
                if decoder.is_over() {
                    decoder = Decoder::new(protocol, 200, [].into_iter());
                }
            }
            assert!(decoder.end().is_err());
        }
    }
}

#[test]
fn opaque_data_of_providers_is_kept() {
    let decode = |protocol, body: Value| {
        let mut decoder = Decoder::new(protocol, 200, [].into_iter());
        decoder.push(body.to_string().as_bytes());
        decoder.end().unwrap().provider_data.unwrap()
    };
    let call = json!({"id": "c", "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "s"}}});
    let details =
        json!([{"type": "reasoning.encrypted", "data": "x"}, {"type": "reasoning.text", "text": "t"}]);
    let message = json!({"content": "", "reasoning_details": details, "tool_calls": [call]});
    let data =
        decode(Protocol::OpenAi, json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}));
    assert_eq!(
        data,
        json!({"openai": {"message": {"reasoning_details": details},
            "calls": [{"extra_content": {"google": {"thought_signature": "s"}}}]}})
    );
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]);
    let data = decode(Protocol::Anthropic, json!({"content": content, "stop_reason": "tool_use"}));
    assert_eq!(data, json!({"anthropic": {"content": content}}));
}
