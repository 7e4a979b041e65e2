//! Conformance vectors of the hash and of the identity documents.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test may panic, say that it skips, and look for the shared cases"
)]

mod common;

use std::collections::BTreeMap;

use common::{cases, check_copy, text};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::json::{Object, parse};
use ostler_kernel::lineage::{self, Edge, ExecutableSpec, Inputs};
use serde_json::{Map, Value, json};

const FILE: &str = "hash_vectors.jsonl";

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn digest(hex: &str) -> Digest {
    hex.parse().unwrap()
}

/// Expected digest of vector `id`.
fn vector(id: &str) -> Digest {
    let cases = cases(FILE);
    let case = cases.iter().find(|case| text(case, "id") == id).unwrap();
    digest(text(case, "hash"))
}

#[test]
fn every_vector_gives_its_hash() {
    let cases = cases(FILE);
    assert_eq!(cases.len(), 30);
    for case in &cases {
        let parts: Vec<Vec<u8>> = case["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| match part {
                Value::String(text) => text.clone().into_bytes(),
                hex => unhex(text(hex, "hex")),
            })
            .collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let found = lineage::hash(text(case, "tag"), &parts);
        assert_eq!(found.to_string(), text(case, "hash"), "{}", text(case, "id"));
    }
}

#[test]
fn the_copy_is_the_original() {
    check_copy(FILE);
}

const ARTIFACT: &str = "4f9c7f28fc189dfeab37e35c687c0958e0cd310ed92d7ca992ede6f39d9b0a85";
const VALUE: &str = "86aaa9925205fbe934ccb35fecc84ebb9848ddddc4d4846080fbc605035de543";
const SIGMA: &str = "3504c3550ef58d8c99695ad3fad5ff53495295512bdc963b36d1a922ee71617f";
const X: &str = "8df0e8cd6e7476d9e1b3c170c2419fe78626819c7da52cd177f01e90a3fc8933";
const R: &str = "0e0ada3c8c2298f7689c06d0103a48e3f69735bcb11b48ee47dccb9c8cb9802d";

#[test]
fn the_chain_from_an_artifact_to_its_reuse() {
    let content = br#"{"members":["x","y"],"slots":[]}"#;
    assert_eq!(lineage::artifact("application/json", content), digest(ARTIFACT));
    let value = lineage::value(&parse(r#"["x","y"]"#).unwrap());
    assert_eq!(value, digest(VALUE));
    let sigma = ExecutableSpec {
        kind: "tool",
        tool: Some("send_invites"),
        tool_version: Some("1.2.0"),
        media: Some("application/json"),
        ..ExecutableSpec::default()
    };
    let sigma = lineage::executable_digest(&sigma.document().unwrap());
    assert_eq!(sigma, digest(SIGMA));
    let params = Object::from(Map::from_iter([("title".to_owned(), json!("Sync"))]));
    let refs = BTreeMap::from([("who".to_owned(), value)]);
    let x = Inputs { effects: &BTreeMap::new(), params: &params, refs: &refs, world: None };
    let x = lineage::inputs_digest(&x.document().unwrap());
    assert_eq!(x, digest(X));
    assert_eq!(lineage::reuse(sigma, x), digest(R));
}

#[test]
fn a_model_step_with_every_field() {
    let (sampling, seed, fresh) = (json!({"top_p": 1.0, "temperature": 0.7}), json!(7), json!(2));
    let sigma = ExecutableSpec {
        kind: "model",
        model: Some("m-large"),
        model_rev: Some("2026-01"),
        sampling: Some(&sampling),
        seed: Some(&seed),
        prompt: Some(lineage::prompt("Write the memo")),
        media: Some("text/markdown"),
        fresh: Some(&fresh),
        ..ExecutableSpec::default()
    };
    assert_eq!(lineage::executable_digest(&sigma.document().unwrap()), vector("d019"));
}

#[test]
fn inputs_with_receipts_and_a_world_token() {
    let receipt = digest("c3248828a6f91e217c5c88d08b8b46e09546edae1415561d4b2f8b01c5287823");
    let effects = BTreeMap::from([(receipt, 2)]);
    let (params, refs) = (Object::default(), BTreeMap::new());
    let x = Inputs { effects: &effects, params: &params, refs: &refs, world: Some("etag-1") };
    assert_eq!(lineage::inputs_digest(&x.document().unwrap()), vector("d030"));
    let nothing = Inputs { effects: &BTreeMap::new(), world: None, ..x };
    assert_eq!(lineage::inputs_digest(&nothing.document().unwrap()), vector("d021"));
}

#[test]
fn references_stand_in_the_order_of_utf16() {
    let refs = BTreeMap::from([
        ("\u{fb33}".to_owned(), digest(VALUE)),
        ("\u{1f600}".to_owned(), digest(VALUE)),
        ("a\"".to_owned(), digest(VALUE)),
    ]);
    let x = Inputs { effects: &BTreeMap::new(), params: &Object::default(), refs: &refs, world: Some("\n") };
    let document = x.document().unwrap();
    let expected = format!(
        r#"{{"effects":{{}},"params":{{}},"refs":{{"a\"":"b3:{VALUE}","{}":"b3:{VALUE}","{}":"b3:{VALUE}"}},"world":"\n"}}"#,
        '\u{1f600}', '\u{fb33}'
    );
    assert_eq!(document.as_str(), expected);
    assert_eq!(parse(&expected).unwrap(), document);
}

#[test]
fn lineage_sorts_its_edges_by_name_and_digest() {
    let k1 = digest("7383f1e295c8aea3699462fe2318cfbf65dca6f7a967b60499d6d90b2da00038");
    let k2 = digest("68a51eabf968e806d7cc40e7dfd5047fce43bdbcad8b4155a0b353f8411b4f1e");
    let r = digest(R);
    assert_eq!(lineage::lineage(r, &[]), vector("d023"));
    assert_eq!(lineage::lineage(r, &[(Edge::Ref("who"), k1)]), vector("d024"));
    let edges = [(Edge::Ref("who"), k2), (Edge::Order, k1), (Edge::Ref("at"), k1), (Edge::Order, k2)];
    assert_eq!(lineage::lineage(r, &edges), vector("d025"));
}

#[test]
fn a_keyed_receipt_counts_each_execution() {
    let key = digest("d0becaef1a9a1466168a141c3fb72524434ca489bafc2729ad7934c9f481221b");
    assert_eq!(lineage::receipt(digest(R), digest(ARTIFACT), None), vector("d028"));
    assert_eq!(lineage::receipt(digest(R), digest(ARTIFACT), Some(key)), vector("d029"));
}

#[test]
fn an_idempotency_key_names_run_node_generation_and_phase() {
    let run: RunId = "0198c0de-0000-7000-8000-00000000000a".parse().unwrap();
    let key = lineage::idempotency_key(run, &NodeId::from("apply"), 1, 2);
    let parts: [&[u8]; 4] = [
        b"0198c0de-0000-7000-8000-00000000000a",
        b"apply",
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(key, lineage::hash("aos/idem/1", &parts));
}
