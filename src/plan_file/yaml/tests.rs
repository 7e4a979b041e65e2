use serde_json::json;

use super::*;

#[test]
fn values_are_what_yaml_1_2_says() {
    let located = read(
        "a: 1\non: yes\nb: [x, 'y', \"z\", 1.5, null, ~, true]\nc:\n  - {k: v}\nd: |\n  two\n  lines\ne: 0x10\n",
    )
    .unwrap();
    assert_eq!(
        located.value(),
        json!({"a": 1, "on": "yes", "b": ["x", "y", "z", 1.5, null, null, true],
               "c": [{"k": "v"}], "d": "two\nlines\n", "e": 16})
    );
}

#[test]
fn parts_know_where_they_begin() {
    let text = "id: ä\nnodes:\n  - id: a\n    tool: fs.list\n";
    let located = read(text).unwrap();
    let nodes = located.get("nodes").unwrap();
    assert_eq!(&text[nodes.key_at..][..5], "nodes");
    let tool = nodes.located.items()[0].get("tool").unwrap();
    assert_eq!((&text[tool.key_at..][..4], &text[tool.located.at..][..7]), ("tool", "fs.list"));
}

#[test]
fn aliases_repeat_and_merge() {
    let located = read("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  l: 2\n").unwrap();
    assert_eq!(located.value(), json!({"a": {"k": 1}, "b": {"k": 1}, "c": {"l": 2, "k": 1}}));
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    for (text, at) in [
        ("a: [1", None),
        ("a: 1\na: 2\n", Some(5)),
        ("a: .inf\n", Some(3)),
        ("a: *x\n", Some(3)),
        ("a: 9007199254740993\n", Some(3)),
    ] {
        let refused = read(text).expect_err(text);
        assert!(!refused.kind.to_string().is_empty(), "{text}");
        if at.is_some() {
            assert_eq!(refused.at, at, "{text}: {}", refused.kind);
        }
    }
}

#[test]
fn what_is_often_written_and_no_yaml_is_told_its_mend() {
    let quotes = "put a text with a colon in quotes";
    for (text, at, what, help) in [
        ("a:\n  - id: x\n\ttool: y\n", 13, "a tab in the indentation", "indent with spaces"),
        ("a:\n\t- id: x\n", 3, "a tab in the indentation", "indent with spaces"),
        ("a: |\n\ttext\n", 5, "a tab in the indentation", "indent with spaces"),
        ("a: |\n  one\n \ttwo\n", 12, "a tab in the indentation", "indent with spaces"),
        ("a:\n  - >-\n      one\n   \ttwo\n", 23, "a tab in the indentation", "indent with spaces"),
        ("a: \"one\n\ttwo\"\n", 8, "a tab in the indentation", "indent with spaces"),
        ("?\n\tx\n: 1\n", 2, "a tab in the indentation", "indent with spaces"),
        ("\tid: a\n\n  b: 1\n", 0, "a tab in the indentation", "indent with spaces"),
        ("\tid: a\nb: 1\n", 0, "a tab in the indentation", "align it with the lines after it"),
        ("# ü\n---\n  \t- a\n- b\n", 11, "a tab in the indentation", "align it with the lines after it"),
        ("  id: a\nb: 1\n", 2, "the first line is indented", "align it with the lines after it"),
        ("a: {{ x }}\n", 4, "a map in place", "put a text with {{ … }} in quotes"),
        ("a: {{ x }} and ü\n", 4, "a map in place", "put a text with {{ … }} in quotes"),
        ("a: foo: bar\n", 6, "a second colon", quotes),
        (
            "a: ü\n  b: 2\n",
            9,
            "a key inside",
            &format!("indent it like the other keys of its map, or {quotes}"),
        ),
        ("a: @x\n", 3, "unexpected character", "put a text that starts like this in quotes"),
        (
            "a: 99999999999999999999\n",
            3,
            "an integer beyond 2^53",
            "a number is at most 9007199254740992; where a text may stand, write it in quotes",
        ),
    ] {
        let refused = read(text).expect_err(text);
        assert!(refused.kind.to_string().starts_with(what), "{text}: {}", refused.kind);
        assert_eq!((refused.at, refused.kind.help()), (Some(at), help), "{text}");
    }
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{inner}]\n");
    }
    assert!(read(&bomb).is_err());
}

#[test]
fn deep_nesting_is_refused_and_not_a_crash() {
    for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(read(&deep).is_err(), "{}", &deep[..10]);
    }
    let fits = format!("{}{}", "[".repeat(PLAN_FILE_DEPTH_MAX), "]".repeat(PLAN_FILE_DEPTH_MAX));
    assert_eq!(read(&fits).unwrap().first_too_deep(), None);
    let over = format!("[{fits}]");
    assert!(read(&over).map_or(true, |located| located.first_too_deep().is_some()));
}

#[test]
fn two_documents_are_refused() {
    assert!(read("a: 1\n---\nb: 2\n").is_err());
}
