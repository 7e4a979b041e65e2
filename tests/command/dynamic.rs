//! Bad input for guards, lists and waits in real runs.

use super::web::Web;
use super::world::World;

#[test]
fn a_list_of_a_million_elements_is_refused_before_a_child_starts() {
    let numbers = Web::start(|_| (200, format!("[{}0]", "0,".repeat(999_999))));
    let address = numbers.address;
    let plan = format!(
        "id: many\nnodes:\n  - {{id: list, tool: http.request, params: {{method: GET, url: \"http://{address}/\"}}}}\n  - id: each\n    tool: fs.write\n    for_each: {{from: list, path: body, as: path, max: 1000}}\n    params: {{text: x, mode: replace}}\n"
    );
    let world = World::new();
    world.file("many.yaml", &plan);
    world.file("many.toml", &format!("[tools.http]\negress_allow = [\"{address}\"]\n"));
    let run = world.ostler("run many.yaml --workspace work --config many.toml").exits(1);
    run.says("failed each").says("1000000").says("1000");
    assert_eq!(std::fs::read_dir(world.path().join("work")).unwrap().count(), 0, "no child wrote a file");
}

#[test]
fn a_deadline_that_passes_without_a_process_fails_the_wait_and_not_the_run() {
    let world = World::new();
    let plan = "id: late\nnodes:\n  - {id: word, kind: wait, deadline: 200ms}\n  - {id: other, kind: aggregator, deps: [{n: word, on: terminal}], params: {template: \"{{ word.state }}\"}}\n";
    world.file("late.yaml", plan);
    let mut holder = world.start("run late.yaml --workspace work");
    holder.until("waits for an answer");
    holder.signal("KILL");
    holder.end();
    world.ostler("resume @last").says("no answer came before the deadline");
    world.ostler("artifact @last/other --path text").exits(0).says("failed");
    world.ostler("answer @last word --value 1").exits(1).complains("late: word has ended");
    for deadline in ["0s", "-1s", "-1"] {
        world.file("late.yaml", &plan.replace("200ms", deadline));
        world.ostler("check late.yaml").exits(2);
        world.ostler("run late.yaml --workspace work").exits(2);
    }
}
