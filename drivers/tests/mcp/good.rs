//! A correct server, and a server with changing definitions.

use ostler_drivers::mcp::MCP_QUESTION_BYTES_MAX;
use ostler_kernel::run::FailureCategory;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_tool_is_called_with_its_class_and_its_identity() {
    let world = World::started("well", "impact = {say = 0}").await;
    assert_eq!(world.call("say", json!({"text": "hello"})).await.unwrap(), json!({"text": "hello"}));
    let (say, note) = (world.tool("say"), world.tool("note"));
    let none = serde_json::Map::new();
    assert_eq!([say.class(&none).impact, note.class(&none).impact], [0, 2], "nobody vouches for note");
    assert!(say.reads_strangers());
    assert_ne!(say.spec().version, note.spec().version);
    world.call("note", json!({"text": "a"})).await.unwrap();
    world.call("note", json!({"text": "b"})).await.unwrap();
    assert_eq!(std::fs::read_to_string(world.path().join("notes")).unwrap(), "a\nb\n");
}

#[tokio::test]
async fn a_question_amid_a_call_is_asked_of_a_person() {
    let world = World::started("asks", "impact = 1").await;
    let answer = world.call("say", json!({"text": "x"})).await.unwrap();
    assert_eq!(answer["text"], r#"{"action":"accept","content":{"sure":true}}"#);
    let asked = world.asked.lock().unwrap();
    assert_eq!(
        *asked,
        [r#"The server of mcp.x.say asks amid a call: Really? (a yes answers {"sure":true})"#]
    );
}

/// A yes covers only values that are shown.
#[tokio::test]
async fn a_question_that_is_too_long_to_be_shown_whole_is_declined() {
    let world = World::started("asks", "impact = 1").await;
    for (length, action) in [(MCP_QUESTION_BYTES_MAX / 2, "accept"), (MCP_QUESTION_BYTES_MAX, "decline")] {
        let answer = world.call("say", json!({"text": "x".repeat(length)})).await.unwrap();
        assert!(answer["text"].as_str().unwrap().contains(&format!("\"action\":\"{action}\"")), "{answer}");
    }
    let asked = world.asked.lock().unwrap();
    assert!(
        matches!(&asked[..], [one] if one.contains(&"x".repeat(MCP_QUESTION_BYTES_MAX / 2))),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_tool_that_differs_from_its_accepted_definition_is_held_until_it_is_accepted() {
    let mut world = World::started("well", "impact = 1").await;
    world.refused = "differently".to_owned();
    std::fs::write(world.path().join("changed"), "").unwrap();
    std::fs::write(world.path().join("added"), "").unwrap();
    let held = world.failure("say", json!({"text": "x"})).await;
    assert_eq!(held.category, FailureCategory::GateDenied);
    assert!(held.message.contains("is held: it is described differently by its server"), "{}", held.message);
    assert!(held.message.contains("`ostler mcp accept x say`"), "{}", held.message);
    assert_eq!(world.call("note", json!({"text": "y"})).await.unwrap()["text"], "y", "others go on");
    // After a yes to the difference the call goes on, and the next call asks no question.
    world.refused.clear();
    assert_eq!(world.call("say", json!({"text": "x"})).await.unwrap()["text"], "x");
    assert_eq!(world.call("say", json!({"text": "z"})).await.unwrap()["text"], "z");
    let asked = std::mem::take(&mut *world.asked.lock().unwrap());
    let difference = "say (changed)\n  - description: Says it\n  + description: Says it, and tells others";
    assert_eq!(asked.iter().filter(|asked| asked.ends_with(difference)).count(), 2, "{asked:?}");
    let again = World::started("well", "impact = 1").await;
    std::fs::write(again.path().join("changed"), "").unwrap();
    again.accept().await;
    assert_eq!(again.call("say", json!({"text": "x"})).await.unwrap()["text"], "x");
}

#[tokio::test]
async fn a_server_reads_writes_and_reaches_what_its_table_says() {
    let outside = tempfile::tempdir().unwrap();
    let file = |name: &str| outside.path().join(name).to_string_lossy().into_owned();
    std::fs::write(file("secret"), "s").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let told = [
        format!("read {}", file("secret")),
        format!("write {}", file("new")),
        "write here".to_owned(),
        format!("connect {address}"),
    ];
    let tries = async |world: &World| {
        let mut done = Vec::new();
        for line in &told {
            let said = world.call("say", json!({"text": line})).await.unwrap();
            done.push(said["text"] == "done");
        }
        done
    };
    let Some(world) = World::caged("prowls", "impact = 1").await else { return };
    std::fs::write(world.path().join("mine"), "m").unwrap();
    assert_eq!(world.call("say", json!({"text": "read mine"})).await.unwrap()["text"], "done");
    assert_eq!(tries(&world).await, [false; 4]);
    let more = format!("impact = 1\nnetwork = true\nwrite = [{:?}, \".\"]", outside.path());
    let world = World::caged("prowls", &more).await.unwrap();
    assert_eq!(tries(&world).await, [true; 4]);
}

#[tokio::test]
async fn a_tool_that_changes_while_the_server_runs_is_held() {
    let mut world = World::started("turns", "impact = 1").await;
    world.refused = "differently".to_owned();
    world.call("say", json!({"text": "x"})).await.unwrap();
    world.call("note", json!({"text": "y"})).await.unwrap();
    // The new list arrives in the meantime; each call is a round trip over the same connection.
    let mut held = None;
    for _ in 0..100 {
        held = world.call("say", json!({"text": "x"})).await.err();
        if held.is_some() {
            break;
        }
    }
    assert!(held.unwrap().message.contains("is held: it is described differently"));
}

#[tokio::test]
async fn progress_is_a_sign_of_life_and_a_line_for_people() {
    let world = World::started("tells_progress", "impact = 0").await;
    world.call("say", json!({"text": "x"})).await.unwrap();
    assert_eq!(world.told.lock().unwrap().join(""), "progress 1 of 2: half done\n♥");
}
