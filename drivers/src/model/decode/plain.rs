//! The most frequent events of a stream, without a tree of values: a piece of text, of reasoning or of a call's arguments, and
//! nothing that decides anything else. Any other field or type makes the event an ordinary one, which the general reading takes.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainChunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) choices: [PlainChoice<'a>; 1],
    #[serde(borrow, rename = "object")]
    _object: Option<ChunkName<'a>>,
    #[serde(rename = "usage")]
    _usage: Option<()>,
    #[serde(rename = "created")]
    _created: Option<IgnoredAny>,
    #[serde(rename = "system_fingerprint")]
    _system_fingerprint: Option<IgnoredAny>,
    #[serde(rename = "service_tier")]
    _service_tier: Option<IgnoredAny>,
    #[serde(rename = "obfuscation")]
    _obfuscation: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainChoice<'a> {
    #[serde(rename = "index")]
    _index: First,
    #[serde(borrow)]
    pub(super) delta: PlainDelta<'a>,
    #[serde(rename = "finish_reason")]
    _finish_reason: Option<()>,
    #[serde(rename = "logprobs")]
    _logprobs: Option<()>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainDelta<'a> {
    #[serde(rename = "role")]
    _role: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(rename = "refusal")]
    _refusal: Option<()>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<[PlainPiece<'a>; 1]>,
}

/// A further piece of a call: an id or a name may begin another one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainPiece<'a> {
    pub(super) index: i64,
    #[serde(borrow)]
    pub(super) function: PlainArguments<'a>,
    #[serde(rename = "id")]
    _id: Option<()>,
    #[serde(rename = "type")]
    _kind: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainArguments<'a> {
    #[serde(borrow)]
    pub(super) arguments: Text<'a>,
    #[serde(rename = "name")]
    _name: Option<()>,
}

/// An event of an Anthropic stream that brings a piece of a block.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainBlockPiece<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) index: i64,
    #[serde(borrow)]
    pub(super) delta: PlainBlockDelta<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainBlockDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Text<'a>>,
}

/// Text that is borrowed from the chunk where it holds no escapes.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Index 0.
#[derive(Deserialize)]
#[serde(try_from = "u64")]
struct First;

impl TryFrom<u64> for First {
    type Error = &'static str;

    fn try_from(index: u64) -> Result<First, &'static str> {
        if index == 0 { Ok(First) } else { Err("another choice") }
    }
}

/// The name of a chunk; `error` would make it a failure.
#[derive(Deserialize)]
#[serde(try_from = "Cow<'a, str>")]
struct ChunkName<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> TryFrom<Cow<'a, str>> for ChunkName<'a> {
    type Error = &'static str;

    fn try_from(name: Cow<'a, str>) -> Result<ChunkName<'a>, &'static str> {
        if name == "chat.completion.chunk" {
            Ok(ChunkName(std::marker::PhantomData))
        } else {
            Err("no chunk")
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::port::{Completion, Delta, ModelError};

    use super::super::{Decoder, Protocol};

    fn decoded(protocol: Protocol, events: &[String]) -> (Vec<Delta>, Result<Completion, ModelError>) {
        let mut decoder = Decoder::new(protocol, 200, std::iter::empty());
        let body: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
        let deltas = decoder.push(body.as_bytes());
        (deltas, decoder.end())
    }

    /// The events, and the same with a field that only the general reading takes.
    fn check(protocol: Protocol, events: &[&str], pieces: usize) {
        let plain: Vec<String> = events.iter().map(|data| (*data).to_owned()).collect();
        let general: Vec<String> =
            events.iter().map(|data| data.replacen('{', "{\"unknown\":null,", 1)).collect();
        let (deltas, completion) = decoded(protocol, &plain);
        assert_eq!((&deltas, &completion), (&decoded(protocol, &general).0, &decoded(protocol, &general).1));
        assert_eq!(deltas.len(), pieces, "{deltas:?}");
    }

    #[test]
    fn frequent_chunks_of_openai_are_read_as_the_general_reading_reads_them() {
        let head = r#"{"choices":[{"index":0,"delta":"#;
        let chunk = |delta: &str| format!("{head}{delta}}}]}}");
        let call =
            |index: i64, rest: &str| chunk(&format!(r#"{{"tool_calls":[{{"index":{index},{rest}}}]}}"#));
        let events = [
            chunk(r#"{"role":"assistant","content":"a\u00e9\n"}"#),
            chunk(r#"{"content":null,"reasoning_content":"why"}"#),
            // Arguments before any call, then a call, its pieces, an empty one, and a second call.
            call(7, r#""function":{"arguments":"{\"early\":"}"#),
            call(0, r#""id":"c1","type":"function","function":{"name":"f","arguments":""}"#),
            call(0, r#""function":{"arguments":"{\"a\":"}"#),
            call(0, r#""id":null,"type":"function","function":{"name":null,"arguments":"1}"}"#),
            call(0, r#""function":{"arguments":""}"#),
            call(1, r#""id":"c2","function":{"name":"g","arguments":"{}"}"#),
            call(-1, r#""function":{"arguments":"x"}"#),
            call(1, r#""function":{"arguments":" "},"extra_content":{"k":1}"#),
            chunk(r#"{"content":"late","tool_calls":[{"index":1,"function":{"arguments":" "}}]}"#),
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
            // What comes again behind the finish reason is no piece.
            chunk(r#"{"content":"alate"}"#),
            "[DONE]".to_owned(),
        ];
        check(Protocol::OpenAi, &events.each_ref().map(String::as_str), 13);
    }

    #[test]
    fn frequent_events_of_anthropic_are_read_as_the_general_reading_reads_them() {
        let start = |index: u8, block: &str| {
            format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
        };
        let delta = |index: u8, delta: &str| {
            format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
        };
        let events = [
            r#"{"type":"message_start","message":{"id":"m","model":"c"}}"#.to_owned(),
            start(0, r#"{"type":"thinking","thinking":""}"#),
            delta(0, r#"{"type":"thinking_delta","thinking":"hm\n"}"#),
            delta(0, r#"{"type":"signature_delta","signature":"s"}"#),
            start(1, r#"{"type":"text","text":""}"#),
            delta(1, r#"{"type":"text_delta","text":"a\u00e9"}"#),
            delta(1, r#"{"type":"text_delta","text":""}"#),
            // Pieces of another kind than their block, of no block, and of no known kind.
            delta(1, r#"{"type":"thinking_delta","thinking":"no"}"#),
            delta(9, r#"{"type":"text_delta","text":"no"}"#),
            delta(1, r#"{"type":"citations_delta","citation":{}}"#),
            start(2, r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#),
            delta(2, r#"{"type":"input_json_delta","partial_json":""}"#),
            delta(2, r#"{"type":"input_json_delta","partial_json":"{\"a\":1}"}"#),
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#.to_owned(),
            r#"{"type":"message_stop"}"#.to_owned(),
        ];
        check(Protocol::Anthropic, &events.each_ref().map(String::as_str), 5);
    }
}
