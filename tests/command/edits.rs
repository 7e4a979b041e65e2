//! Edits of results that are refused.

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
