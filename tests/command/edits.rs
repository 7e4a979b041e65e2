//! Edits of results that are refused.

use super::approval_prompt::at_terminal;
use super::world::World;

#[test]
fn a_refused_edit_says_why_before_and_when_it_is_made() {
    let world = World::new();
    world.file(
        "p.yaml",
        "id: p\nnodes:\n\
         \x20 - {id: put, tool: fs.write, params: {path: a.txt, text: hi, mode: create}}\n\
         \x20 - {id: say, tool: text.render, params: {template: hi}}\n",
    );
    world.file("r.json", "{\"words\": 3}");
    world.ostler("run p.yaml --workspace work").exits(0);
    for edit in ["edit @last put --file r.json --dry-run", "edit @last put --file r.json"] {
        world.ostler(edit).exits(2).complains("it changed the world, and what happened cannot be edited");
    }
    for edit in ["edit @last say --file r.json --dry-run", "edit @last say --file r.json"] {
        let refused = world.ostler(edit).exits(2);
        refused.complains("breaks the contract of the node: ").complains("'words' was unexpected");
    }
    world.file("s.json", "{\"text\": \"ho\"}");
    let other = format!("edit @last say --file s.json --if-digest b3:{}", "0".repeat(64));
    for edit in [format!("{other} --dry-run"), other] {
        world.ostler(&edit).exits(2).complains("its result is b3:");
    }
    world.ostler("edit @last say --file s.json --dry-run").exits(0).says("executes at most 0 nodes");
}

#[test]
fn an_edit_elsewhere_repeats_no_effect_of_a_list() {
    let world = World::new();
    world.file("work/a.in", "").file("work/b.in", "");
    world.file(
        "p.yaml",
        "id: p\nnodes:\n\
         \x20 - {id: list, tool: fs.list, params: {path: ., glob: '*.in'}}\n\
         \x20 - id: put\n    tool: fs.write\n    for_each: {from: list, path: files, as: text, max: 5}\n    params: {path: out, mode: append}\n\
         \x20 - {id: side, tool: text.render, params: {template: hi}}\n",
    );
    world.file("s.json", "{\"text\": \"ho\"}");
    world.ostler("run p.yaml --workspace work").exits(0);
    let before = world.work("out");
    assert!(before.contains("a.in") && before.contains("b.in"), "{before}");
    let edit = "edit @last side --file s.json";
    world.ostler(&format!("{edit} --dry-run")).exits(0).says("executes at most 0 nodes");
    world.ostler(edit).exits(0);
    assert_eq!(world.work("out"), before);
}

#[test]
fn a_recorded_read_stands_in_for_no_other_workspace() {
    let world = World::new();
    world.file("work/n.txt", "first");
    std::fs::create_dir(world.path().join("other")).unwrap();
    world.file("other/n.txt", "second");
    world.file("p.yaml", "id: p\nnodes:\n  - {id: r, tool: fs.read, params: {path: n.txt}, fresh: 10m}\n");
    world.ostler("run p.yaml --workspace work").exits(0).says("first");
    world.ostler("run p.yaml --workspace work").exits(0).says("reused").says("first");
    world.ostler("run p.yaml --workspace other").exits(0).says("second");
}

#[test]
fn an_earlier_edit_whose_inputs_change_is_asked_about() {
    let world = World::new();
    let plan = |word: &str| {
        world.file(
            "p.yaml",
            &format!(
                "id: p\nnodes:\n\
                 \x20 - {{id: a, tool: text.render, params: {{template: {word}}}}}\n\
                 \x20 - {{id: b, tool: text.render, params: {{values: {{}}}}, param_refs: {{template: {{from: a, path: text}}}}}}\n\
                 \x20 - {{id: c, tool: text.render, params: {{values: {{}}}}, param_refs: {{template: {{from: b, path: text}}}}}}\n"
            ),
        );
    };
    let text = |node: &str| world.ostler(&format!("artifact @last/{node} --path text")).exits(0).out;
    plan("one");
    world.file("b.json", "{\"text\": \"by hand\"}").file("a.json", "{\"text\": \"three\"}");
    world.ostler("run p.yaml --workspace work").exits(0);
    world.ostler("edit @last b --file b.json").exits(0);
    // A repetition that does not change what the edit rests on needs no answer.
    world.ostler("rerun @last").exits(0);
    assert_eq!(text("c"), "by hand");
    plan("two");
    for repetition in ["rerun @last --plan p.yaml", "edit @last a --file a.json"] {
        let dry = world.ostler(&format!("{repetition} --dry-run")).exits(0);
        dry.says(
            "stale       b: edited before; stays with --keep-edits, is computed again with --drop-edits",
        );
        let refused = world.ostler(repetition).exits(2);
        refused.complains("b: edited before").complains("--keep-edits").complains("--drop-edits");
    }
    world.ostler("rerun @last --plan p.yaml --keep-edits --drop-edits").exits(2);
    let asked = "anything else cancels > ";
    for (typed, expected, below) in [("c\n", 2, "by hand"), ("r\n", 0, "two")] {
        let at_terminal = at_terminal(&world, "rerun @last --plan p.yaml", &[(asked, typed)]);
        let Some((code, said)) = at_terminal else { break };
        assert_eq!((code, text("c").as_str()), (expected, below), "{said}");
        if code == 0 {
            // The edit is gone; make it again.
            plan("one");
            world.ostler("rerun @last --plan p.yaml").exits(0);
            assert_eq!(text("c"), "one");
            world.ostler("edit @last b --file b.json").exits(0);
            plan("two");
        }
    }
    world.ostler("rerun @last --plan p.yaml --keep-edits").exits(0);
    assert_eq!((text("a").as_str(), text("c").as_str()), ("two", "by hand"));
    let drop = "edit @last a --file a.json --drop-edits";
    world.ostler(&format!("{drop} --dry-run")).exits(0).says("executes at most 2 nodes");
    world.ostler(drop).exits(0);
    assert_eq!((text("b").as_str(), text("c").as_str()), ("three", "three"));
}
