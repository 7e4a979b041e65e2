//! The files of a server's program: what was accepted is what runs.

use ostler_drivers::mcp::{McpConfig, McpServer};
use ostler_kernel::port::Device;
use ostler_kernel::run::FailureCategory;
use serde_json::{Value, json};

use crate::misbehaving::command;
use crate::world::World;

/// A shell script that becomes a server of [`crate::misbehaving`] after `first`.
fn script(kind: &str, first: &str) -> String {
    let server = command("misbehaving", kind).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
    format!("{first}\nexec {}\n", server.join(" "))
}

/// A server without a cage, whose program is the script `server.sh` in its folder.
fn world(table: &str, script: &str) -> World {
    let mut config: McpConfig = toml::from_str(table).unwrap();
    config.sandbox = ostler_drivers::mcp::Confined(false);
    config.command = ["sh", "./server.sh"].map(str::to_owned).to_vec();
    let world = World::with(config);
    std::fs::write(world.path().join("server.sh"), script).unwrap();
    world
}

/// Accepts the program as it is, as an operator would.
async fn accept(server: &McpServer) {
    let acceptance = json!({"tools": [], "removed": [], "program": server.program().await});
    server.accept(acceptance, "ann").unwrap();
}

async fn says(world: &World, text: &str) -> Value {
    world.call("say", json!({"text": text})).await.unwrap()["text"].clone()
}

#[tokio::test]
async fn a_changed_program_is_held_also_while_it_runs() {
    let world = world("impact = 0", &script("well", "")).start().await;
    assert_eq!(says(&world, "a").await, "a");
    let evil = script("well", "touch evil");
    std::fs::write(world.path().join("server.sh"), &evil).unwrap();
    for _ in 0..2 {
        let failure = world.failure("say", json!({"text": "b"})).await;
        assert_eq!(failure.category, FailureCategory::GateDenied);
        assert!(failure.message.starts_with("server x is held: server.sh changed"), "{}", failure.message);
    }
    let why = world.server.look().await.unwrap_err();
    assert!(why.contains("`ostler mcp accept x`") && why.contains("`may_change`"), "{why}");
    assert!(!world.path().join("evil").exists());
    // Accepted, it runs without a restart of this process.
    accept(&world.server).await;
    assert_eq!(says(&world, "c").await, "c");
    assert!(world.path().join("evil").exists());
    std::fs::write(world.path().join("server.sh"), &evil).unwrap();
    assert_eq!(says(&world, "d").await, "d", "the accepted content, written anew, is started anew");
}

#[tokio::test]
async fn a_file_that_changes_while_its_program_starts_ends_it() {
    // The script puts the accepted content back: the digests are those that were accepted.
    let swaps = script("well", "cp server.sh kept; echo evil >server.sh; cp kept server.sh; rm kept");
    let world = world("impact = 0", &swaps);
    let why = world.server.look().await.unwrap_err();
    assert!(why.starts_with("a file of its program changed while it started"), "{why}");
    let adds = script("well", "[ -e sh ] || touch sh");
    std::fs::write(world.path().join("server.sh"), adds).unwrap();
    let why = world.server.look().await.unwrap_err();
    assert!(why.starts_with("sh changed while it started"), "{why}");
    world.server.look().await.unwrap();
}

#[tokio::test]
async fn a_program_is_what_an_operator_saw() {
    let world = world("impact = 0", &script("well", ""));
    let seen = world.server.program().await;
    assert_eq!(seen.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["server.sh"]);
    std::fs::write(world.path().join("server.sh"), script("well", "touch evil")).unwrap();
    assert_eq!(world.server.look_at(&seen).await.unwrap_err(), "server.sh changed meanwhile");
    assert!(!world.path().join("evil").exists());
    let listing = world.server.look_at(&world.server.program().await).await.unwrap();
    assert_ne!(listing.program, seen);
}

#[tokio::test]
async fn files_anywhere_are_pinned_unless_they_may_change() {
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().canonicalize().unwrap();
    for name in ["server.py", "notes.db", "logs"] {
        std::fs::write(place.join(name), "").unwrap();
    }
    let names = async |more: &str| {
        let mut config: McpConfig = toml::from_str(more).unwrap();
        let place = place.display();
        let words = [format!("--directory={place}"), "run".into(), "server.py".into(), "notes.db".into()];
        config.command = ["no-such-uv".to_owned()].into_iter().chain(words).collect();
        let world = World::with(config);
        world.server.program().await.into_iter().map(|file| file.path).collect::<Vec<_>>()
    };
    let (server, notes) = (format!("{}/server.py", place.display()), format!("{}/notes.db", place.display()));
    assert_eq!(names("").await, [notes.as_str(), &server]);
    assert_eq!(names(&format!("may_change = [{notes:?}]")).await, [server]);
    assert_eq!(names(&format!("may_change = [{:?}]", place.display().to_string())).await, [""; 0]);
}

/// A server without a cage, whose program is this script below its folder.
fn world_at(path: &str, script: &str) -> World {
    let mut config = McpConfig { sandbox: ostler_drivers::mcp::Confined(false), ..McpConfig::default() };
    config.command = ["sh", path].map(str::to_owned).to_vec();
    let world = World::with(config);
    let place = world.path().join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, script).unwrap();
    world
}

#[tokio::test]
async fn a_link_or_a_folder_that_is_swapped_while_its_program_starts_ends_it() {
    let swaps = "mv code kept; mkdir code; echo evil >code/server.sh; rm -r code; mv kept code";
    let world = world_at("code/server.sh", &script("well", swaps));
    let why = world.server.look().await.unwrap_err();
    assert!(why.starts_with("a folder with a file of its program changed while it started"), "{why}");
    let swaps = "ln -sfn other now; ln -sfn code now";
    let world = world_at("now/server.sh", "");
    std::fs::rename(world.path().join("now"), world.path().join("code")).unwrap();
    std::os::unix::fs::symlink("code", world.path().join("now")).unwrap();
    std::fs::write(world.path().join("code/server.sh"), script("well", swaps)).unwrap();
    let why = world.server.look().await.unwrap_err();
    assert!(why.starts_with("a file of its program changed while it started"), "{why}");
}

#[tokio::test]
async fn a_link_in_the_place_of_what_may_change_frees_nothing() {
    let mut config: McpConfig = toml::from_str("may_change = [\"notes.db\", \"logs\"]").unwrap();
    config.command = ["sh", "./server.sh", "notes.db", "logs/server.sh"].map(str::to_owned).to_vec();
    let world = World::with(config);
    let names = async || world.server.program().await.into_iter().map(|file| file.path).collect::<Vec<_>>();
    std::fs::write(world.path().join("server.sh"), "").unwrap();
    std::fs::write(world.path().join("notes.db"), "").unwrap();
    assert_eq!(names().await, ["server.sh"]);
    std::fs::remove_file(world.path().join("notes.db")).unwrap();
    for name in ["notes.db", "logs"] {
        let target = if name == "logs" { "." } else { "server.sh" };
        std::os::unix::fs::symlink(target, world.path().join(name)).unwrap();
        assert_eq!(names().await, ["server.sh"], "{name}");
    }
}

#[tokio::test]
async fn byte_code_beside_a_pinned_module_holds_its_server_and_python_writes_none() {
    let config =
        McpConfig { command: ["python3", "-m", "srv"].map(str::to_owned).to_vec(), ..McpConfig::default() };
    let world = World::with(config);
    std::fs::write(world.path().join("srv.py"), "").unwrap();
    accept(&world.server).await;
    for planted in ["__pycache__/srv.cpython-311.pyc", "srv.abi3.so", "srv/__init__.py"] {
        let place = world.path().join(planted);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, "").unwrap();
        let why = world.server.held(&world.server.program().await).unwrap();
        assert!(why.starts_with(&format!("server x is held: {planted} changed")), "{why}");
        std::fs::remove_file(place).unwrap();
    }
    let world = world_at("server.sh", &script("well", "[ \"$PYTHONDONTWRITEBYTECODE\" = 1 ] || exit 3"));
    world.server.look().await.unwrap();
}
