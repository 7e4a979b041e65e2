//! The most frequent chunk of an OpenAI-compatible stream, without a tree of values: one choice, a piece of text or reasoning,
//! and nothing that decides anything else. Any other field or type makes the chunk an ordinary one, which the general reading takes.

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
