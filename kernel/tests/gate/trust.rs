//! Where values come from: literals by their labels, references through the nodes behind them.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::gate::{
    Literals, NO_LABELS, Provenance, Results, Source, Trust, is_source_untrusted, is_untrusted, labels, trace,
};
use serde_json::{Map, Value, json};

/// A node: tool, untrusted author, literals with labels, reads, seen and labels of the result.
#[derive(Default)]
struct Node {
    tool: &'static str,
    untrusted_author: bool,
    params: Map<String, Value>,
    labels: BTreeMap<String, Vec<String>>,
    reads: Vec<&'static str>,
    seen: Vec<&'static str>,
    of_result: Vec<&'static str>,
}

impl Node {
    fn labelled(mut self, params: &Value, labels: &[(&str, &[&str])]) -> Node {
        self.params = params.as_object().unwrap().clone();
        self.labels = by_pointer(labels);
        self
    }
}

fn by_pointer(labels: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let owned = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
    labels.iter().map(|(at, labels)| ((*at).to_owned(), owned(labels))).collect()
}

fn node(tool: &'static str, reads: &[&'static str]) -> Node {
    Node { tool, reads: reads.to_vec(), ..Node::default() }
}

struct Nodes(BTreeMap<&'static str, Node>);

impl Results for Nodes {
    fn source(&self, id: &str) -> Option<Source<'_>> {
        self.0.get(id).map(|node| Source {
            tool: node.tool,
            untrusted_author: node.untrusted_author,
            literals: Literals { params: &node.params, labels: &node.labels },
            reads: node.reads.clone(),
            seen: node.seen.clone(),
            labels: node.of_result.clone(),
        })
    }

    fn is_trusted(&self, tool: &str) -> bool {
        tool != "web"
    }
}

#[test]
fn a_literal_is_as_trusted_as_its_least_trusted_leaf() {
    let none = Nodes(BTreeMap::new());
    let nested = json!({"x": {"a": [1, {"b": null}], "c/d~": [], "e": {}}});
    for (params, labelled, expected) in [
        (json!({"x": 1}), &[][..], Trust::Author),
        (json!({"x": 1}), &[("/x", &["user"][..])], Trust::Own),
        (json!({"x": 1}), &[("", &["user"])], Trust::Own),
        (json!({"x": 1}), &[("/x", &["plan"])], Trust::Author),
        (json!({"x": 1}), &[("/x", &["other"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["steer:ann"])], Trust::Own),
        (json!({"x": 1}), &[("/x", &["steer:bob"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["tool:db"])], Trust::Author),
        (json!({"x": 1}), &[("/x", &["tool:web"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["user:ann"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["plan:ann"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["db:db"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["user", "tool:web"])], Trust::Untrusted),
        (json!({"x": 1}), &[("/x", &["user", "plan"])], Trust::Author),
        (json!({"x": 1}), &[("/x", &[])], Trust::Author),
        (json!({"x": 1}), &[("/y", &["user"])], Trust::Author),
        (json!({"xy": 1}), &[("/x", &["user"])], Trust::Author),
        (json!({"xy": [1]}), &[("/x", &["user"])], Trust::Author),
        (json!({"x": 1}), &[("", &["tool:web"]), ("/x", &["user"])], Trust::Own),
        (json!({"x": [1, 2]}), &[("/x", &["user"]), ("/x/1", &["tool:web"])], Trust::Untrusted),
        (json!({"x": [1, 2]}), &[("/x/0", &["user"])], Trust::Author),
        (json!({"x": [1, 2]}), &[("/x/0", &["user"]), ("/x/1", &["user"])], Trust::Own),
        (json!({"x": []}), &[("/x", &["user"])], Trust::Own),
        (json!({"x": []}), &[("/x", &["tool:web"])], Trust::Untrusted),
        (json!({"x": {}}), &[("/x", &["tool:web"])], Trust::Untrusted),
        (json!({"x": null}), &[("/x", &["tool:web"])], Trust::Untrusted),
        (nested.clone(), &[("", &["user"])], Trust::Own),
        (nested.clone(), &[("", &["user"]), ("/x/a/1/b", &["tool:web"])], Trust::Untrusted),
        (nested.clone(), &[("", &["user"]), ("/x/c~1d~0", &["tool:web"])], Trust::Untrusted),
        (nested.clone(), &[("", &["user"]), ("/x/e", &["tool:web"])], Trust::Untrusted),
        (nested, &[("", &["user"]), ("/x/c", &["tool:web"])], Trust::Own),
        (json!({"a/b~": 1}), &[("/a~1b~0", &["user"])], Trust::Own),
    ] {
        let labels = by_pointer(labelled);
        let literals = Literals { params: params.as_object().unwrap(), labels: &labels };
        let found = trace(&none, "ann", false, literals, std::iter::empty(), []);
        let name = params.as_object().unwrap().keys().next().unwrap();
        let of_it = found.params.get(name).copied().unwrap_or(Trust::Author);
        assert_eq!(of_it, expected, "{params} {labelled:?}");
        assert_eq!(found.params.contains_key(name), expected != Trust::Author, "{params} {labelled:?}");
    }
}

#[test]
fn a_name_in_a_label_may_hold_a_colon() {
    let none = Nodes(BTreeMap::new());
    let params = json!({"x": 1});
    for (user, expected) in
        [("a:b", Some(Trust::Own)), ("a", Some(Trust::Untrusted)), ("b", Some(Trust::Untrusted))]
    {
        let labels = by_pointer(&[("/x", &["steer:a:b"])]);
        let literals = Literals { params: params.as_object().unwrap(), labels: &labels };
        let found = trace(&none, user, false, literals, std::iter::empty(), []);
        assert_eq!(found.params.get("x").copied(), expected, "{user}");
    }
}

fn nodes() -> Nodes {
    let user = |tool, reads: &[&'static str]| {
        Node { untrusted_author: true, ..node(tool, reads) }.labelled(&json!({"q": 1}), &[("", &["user"])])
    };
    let tainted = Node { untrusted_author: true, ..node("db", &[]) };
    Nodes(BTreeMap::from([
        ("plain", Node { of_result: vec!["private"], ..node("db", &[]) }),
        ("page", Node { of_result: vec!["public"], ..node("web", &[]) }),
        ("of_page", node("db", &["plain", "page"])),
        ("of_plain", Node { seen: vec!["page"], of_result: vec!["eu"], ..node("db", &["plain", "plain"]) }),
        ("twice", node("db", &["of_plain", "plain"])),
        ("tainted", tainted),
        ("own", user("db", &[])),
        ("own_reads", user("db", &["plain"])),
        (
            "own_empty",
            Node { untrusted_author: true, ..node("db", &[]) }.labelled(&json!({}), &[("", &["user"])]),
        ),
        (
            "half_own",
            Node { untrusted_author: true, ..node("db", &[]) }
                .labelled(&json!({"q": 1, "r": 2}), &[("/q", &["user"])]),
        ),
        (
            "strange",
            node("db", &[]).labelled(&json!({"q": 1, "r": 2}), &[("/q", &["tool:web"]), ("/r", &["user"])]),
        ),
        ("strange_empty", node("db", &[]).labelled(&json!({}), &[("", &["tool:web"])])),
        ("broken", node("db", &["gone"])),
        ("round", node("db", &["trip"])),
        ("trip", node("db", &["round"])),
    ]))
}

#[test]
fn a_result_is_untrusted_if_anything_behind_it_is() {
    let nodes = nodes();
    for (id, expected) in [
        ("plain", false),
        ("page", true),
        ("of_page", true),
        ("of_plain", false),
        ("twice", false),
        ("tainted", true),
        ("own", false),
        ("own_reads", true),
        ("own_empty", false),
        ("half_own", true),
        ("strange", true),
        ("strange_empty", true),
        ("broken", true),
        ("round", true),
        ("gone", true),
    ] {
        assert_eq!(is_untrusted(&nodes, "ann", [id]), expected, "{id}");
        if let Some(source) = nodes.source(id) {
            assert_eq!(is_source_untrusted(&nodes, "ann", source), expected, "the source {id}");
        }
    }
    assert!(!is_untrusted(&nodes, "ann", []) && !is_untrusted(&nodes, "ann", ["plain", "own", "plain"]));
    assert!(is_untrusted(&nodes, "ann", ["plain", "page"]) && is_untrusted(&nodes, "ann", ["page", "plain"]));
}

#[test]
fn labels_come_from_all_that_was_read_or_seen() {
    let nodes = nodes();
    for (ids, expected) in [
        (&[][..], &[][..]),
        (&["plain"], &["private"]),
        (&["of_page"], &["private", "public"]),
        (&["of_plain"], &["eu", "private", "public"]),
        (&["round", "gone"], &[]),
    ] {
        let found = labels(&nodes, ids.iter().copied());
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{ids:?}");
    }
}

#[test]
fn a_call_is_traced_by_its_literals_its_references_and_what_its_author_saw() {
    let nodes = nodes();
    let params = json!({"given": 1, "typed": 2});
    let labels = by_pointer(&[("/typed", &["user"])]);
    let literals = Literals { params: params.as_object().unwrap(), labels: &labels };
    let refs = [("text", "page"), ("row", "plain")];
    let found = trace(&nodes, "ann", true, literals, refs.into_iter(), ["of_plain"]);
    assert!(found.untrusted_author);
    let expected = [("text".to_owned(), Trust::Untrusted), ("typed".to_owned(), Trust::Own)];
    assert_eq!(found.params, BTreeMap::from(expected));
    assert_eq!(found.labels, BTreeSet::from(["eu", "private", "public"].map(str::to_owned)));
    let nothing = Map::new();
    let literals = Literals { params: &nothing, labels: &NO_LABELS };
    let found = trace(&nodes, "ann", false, literals, std::iter::empty(), []);
    assert_eq!(found, Provenance::default());
}
