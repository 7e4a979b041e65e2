//! The program of an MCP server in a workspace: other code does not run under what was accepted.

use super::world::World;

const RUN: &str = "--config ostler.toml --workspace work";

/// A server that says `answer`, and leaves a file when it starts.
fn server(answer: &str) -> String {
    format!(
        r#"import json, sys
open("{answer}-ran", "w").close()
tools = [{{"name": "say", "inputSchema": {{"type": "object"}}}}]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    results = {{
        "initialize": {{
            "protocolVersion": message.get("params", {{}}).get("protocolVersion"),
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": "small", "version": "1"}},
        }},
        "tools/list": {{"tools": tools}},
        "tools/call": {{"content": [{{"type": "text", "text": "{answer}"}}]}},
    }}
    answer = {{"jsonrpc": "2.0", "id": message["id"]}}
    if message["method"] in results:
        answer["result"] = results[message["method"]]
    else:
        answer["error"] = {{"code": -32601, "message": "no such method"}}
    print(json.dumps(answer), flush=True)
"#
    )
}

/// A world with an accepted server whose program lies in the workspace, a plan that calls it, and one that rewrites it in between.
fn world(kept: &str) -> World {
    let world = World::new();
    let table = format!(
        "[mcp.x]\nsandbox = false\ncommand = [\"python3\", \"work/server.py\"]\nimpact = 0\n{kept}\n"
    );
    world.file("ostler.toml", &table).file("work/server.py", &server("kind"));
    world.file("call.yaml", "id: call\nnodes:\n  - {id: n, tool: mcp.x.say}\n");
    let content = serde_json::Value::from(server("evil"));
    let rewrite = format!(
        "id: rewrite\nnodes:\n  - {{id: first, tool: mcp.x.say}}\n  \
         - {{id: write, deps: [first], tool: fs.write, params: {{path: server.py, text: {content}, mode: replace}}}}\n  \
         - {{id: n, deps: [write], tool: mcp.x.say, retries: 0}}\n"
    );
    world.file("rewrite.yaml", &rewrite);
    world.ostler(&format!("run call.yaml {RUN}")).exits(0);
    assert_eq!(said(&world), "kind");
    world
}

fn said(world: &World) -> String {
    world.ostler("artifact @last/n --path text --config ostler.toml").exits(0).out.clone()
}

fn has_run(world: &World, answer: &str) -> bool {
    world.path().join(format!("{answer}-ran")).exists()
}

const HELD: &str =
    "server x is held: work/server.py changed since its program was accepted; `ostler mcp accept x`";

#[test]
fn a_program_that_a_step_rewrites_is_not_started_before_it_is_accepted() {
    let world = world("");
    // The server runs when a step rewrites its program, and later it does not.
    for plan in ["rewrite.yaml", "call.yaml"] {
        world.ostler(&format!("run {plan} {RUN}")).exits(1).says(HELD);
    }
    let listed = world.ostler("mcp ls --config ostler.toml").exits(0).complains(HELD);
    listed.says("x           1  (first start)  python3 work/server.py");
    world.ostler("mcp tools x --config ostler.toml").exits(0).complains(HELD);
    world.ostler("mcp ls --json --config ostler.toml").exits(0).says("\"held\":\"server x is held");
    let probed = world.ostler("mcp probe x --config ostler.toml").exits(1).says(HELD);
    let difference = "work/server.py (changed)\n";
    let lines = "    -open(\"kind-ran\", \"w\").close()\n";
    probed.says(difference).says(lines);
    let asked = world.ostler("mcp accept x --config ostler.toml").exits(3).says(difference);
    asked.says(lines).says("nothing was accepted").complains("`ostler mcp accept x --yes`");
    assert!(has_run(&world, "kind") && !has_run(&world, "evil"));
    // Acceptance needs the operator key, as approvals do.
    let mut eve = world.command("mcp accept x --yes --config ostler.toml");
    let eve = eve.env("XDG_CONFIG_HOME", world.path().join("eve")).output().unwrap();
    assert_eq!(eve.status.code(), Some(6), "{eve:?}");
    world.ostler("mcp accept x --yes --config ostler.toml").exits(0).says("accepted: the program (1 file)");
    world.ostler(&format!("run call.yaml {RUN}")).exits(0);
    assert_eq!(said(&world), "evil");
    world.ostler("mcp accept x --config ostler.toml").exits(0).says("nothing differs");
}

#[test]
fn tools_that_were_accepted_without_their_program_are_held_once() {
    let world = world("");
    let pins = world.path().join("data/mcp/x.json");
    let mut accepted: serde_json::Value = serde_json::from_slice(&std::fs::read(&pins).unwrap()).unwrap();
    accepted.as_object_mut().unwrap().remove("program").unwrap();
    std::fs::write(&pins, accepted.to_string()).unwrap();
    let held = "its tools were accepted without the files of its program, work/server.py";
    world.ostler(&format!("run call.yaml {RUN}")).exits(1).says(held).says("`ostler mcp accept x`");
    let accepted = world.ostler("mcp accept x --yes --config ostler.toml").exits(0);
    let accepted = accepted.says("pins work/server.py (b3:").says("work/server.py (added)");
    accepted.says("accepted: the program (1 file)");
    world.ostler(&format!("run call.yaml {RUN}")).exits(0);
}

#[test]
fn what_the_operator_lets_change_is_not_asked_about() {
    let world = world("may_change = [\"work/server.py\"]");
    world.ostler(&format!("run rewrite.yaml {RUN}")).exits(0);
    world.ostler(&format!("run call.yaml {RUN}")).exits(0);
    assert_eq!(said(&world), "evil");
}

/// Ostler and the server run in different folders, so such a link leads them to different files.
#[test]
fn a_link_through_the_folder_of_a_process_is_not_pinned_and_starts_nothing() {
    let world = world("");
    let (program, kept) = (world.path().join("work/server.py"), world.path().join("server.py"));
    std::fs::rename(&program, &kept).unwrap();
    std::os::unix::fs::symlink("/proc/self/cwd/server.py", &program).unwrap();
    std::fs::remove_file(world.path().join("kind-ran")).unwrap();
    let why = "work/server.py leads through the folder of a process";
    world.ostler(&format!("run call.yaml {RUN}")).exits(1).says(why);
    world.ostler("mcp ls --config ostler.toml").exits(0).complains(why);
    world.ostler("mcp accept x --yes --config ostler.toml").exits(5).complains(why);
    assert!(!has_run(&world, "kind"));
}
