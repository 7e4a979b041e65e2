//! A long run: memory, time per node and time to resume stay those of a short run.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::world::World;

/// Nodes; every fiftieth has a result of a megabyte.
const STEPS: usize = 2_000;

const LARGE_EVERY: usize = 50;

/// Allowed growth of memory after a quarter of the run: less than its large results.
const GROWTH_BYTES_MAX: u64 = 30 * 1_000_000;

fn world() -> World {
    let world = World::new();
    let line = "0123456789abcdef".repeat(64);
    let mut nodes: Vec<Value> = Vec::new();
    for step in 0..STEPS {
        let mut node = match step % LARGE_EVERY {
            25 => {
                let name = format!("f{step}.txt");
                fs::write(world.path().join("work").join(&name), format!("{step}\n{}", line.repeat(1_000)))
                    .unwrap();
                json!({"tool": "fs.read", "params": {"path": name, "max_bytes": 2_000_000}})
            }
            _ => json!({"tool": "text.render", "params": {"template": format!("step {step}"), "values": {}}}),
        };
        node["id"] = json!(format!("s{step}"));
        if step > 0 {
            node["deps"] = json!([format!("s{}", step - 1)]);
        }
        nodes.push(node);
    }
    world.file("long.json", &json!({"id": "long", "nodes": nodes}).to_string());
    world
}

#[test]
fn a_long_run_with_large_results_goes_on_at_one_pace_in_bounded_memory_and_is_taken_up_at_once() {
    let world = world();
    let mut run = world.start("run long.json --workspace work --json");
    let executed = |step: usize| format!(r#""node":"s{step}","reason":"ok","to":"executed""#);
    let mut marks = Vec::new();
    for quarter in 1..=3 {
        run.until(&executed(quarter * STEPS / 4));
        marks.push((run.busy(), run.rss_bytes()));
    }
    let grown = marks[2].1.saturating_sub(marks[0].1);
    assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes more at three quarters than at one: {marks:?}");
    let paces = (marks[1].0 - marks[0].0, marks[2].0 - marks[1].0);
    assert!(paces.1 < 4 * paces.0 + Duration::from_secs(1), "{paces:?}");
    run.signal("KILL");
    run.end();
    let mut again = world.start("resume --json");
    again.until(r#""to":"executed""#);
    let taken_up = again.busy();
    assert!(taken_up < Duration::from_secs(20), "{taken_up:?}");
    let ended = again.end().exits(0);
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["outcome"], "succeeded");
    // Completed nodes were not repeated: one attempt each, and at most one more for the interrupted node.
    let attempts = summary["attempts"].as_u64().unwrap();
    assert!((STEPS as u64..=STEPS as u64 + 1).contains(&attempts), "{attempts}");
}
