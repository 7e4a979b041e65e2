//! Streams of providers, as their servers send them: many small events.

use ostler_drivers::model::decode::{Decoder, Protocol};

/// A stream of a fixed form and length.
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    protocol: Protocol,
    body: Vec<u8>,
}

/// Bytes that a decoder gets at once.
const CHUNK: usize = 16 << 10;

impl Stream {
    /// All streams, with so many events each.
    pub(crate) fn all(events: usize) -> [Stream; 3] {
        [Stream::text(events), Stream::arguments(events), Stream::anthropic(events)]
    }

    /// A text in chunks of OpenAI's form.
    pub(crate) fn text(events: usize) -> Stream {
        let delta = |at: usize| format!("{{\"content\":\" word{}\"}}", at % 1_000);
        Stream::openai("a text, OpenAI", events, &delta)
    }

    /// The arguments of a call in chunks of OpenAI's form.
    pub(crate) fn arguments(events: usize) -> Stream {
        let delta = |at: usize| {
            let (name, arguments) = match at {
                0 => (
                    "\"id\":\"call_1\",\"type\":\"function\",",
                    "\"name\":\"fs_write\",\"arguments\":\"{\\\"text\\\":\\\"\"",
                ),
                _ if at + 1 == events => ("", "\"arguments\":\"\\\"}\""),
                _ => ("", "\"arguments\":\" word\""),
            };
            format!("{{\"tool_calls\":[{{\"index\":0,{name}\"function\":{{{arguments}}}}}]}}")
        };
        Stream::openai("arguments of a call, OpenAI", events, &delta)
    }

    fn openai(name: &'static str, events: usize, delta: &dyn Fn(usize) -> String) -> Stream {
        let head = "{\"id\":\"chatcmpl-Bz81mXqT0fGmHcD4\",\"object\":\"chat.completion.chunk\",\"created\":1754000000,\
                    \"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_34a54ae93c\",";
        let mut body = String::new();
        for at in 0..events {
            let delta = delta(at);
            body += &format!(
                "data: {head}\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
            );
        }
        body += &format!(
            "data: {head}\"choices\":[{{\"index\":0,\"delta\":{{}},\"logprobs\":null,\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
        );
        Stream { name, protocol: Protocol::OpenAi, body: body.into() }
    }

    /// A text in events of Anthropic's form.
    pub(crate) fn anthropic(events: usize) -> Stream {
        let mut body = String::from(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\
             \"model\":\"claude-sonnet-4-5\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
             event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        );
        for at in 0..events {
            body += &format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\
                 \"text\":\" word{}\"}}}}\n\n",
                at % 1_000
            );
        }
        body += "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
                 event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n\
                 event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        Stream { name: "a text, Anthropic", protocol: Protocol::Anthropic, body: body.into() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Decodes the stream; returns the number of pieces of the answer.
    pub(crate) fn decode(&self) -> usize {
        let mut decoder = Decoder::new(self.protocol, 200, std::iter::empty());
        let pieces = self.body.chunks(CHUNK).map(|chunk| decoder.push(chunk).len()).sum();
        decoder.end().unwrap();
        pieces
    }
}
