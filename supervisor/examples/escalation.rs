//! A branch that cannot recover by itself gives up and is restarted as a whole; when that does not help, the root gives
//! up and reports the chain of failures.
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

/// Crashes the present `log` of the branch, if any exists.
async fn crash(root: &SupervisorRef) {
    let log = root.supervisor("storage").and_then(|storage| storage.child::<Fragile>("log"));
    if let Some(log) = log {
        // An error means that the log has crashed already.
        let _ = log.send_message(());
    }
    tokio::task::yield_now().await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `log` may crash once a minute, then its branch ends; and the branch may end once.
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
