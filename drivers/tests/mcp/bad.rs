//! Servers that die, flood, lie, or never answer: each call is a typed failure, without a time-out where possible.

use std::time::{Duration, Instant};

use ostler_drivers::mcp::MCP_REQUESTS_MAX;
use ostler_kernel::run::FailureCategory;
use serde_json::json;

use crate::world::World;

/// Longer than every operation of these tests, and shorter than every time-out.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_server_that_dies_in_a_call_loses_its_answer_at_once() {
    let (world, since) = (World::started("dies_in_a_call", "impact = 1").await, Instant::now());
    let failure = world.failure("note", json!({"text": "once"})).await;
    assert_eq!(failure.category, FailureCategory::Crash, "the effect is unknown: {}", failure.message);
    assert!(failure.message.contains("the answer to mcp.x.note is lost"), "{}", failure.message);
    assert!(
        failure.message.ends_with("its program ended (exit status: 7): out of luck"),
        "{}",
        failure.message
    );
    assert!(since.elapsed() < SOON);
    assert_eq!(std::fs::read_to_string(world.path().join("notes")).unwrap(), "once\n");
    // The next call starts the server again.
    let failure = world.failure("note", json!({"text": "twice"})).await;
    assert_eq!(failure.category, FailureCategory::Crash);
    assert_eq!(std::fs::read_to_string(world.path().join("notes")).unwrap(), "once\ntwice\n");
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let world = World::new("dies_at_once", "");
    let why = world.server.look().await.unwrap_err();
    assert!(why.contains("exit status: 9") && why.ends_with("no licence"), "{why}");
    let world = World::new("never_answers", "start_ms = 300");
    let why = world.server.look().await.unwrap_err();
    assert_eq!(why, "it did not start and list its tools within 300 ms");
}

#[tokio::test]
async fn a_call_waits_for_a_start_no_longer_than_its_time_and_nothing_was_called() {
    let world = World::new("well", "impact = 1");
    world.accept().await;
    // No task serves the device, so the server never starts.
    let failure = world.call_within("note", json!({"text": "x"}), 200).await.unwrap_err();
    assert_eq!(failure.category, FailureCategory::Transient);
    assert!(
        failure.message.ends_with("did not start within the time of the call: nothing was called"),
        "{}",
        failure.message
    );
    assert!(!world.path().join("notes").exists());
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_connection() {
    let (world, since) = (World::started("floods", "impact = 0").await, Instant::now());
    let failure = world.failure("say", json!({"text": "x"})).await;
    assert_eq!(failure.category, FailureCategory::Crash, "{}", failure.message);
    assert!(failure.message.contains("it sent a message of more than 16777216 bytes"), "{}", failure.message);
    assert!(since.elapsed() < SOON);
}

#[tokio::test]
async fn requests_whose_answers_are_not_taken_end_the_connection() {
    let world = World::started("asks_without_reading", "impact = 0").await;
    let failure = world.failure("say", json!({"text": "x"})).await;
    let told = format!("it sent more than {MCP_REQUESTS_MAX} requests and did not take the answers");
    assert!(failure.message.ends_with(&told), "{}", failure.message);
}

#[tokio::test]
async fn a_result_that_breaks_the_schema_of_its_tool_is_an_invalid_output() {
    let world = World::started("lies", "impact = 0").await;
    let failure = world.failure("count", json!({})).await;
    assert_eq!(failure.category, FailureCategory::InvalidOutput);
    assert!(failure.message.contains("breaks the tool's own output schema"), "{}", failure.message);
}

#[tokio::test]
async fn an_error_of_a_tool_is_no_loss_and_nonsense_is_one() {
    let world = World::started("fails_and_refuses", "impact = 1").await;
    let failure = world.failure("say", json!({"text": "x"})).await;
    assert_eq!((failure.category, &*failure.message), (FailureCategory::Structural, "server x: no voice"));
    let failure = world.failure("note", json!({"text": "x"})).await;
    assert_eq!(failure.category, FailureCategory::Crash, "{}", failure.message);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server_and_the_next_goes_on() {
    let world = World::started("answers_after_a_cancel", "impact = 0").await;
    // The server runs and lists its tools before the call without an answer.
    assert_eq!(world.call("note", json!({"text": "x"})).await.unwrap()["text"], "x");
    let call = world.call("say", json!({"text": "x"}));
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err(), "it never answers");
    // The cancellation arrives in the meantime; each call is a round trip over the same connection.
    for _ in 0..1_000 {
        assert_eq!(world.call("note", json!({"text": "y"})).await.unwrap()["text"], "y");
        if world.path().join("cancelled").exists() {
            return;
        }
    }
    panic!("the server was not told");
}

#[tokio::test]
async fn lists_are_bounded_and_twins_refused() {
    let refused = |kind: &'static str| async move { World::new(kind, "").server.look().await };
    assert_eq!(refused("pages_without_end").await.unwrap_err(), "its list of tools has more than 100 pages");
    let why = refused("too_many_tools").await.unwrap_err();
    assert_eq!(why, "it lists more than 1000 tools or 16777216 bytes of them");
    let listing = refused("twins").await.unwrap();
    assert_eq!(listing.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["note"]);
    assert_eq!(listing.refused, [("say".to_owned(), "the server lists two tools of this name".to_owned())]);
}
