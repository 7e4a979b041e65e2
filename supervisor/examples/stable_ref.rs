//! A worker that crashes, and a client that holds a stable reference and does not notice.
//!
//! ```console
//! $ cargo run -p ostler-supervisor --example stable_ref
//! ```

#![allow(clippy::print_stdout, reason = "a program that tells what it does")]

use std::time::Duration;

use ostler_supervisor::{ChildSpec, Intensity, StableRef, Strategy, Supervisor, SupervisorSpec, Unreachable};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

struct Divider;

struct Divide {
    by: u32,
    reply: RpcReplyPort<u32>,
}

impl Actor for Divider {
    type Msg = Divide;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Divide>, (): ()) -> Result<(), ActorProcessingErr> {
        println!("a divider starts");
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Divide>,
        Divide { by, reply }: Divide,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let quotient = 100_u32.checked_div(by).ok_or("nothing is divided by zero")?;
        Ok(reply.send(quotient)?)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let divider = StableRef::new();
    let spec = SupervisorSpec {
        intensity: Intensity::new(3, Duration::from_secs(60)),
        ..SupervisorSpec::new(
            Strategy::OneForOne,
            vec![ChildSpec::actor("divider", || Divider, || ()).stable_ref(&divider)],
        )
    };
    let root = Supervisor::start(spec).await?;

    for by in [4, 0, 5] {
        // Waits during a restart.
        divider.up().await?;
        match divider.call(|reply| Divide { by, reply }).await {
            Ok(quotient) => println!("100 / {by} = {quotient}"),
            Err(Unreachable::Unanswered) => println!("100 / {by}: the divider did not survive that"),
            // The worker may have crashed since.
            Err(Unreachable::Restarting) => println!("100 / {by}: not now"),
            Err(Unreachable::Ended) => return Err(Unreachable::Ended.into()),
        }
    }
    let child = &root.which_children().await[0];
    println!("{} was restarted {} time; its last end: {:?}", child.id, child.restarts, child.last_exit);
    assert_eq!(child.restarts, 1);

    root.stop().await;
    assert_eq!(divider.get(), Err(Unreachable::Ended));
    Ok(())
}
