//! Readers and writers of live texts.

use uuid::Uuid;

use super::TextPart::{Reasoning, Text};
use super::*;

const RUN: RunId = RunId(Uuid::from_u128(1));

fn told(reader: &mut TextReader) -> Vec<String> {
    reader
        .read()
        .into_iter()
        .map(|LiveText { position, text }| match text {
            Some(LiveTextPiece { part: Reasoning, text, .. }) => format!("{position} ({text})"),
            Some(LiveTextPiece { text, .. }) => format!("{position} {text}"),
            None => format!("{position} end"),
        })
        .collect()
}

fn all(texts: &LiveTexts) -> TextReader {
    texts.follow(RUN, TextFilter::default(), &[])
}

#[test]
fn a_late_reader_gets_the_text_so_far_once_and_then_what_follows() {
    let texts = LiveTexts::default();
    let text = texts.begin(RUN, "a".into(), 1, 5);
    text.push(1, Reasoning, "hm");
    text.push(1, Text, "one ");
    text.push(1, Text, "two");
    let mut reader = all(&texts);
    assert_eq!(told(&mut reader), ["a:1:5:2 (hm)", "a:1:5:9 one two"]);
    assert_eq!(told(&mut reader), [""; 0]);
    text.push(1, Text, " three");
    assert_eq!(told(&mut reader), ["a:1:5:15  three"]);
    drop(text);
    assert_eq!(told(&mut reader), ["a:1:5:15 end"]);
    assert_eq!(told(&mut reader), [""; 0]);
    assert_eq!(told(&mut all(&texts)), [""; 0], "an ended text is gone");
}

#[test]
fn a_reader_that_was_there_gets_a_text_that_began_and_ended_meanwhile() {
    let texts = LiveTexts::default();
    let (mut early, mut idle) = (all(&texts), all(&texts));
    let text = texts.begin(RUN, "a".into(), 2, 5);
    text.push(1, Text, "all of it");
    drop(text);
    assert_eq!(told(&mut all(&texts)), [""; 0]);
    assert_eq!(told(&mut early), ["a:2:5:9 all of it", "a:2:5:9 end"]);
    assert_eq!(told(&mut early), [""; 0]);
    assert_eq!(told(&mut idle), ["a:2:5:9 all of it", "a:2:5:9 end"]);
    assert!(lock(&early.texts.state).texts.is_empty(), "both have it");
}

#[test]
fn a_reader_goes_on_where_it_was_unless_the_text_began_again() {
    let texts = LiveTexts::default();
    let (first, second) = (texts.begin(RUN, "a".into(), 1, 5), texts.begin(RUN, "b".into(), 1, 6));
    first.push(1, Text, "abc");
    second.push(1, Text, "xyz");
    let follow = |after: &[&str]| {
        let after: Vec<TextPosition> = after.iter().map(|position| position.parse().unwrap()).collect();
        told(&mut texts.follow(RUN, TextFilter::default(), &after))
    };
    assert_eq!(follow(&["a:1:5:2"]), ["a:1:5:3 c", "b:1:6:3 xyz"]);
    assert_eq!(follow(&["b:1:6:3", "a:1:5:3"]), [""; 0]);
    assert_eq!(follow(&["a:1:4:2", "b:2:6:1"]), ["a:1:5:3 abc", "b:1:6:3 xyz"]);
    assert_eq!(follow(&["a:1:5:99", "b:1:6:99"]), [""; 0], "an offset beyond the end is the end");
}

#[test]
fn a_filter_takes_one_node_or_one_attempt() {
    let texts = LiveTexts::default();
    let written: Vec<AttemptText> =
        [("a", 1), ("a", 2), ("b", 1)].map(|(node, at)| texts.begin(RUN, node.into(), at, 5)).into();
    written.iter().for_each(|text| text.push(1, Text, "x"));
    let of = |node: Option<&str>, attempt| {
        let filter = TextFilter { node: node.map(NodeId::from), attempt };
        told(&mut texts.follow(RUN, filter, &[]))
    };
    assert_eq!(of(Some("a"), None), ["a:1:5:1 x", "a:2:5:1 x"]);
    assert_eq!(of(Some("a"), Some(2)), ["a:2:5:1 x"]);
    assert_eq!(of(None, Some(1)), ["a:1:5:1 x", "b:1:5:1 x"]);
    assert_eq!(told(&mut texts.follow(RunId(Uuid::from_u128(2)), TextFilter::default(), &[])), [""; 0]);
}

#[test]
fn a_reader_that_does_not_read_costs_a_bounded_memory_and_finds_the_end() {
    let texts = LiveTexts::default();
    let mut reader = all(&texts);
    let kibibyte = "x".repeat(1 << 10);
    for attempt in 1..=8 {
        let text = texts.begin(RUN, "a".into(), attempt, 5);
        (0..1_500).for_each(|_| text.push(1, Text, &kibibyte));
    }
    let kept: usize = lock(&reader.texts.state).texts.values().map(|text| text.kept.bytes()).sum();
    assert!(kept <= ENDED_TEXTS_BYTES_MAX, "{kept}");
    let (mut read, mut last) = (0, None);
    loop {
        let found = reader.read();
        if found.is_empty() {
            break;
        }
        let bytes: usize =
            found.iter().filter_map(|text| text.text.as_ref()).map(|text| text.text.len()).sum();
        assert!(bytes <= READ_BYTES_MAX + (16 << 10));
        read += bytes;
        last = found.last().map(|text| text.position.to_string());
    }
    assert_eq!((read, last.as_deref()), (kept, Some("a:8:5:1536000")));
}

#[tokio::test]
async fn a_reader_wakes_for_text_and_for_its_end() {
    let texts = LiveTexts::default();
    let mut reader = all(&texts);
    let text = texts.begin(RUN, "a".into(), 1, 5);
    text.push(1, Text, "x");
    reader.changed().await;
    assert_eq!(told(&mut reader), ["a:1:5:1 x"]);
    let ending = tokio::spawn(async move { drop(text) });
    reader.changed().await;
    ending.await.unwrap();
    assert_eq!(told(&mut reader), ["a:1:5:1 end"]);
}

#[test]
fn runs_without_a_writer_or_reader_are_forgotten() {
    let texts = LiveTexts::default();
    for run in 0..10_000 {
        drop(texts.begin(RunId(Uuid::from_u128(run)), "a".into(), 1, 5));
    }
    assert!(lock(&texts.runs).texts.len() <= SWEPT_AT_MIN);
}
