//! Calls that are given up before their answer, of a server that may write.

use std::any::Any;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ostler_kernel::port::WorkspaceTurn;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::world::World;

/// A turn that a call gives back when the test says so.
struct Turn(Mutex<Option<Arc<Held>>>);

impl WorkspaceTurn for Turn {
    fn hold(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.lock().unwrap().clone().map(|held| -> Arc<dyn Any + Send + Sync> { held })
    }
}

impl Turn {
    fn give_back(&self) {
        self.0.lock().unwrap().take();
    }
}

/// Tells at the end of the turn whether the server's program is still there.
struct Held {
    program: String,
    told: UnboundedSender<bool>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.told.send(Path::new("/proc").join(&self.program).exists());
    }
}

struct Given {
    world: World,
    turn: Arc<Turn>,
    is_there: UnboundedReceiver<bool>,
    program: String,
}

impl Given {
    async fn new() -> Given {
        let world = World::started("waits_for_a_pipe", "impact = 1").await;
        let path = world.path().join("go");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let program = program(&world).await;
        let (told, is_there) = unbounded_channel();
        let held = Arc::new(Held { program: program.clone(), told });
        Given { world, turn: Arc::new(Turn(Mutex::new(Some(held)))), is_there, program }
    }

    /// Gives a call up on which the server works. The server answers once the pipe is closed.
    async fn give_up(&self) -> File {
        let path = self.world.path().join("go");
        let turn: Arc<dyn WorkspaceTurn> = self.turn.clone();
        let call = self.world.call_in_turn("say", json!({"text": "x"}), 60_000, Some(turn));
        // Until the server reads the pipe.
        let opened = tokio::task::spawn_blocking(|| File::options().write(true).open(path).unwrap());
        tokio::select! {
            answer = call => panic!("the server waits for the pipe: {answer:?}"),
            opened = opened => opened.unwrap(),
        }
    }
}

/// The process that answers.
async fn program(world: &World) -> String {
    let answer = world.call_within("note", json!({"text": "x"}), 10_000).await.unwrap();
    answer["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_call_that_was_given_up_has_its_turn_until_the_server_answers() {
    let mut given = Given::new().await;
    let pipe = given.give_up().await;
    given.turn.give_back();
    assert!(given.is_there.try_recv().is_err(), "the server may write yet");
    drop(pipe);
    assert_eq!(given.is_there.recv().await, Some(true));
    assert_eq!(program(&given.world).await, given.program, "the server goes on");
}

#[tokio::test]
async fn a_server_that_does_not_answer_a_call_that_was_given_up_is_ended_before_the_turn() {
    let mut given = Given::new().await;
    let pipe = given.give_up().await;
    given.turn.give_back();
    assert!(given.is_there.try_recv().is_err());
    // The time passes as soon as everything waits.
    tokio::time::pause();
    assert_eq!(given.is_there.recv().await, Some(false));
    tokio::time::resume();
    assert_ne!(program(&given.world).await, given.program);
    drop(pipe);
}

#[tokio::test]
async fn a_server_is_ended_at_once_if_a_call_is_given_up_without_its_turn() {
    let given = Given::new().await;
    // The call asks a person.
    given.turn.give_back();
    let pipe = given.give_up().await;
    assert_ne!(program(&given.world).await, given.program, "no call waits for the limit");
    drop(pipe);
}
