//! Programs of a contract's tests: they count as calls like those of nodes.

use serde_json::{Value, json};

use super::world::World;

/// A world with programs that may have the network, `fetch.sh`, and that may not, `make.sh`; both write the same file.
fn world(policy: &str) -> World {
    let world = World::new();
    let entry = |argv: &str, effect: &str| format!("{{argv = {argv}, impact = 1, effect = \"{effect}\"}}");
    let entries = [
        entry(r#"["sh", "fetch.sh"]"#, "external"),
        entry(r#"["sh", "make.sh"]"#, "write"),
        entry(r#"["sh"]"#, "write"),
    ];
    world.file("own.toml", &format!("[tools.shell]\nallow = [{}]\n{policy}", entries.join(", ")));
    for program in ["fetch.sh", "make.sh"] {
        world.file(&format!("work/{program}"), "echo 'echo ran > out' > script; echo x >> calls");
    }
    world
}

/// The program as a node of its own, and as the test of a node that does nothing else.
fn as_node_and_as_test(program: &str) -> [Value; 2] {
    let argv = json!(["sh", program]);
    [
        json!({"id": "a", "tool": "shell.run", "params": {"argv": argv}, "human_timeout": "1h"}),
        json!({"id": "a", "tool": "text.render", "params": {"template": "hi", "values": {}}, "human_timeout": "1h",
            "contract": [{"method": "test", "spec": {"argv": argv}}]}),
    ]
}

fn run(world: &World, nodes: &Value) -> i32 {
    world.file("plan.json", &json!({"id": "p", "nodes": nodes}).to_string());
    world.ostler("run plan.json --workspace work --config own.toml").code.unwrap()
}

#[test]
fn a_test_with_the_network_makes_what_is_read_from_the_workspace_untrusted() {
    for (program, asks) in [("fetch.sh", true), ("make.sh", false)] {
        for fetch in as_node_and_as_test(program) {
            let world = world("");
            let nodes = json!([fetch,
                {"id": "r", "deps": ["a"], "tool": "fs.read", "params": {"path": "script"}},
                {"id": "x", "tool": "shell.run", "params": {"argv": ["sh"]}, "human_timeout": "1h",
                    "param_refs": {"stdin": {"from": "r", "path": "text"}}}]);
            assert_eq!(run(&world, &nodes), if asks { 3 } else { 0 }, "{program}: {fetch}");
            assert_eq!(world.work("out"), if asks { "" } else { "ran\n" }, "{program}: {fetch}");
            if asks {
                world.ostler("audit @last").exits(0).says("TAINT_SENSITIVE_PARAM");
            }
        }
    }
}

#[test]
fn a_test_that_sends_out_waits_for_a_person_after_strangers_and_private_data_were_read() {
    let both = "[policy]\nlabels = {\"fs.read\" = [\"private\"]}\nuntrusted = [\"text.stats\"]\n";
    let private = "[policy]\nlabels = {\"fs.read\" = [\"private\"]}\n";
    for (policy, asks) in [(both, true), (private, false)] {
        for mut sends in as_node_and_as_test("fetch.sh") {
            let world = world(policy);
            world.file("work/secret", "7f3a");
            sends["deps"] = json!(["s", "p"]);
            let nodes = json!([
                {"id": "s", "tool": "text.stats", "params": {"files": ["fetch.sh"]}},
                {"id": "p", "tool": "fs.read", "params": {"path": "secret"}},
                sends]);
            assert_eq!(run(&world, &nodes), if asks { 3 } else { 0 }, "{sends}");
            assert_eq!(world.work("calls"), if asks { "" } else { "x\n" }, "{sends}");
            if asks {
                world.ostler("audit @last").exits(0).says("RULE_OF_TWO");
                let asked = world.ostler("approvals --json").exits(0).lines().remove(0);
                let digest = asked["digest"].as_str().unwrap();
                world.ostler(&format!("approve @last a --digest {digest} --config own.toml"));
                world.ostler("resume @last --config own.toml");
                assert_eq!(world.work("calls"), "x\n", "{sends}");
            }
        }
    }
}
