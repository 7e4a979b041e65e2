//! A pool of sessions. One of them crashes repeatedly: the pool gives it up, and the others are not affected.
//!
//! ```console
//! $ cargo run -p ostler-supervisor --example sessions
//! ```

#![allow(clippy::print_stdout, reason = "a program that tells what it does")]

use std::sync::Arc;
use std::time::Duration;

use ostler_supervisor::{ChildEvent, ChildSpec, Event, Exit, Intensity, Pool, PoolSpec, Restart};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc::unbounded_channel;

struct Session {
    guest: &'static str,
}

impl Actor for Session {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_start(&self, _: ActorRef<()>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match self.guest {
            "mallory" => Err("cannot serve this guest".into()),
            _ => Ok(()),
        }
    }

    /// The guest leaves: the session ends by itself, its work done.
    async fn handle(&self, _: ActorRef<()>, (): (), (): &mut ()) -> Result<(), ActorProcessingErr> {
        Err(Exit::Normal.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (left, mut leaves) = unbounded_channel();
    let observer = move |event: &Event<'_>| {
        let guest = event.id;
        match event.kind {
            ChildEvent::Restarted { .. } => println!("{guest}: start {}", event.generation),
            ChildEvent::GivenUp { exit } => {
                println!("{guest}: given up, {exit}");
                let _ = left.send(guest.clone());
            }
            ChildEvent::Exited { exit: Exit::Normal, .. } => {
                println!("{guest}: has left");
                let _ = left.send(guest.clone());
            }
            _ => {}
        }
    };
    let spec = PoolSpec {
        max_children: 100,
        // Each session may crash twice a minute; the pool has no limit of its own.
        child_intensity: Some(Intensity::new(2, Duration::from_secs(60))),
        intensity: Intensity::UNLIMITED,
        ..PoolSpec::default()
    };
    let pool = Pool::start_observed(spec, Arc::new(observer)).await?;
    for guest in ["alice", "bob", "mallory"] {
        let session = ChildSpec::actor(guest, move || Session { guest }, || ()).restart(Restart::Transient);
        pool.start_child(session).await?;
    }
    assert_eq!(leaves.recv().await.as_ref().map(|guest| guest.as_str()), Some("mallory"));

    pool.child::<Session>("bob").ok_or("bob is served")?.send_message(())?;
    assert_eq!(leaves.recv().await.as_ref().map(|guest| guest.as_str()), Some("bob"));
    let still: Vec<String> = pool.which_children().await.iter().map(|child| child.id.to_string()).collect();
    println!("still here: {}", still.join(", "));
    assert_eq!(still, ["alice"]);
    pool.stop().await;
    Ok(())
}
