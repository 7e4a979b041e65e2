//! A program that prints more than a result keeps.

use serde_json::Value;

use super::world::World;

#[test]
fn what_a_result_leaves_out_is_counted_and_told() {
    let world = World::new();
    world.file(
        "p.yaml",
        "id: p\nnodes:\n\
         \x20 - {id: many, tool: shell.run, params: {argv: [seq, '1', '500000']}}\n\
         \x20 - {id: few, tool: shell.run, params: {argv: [echo, hi]}}\n\
         \x20 - {id: go, tool: fs.list, params: {path: .}, when: {from: many, path: stdout_bytes_left_out, op: eq, value: 0}}\n",
    );
    let ran = world.ostler("run p.yaml --workspace work --intent 2").exits(0);
    let told = "left out       of what programs printed: many (2340319 bytes)";
    ran.says(told).says("go    skipped");
    world.ostler("show @last").exits(0).says(told);
    let shown = world.ostler("show @last --json").exits(0).lines().remove(0);
    assert_eq!(shown["left_out"]["many"], 2_340_319);
    let few = world.ostler("artifact @last/few").exits(0).out;
    let few: Value = serde_json::from_str(&few).unwrap();
    assert_eq!((&few["stdout_bytes_left_out"], &few["stderr_bytes_left_out"]), (&0.into(), &0.into()));
    let sum: u64 = (1..=500_000_u64).map(|number| number.to_string().len() as u64 + 1).sum();
    assert_eq!(sum - (1 << 20), 2_340_319);
}
