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
    let refused = world.ostler("edit @last say --file r.json").exits(2);
    refused.complains("breaks the contract of the node: ").complains("'words' was unexpected");
    world.ostler("edit @last say --file r.json --dry-run").exits(0).says("executes at most 0 nodes");
}
