use expect_test::expect;
use ostler_server::wire::GraphEdge;

use super::*;

fn node(id: &str, state: &str, uses: Option<&str>) -> GraphNode {
    GraphNode {
        id: id.to_owned(),
        kind: "tool".to_owned(),
        uses: uses.map(str::to_owned),
        level: 0,
        state: state.to_owned(),
        reason: None,
        since_ms: 0,
        attempts: 1,
        interrupted: false,
        busy_ms: None,
        failure: None,
        artifact: None,
        bytes: None,
        reuse: None,
        critical: false,
        deadline_ms: None,
        list: None,
        undoes: None,
        round: None,
    }
}

fn graph(nodes: Vec<GraphNode>, edges: &[(&str, &str, &str)]) -> GraphView {
    let edge = |&(from, to, on): &(&str, &str, &str)| GraphEdge {
        from: from.to_owned(),
        to: to.to_owned(),
        on: on.to_owned(),
    };
    GraphView {
        run: "r".to_owned(),
        plan: "p".to_owned(),
        version: 1,
        nodes,
        edges: edges.iter().map(edge).collect(),
        outputs: vec!["end".to_owned()],
    }
}

fn critical(node: GraphNode) -> GraphNode {
    GraphNode { critical: true, ..node }
}

/// A list of four, of which one failed; its collector; a wait, and an undo.
fn lists() -> GraphView {
    let reused = GraphNode { reuse: Some("cut_off".to_owned()), ..node("read", "executed", Some("fs.list")) };
    let child = |at: usize, state: &str| GraphNode {
        list: Some("sums".to_owned()),
        ..node(&format!("sums.{at}"), state, Some("model.m"))
    };
    let undo = GraphNode {
        undoes: Some("pay".to_owned()),
        round: Some(2),
        ..node("undo_pay", "pending", Some("shell.run"))
    };
    let nodes = vec![
        critical(reused),
        child(0, "executed"),
        critical(child(1, "executed")),
        child(2, "failed"),
        child(3, "running"),
        critical(node("sums", "pending", None)),
        node("end", "pending", None),
        undo,
    ];
    let mut edges = vec![("sums", "end", "terminal"), ("end", "undo_pay", "success")];
    for child in ["sums.0", "sums.1", "sums.2", "sums.3"] {
        edges.extend([("read", child, "success"), (child, "sums", "terminal")]);
    }
    graph(nodes, &edges)
}

#[test]
fn lists_are_folded_and_the_critical_path_is_marked_in_dot() {
    expect![[r##"
        digraph "p" {
          node [shape=box, style=filled]
          n0 [label="read\nfs.list\ncut off", fillcolor="#e2d9f3", color="#c0392b", penwidth=3]
          n1 [label="sums 2/4, 1 failed, 1 running\nmodel.m\npending", fillcolor="#ffffff", color="#c0392b", penwidth=3]
          n2 [label="end\ntool\npending", fillcolor="#ffffff", peripheries=2]
          n3 [label="undo_pay\nshell.run\npending\nundoes pay, round 2", fillcolor="#ffffff"]
          n1 -> n2 [style=dashed]
          n2 -> n3
          n0 -> n1 [color="#c0392b", penwidth=3]
        }
    "##]].assert_eq(&dot(&lists()));
}

#[test]
fn lists_are_folded_and_the_critical_path_is_marked_in_mermaid() {
    expect![[r#"
        flowchart TD
          n0["read<br/>fs.list<br/>cut off"]
          style n0 fill:#e2d9f3,stroke:#c0392b,stroke-width:3px
          n1["sums 2/4, 1 failed, 1 running<br/>model.m<br/>pending"]
          style n1 fill:#ffffff,stroke:#c0392b,stroke-width:3px
          n2[["end<br/>tool<br/>pending"]]
          style n2 fill:#ffffff
          n3["undo_pay<br/>shell.run<br/>pending<br/>undoes pay, round 2"]
          style n3 fill:#ffffff
          n1 -.-> n2
          n2 --> n3
          n0 --> n1
          linkStyle 2 stroke:#c0392b,stroke-width:3px
    "#]]
    .assert_eq(&mermaid(&lists()));
}

#[test]
fn a_wait_shows_its_deadline() {
    let wait = GraphNode { deadline_ms: Some(0), ..node("end", "waiting_human", None) };
    assert!(dot(&graph(vec![wait], &[])).contains("\\nwaiting\\nuntil 19"));
}

/// Texts that end labels, statements or comments, or that labels read as something else.
const HOSTILE: [&str; 9] = [
    "a\"b",
    "a\\",
    "a\\\"]; evil [label=\"x",
    "a]\nb --> c",
    "end",
    "`md` **x**",
    "<b>&amp;#quot;\u{7}\u{1b}[31m",
    "%%{init: {}}%%",
    "]]\");click n0 call x(",
];

fn hostile() -> GraphView {
    let nodes = HOSTILE.iter().map(|id| node(id, "executed", Some(id))).collect();
    let edges: Vec<(&str, &str, &str)> =
        HOSTILE.windows(2).map(|pair| (pair[0], pair[1], "success")).collect();
    GraphView { plan: HOSTILE[2].to_owned(), ..graph(nodes, &edges) }
}

/// A strict reader of the part of dot that is printed: each line one statement, each text quoted and closed.
fn read_dot(text: &str) -> (usize, usize) {
    let (mut nodes, mut edges) = (0, 0);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("digraph \""));
    assert_eq!(lines.next_back(), Some("}"));
    for line in lines {
        let mut outside = String::new();
        let (mut is_quoted, mut letters) = (false, line.chars());
        while let Some(letter) = letters.next() {
            match letter {
                '"' => is_quoted = !is_quoted,
                '\\' if is_quoted => assert!("\"\\n".contains(letters.next().unwrap()), "{line}"),
                letter if is_quoted => assert!(!letter.is_control(), "{line}"),
                letter => outside.push(letter),
            }
        }
        assert!(!is_quoted, "{line}");
        let harmless = |letter: char| letter.is_ascii_alphanumeric() || " [],=->".contains(letter);
        assert!(outside.chars().all(harmless), "{line}");
        match outside.contains("->") {
            true => edges += 1,
            false => nodes += usize::from(outside.trim_start().starts_with('n') && !outside.contains("node")),
        }
    }
    (nodes, edges)
}

/// A strict reader of the part of mermaid that is printed.
fn read_mermaid(text: &str) -> (usize, usize) {
    let (mut nodes, mut edges) = (0, 0);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("flowchart TD"));
    for line in lines.map(str::trim_start) {
        if let Some((name, label)) = line.split_once('[') {
            let label = label.trim_start_matches('[').strip_prefix('"').unwrap();
            let label = label.trim_end_matches(']').strip_suffix('"').unwrap().replace("<br/>", "");
            assert!(name[1..].parse::<usize>().is_ok(), "{line}");
            assert!(!label.contains(['"', '[', ']', '<', '>', '`', '{', '}', '%', '\\', '&']), "{line}");
            nodes += 1;
        } else if line.contains("->") {
            edges += 1;
        } else {
            assert!(line.starts_with("style n") || line.starts_with("linkStyle "), "{line}");
        }
    }
    (nodes, edges)
}

#[test]
fn no_name_of_a_plan_ends_a_label() {
    for (graph, counts) in [(hostile(), (9, 8)), (lists(), (4, 3))] {
        assert_eq!(read_dot(&dot(&graph)), counts);
        assert_eq!(read_mermaid(&mermaid(&graph)), counts);
    }
}
