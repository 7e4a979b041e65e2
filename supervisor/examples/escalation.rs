//! A branch that cannot be mended from within: it gives up, and is started anew as a whole; when that does not help either,
//! the root gives up and tells the chain of failures.
//!
//! ```console
//! $ cargo run -p ostler-supervisor --example escalation
//! ```

#![allow(clippy::print_stdout, reason = "a program that tells what it does")]

use std::time::Duration;

use ostler_supervisor::{
    Branch, ChildSpec, Exit, Intensity, Strategy, Supervisor, SupervisorRef, SupervisorSpec,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// Ends with an error when it is told anything.
struct Fragile;

impl Actor for Fragile {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<()>, (): (), (): &mut ()) -> Result<(), ActorProcessingErr> {
        Err("the disk is full".into())
    }
}

fn fragile(id: &str) -> ChildSpec {
    ChildSpec::actor(id, || Fragile, || ())
}

fn family(strategy: Strategy, restarts: u32, children: Vec<ChildSpec>) -> SupervisorSpec {
    let intensity = Intensity::new(restarts, Duration::from_secs(60));
    SupervisorSpec { intensity, ..SupervisorSpec::new(strategy, children) }
}

fn tell(branches: &[Branch], depth: usize) {
    for Branch { child, branches, .. } in branches {
        let indent = depth * 2;
        println!("{:indent$}{}: start {}, {} restarts", "", child.id, child.generation, child.restarts);
        tell(branches, depth + 1);
    }
}

/// Lets the present `log` of the branch crash, if there is one.
async fn crash(root: &SupervisorRef) {
    let log = root.supervisor("storage").and_then(|storage| storage.child::<Fragile>("log"));
    if let Some(log) = log {
        // It may be gone by now: then this has happened already.
        let _ = log.send_message(());
    }
    tokio::task::yield_now().await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `log` may crash once a minute, then its branch ends; and that may happen once.
    let storage = family(Strategy::RestForOne, 1, vec![fragile("log"), fragile("index")]);
    let children = vec![ChildSpec::supervisor("storage", storage), fragile("web")];
    let root = Supervisor::start(family(Strategy::OneForOne, 1, children)).await?;
    tell(&root.tree(10).await, 0);

    while root.which_children().await.iter().all(|child| child.restarts == 0) {
        crash(&root).await;
    }
    println!("after two crashes of the log:");
    tell(&root.tree(10).await, 0);

    while !root.which_children().await.is_empty() {
        crash(&root).await;
    }
    assert_eq!(root.wait_exit().await, Exit::Shutdown);
    for cause in root.causes() {
        println!("because {} ended: {}", cause.id, cause.exit);
    }
    assert_eq!(root.causes().len(), 2);
    Ok(())
}
