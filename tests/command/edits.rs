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
