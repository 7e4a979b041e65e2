//! The wrapper around a user's actor: it records how the actor ended and keeps the token beside
//! the state, so that the end is heard only when the state is gone.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::completion::Token;
use crate::exit::Exit;

/// A user's actor under supervision.
///
/// The fields drop in order, so the token outlives the actor.
pub(crate) struct Supervised<A> {
    actor: A,
    token: Token,
}

/// A user's state under supervision; the token outlives the state.
pub(crate) struct Held<A: Actor> {
    state: A::State,
    myself: ActorRef<A::Msg>,
    /// The orderly exit that a hook asked for, until the stop hook has run.
    leaving: Option<Exit>,
    token: Token,
}

impl<A: Actor> Supervised<A> {
    pub(crate) fn new(actor: A, token: Token) -> Self {
        Supervised { actor, token }
    }
}

/// Runs a hook to its end; a panic becomes an exit. Not an `async fn`, which would hold the hook twice: the future of a
/// message is moved several times before it is polled.
fn guarded<T>(
    hook: impl Future<Output = Result<T, ActorProcessingErr>>,
) -> impl Future<Output = Result<T, Hurt>> {
    AssertUnwindSafe(hook).catch_unwind().map(|ended| match ended {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Hurt::Error(error)),
        Err(payload) => Err(Hurt::Exit(Exit::of_panic(payload))),
    })
}

/// How a hook went wrong.
#[derive(Debug)]
pub(crate) enum Hurt {
    Error(ActorProcessingErr),
    Exit(Exit),
}

impl<A: Actor> Held<A> {
    fn new(state: A::State, myself: ActorRef<A::Msg>, token: Token) -> Self {
        // Until the start hook is over it can be killed without a trace.
        token.completion().doubt();
        Held { state, myself, leaving: None, token }
    }

    /// The hooks are over, and the actor ends this way.
    fn end(&self, exit: Exit) {
        self.token.completion().record(exit);
        self.token.completion().end();
    }

    /// Turns the outcome of a running hook into what the actor runtime should see: an orderly exit
    /// is a stop request, so that the stop hook runs; anything else ends the actor at once.
    fn settle(&mut self, outcome: Result<(), Hurt>) -> Result<(), ActorProcessingErr> {
        let exit = match outcome {
            Ok(()) => return Ok(()),
            Err(Hurt::Error(error)) => Exit::of_error(error),
            Err(Hurt::Exit(exit)) => exit,
        };
        if exit.is_abnormal() {
            self.end(exit.clone());
            return Err(exit.into());
        }
        self.leaving.get_or_insert(exit);
        self.myself.stop(None);
        Ok(())
    }
}

impl<A: Actor> Actor for Supervised<A> {
    type Msg = A::Msg;
    type State = Held<A>;
    type Arguments = A::Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        args: A::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let hook = async { self.actor.pre_start(myself.clone(), args).await };
        match guarded(hook).await {
            Ok(state) => Ok(Held::new(state, myself, self.token.clone())),
            Err(hurt) => Err(NotUp(hurt).into()),
        }
    }

    async fn post_start(
        &self,
        myself: ActorRef<A::Msg>,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let outcome = guarded(async { self.actor.post_start(myself, &mut held.state).await }).await;
        held.token.completion().trust();
        held.settle(outcome)
    }

    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let outcome = guarded(async { self.actor.handle(myself, message, &mut held.state).await }).await;
        held.settle(outcome)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let hook = async { self.actor.handle_supervisor_evt(myself, event, &mut held.state).await };
        let outcome = guarded(hook).await;
        held.settle(outcome)
    }

    async fn post_stop(
        &self,
        myself: ActorRef<A::Msg>,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        // From here on it can be killed without a trace.
        held.token.completion().doubt();
        let outcome = guarded(async { self.actor.post_stop(myself, &mut held.state).await }).await;
        let exit = match outcome {
            Ok(()) => match held.leaving.take() {
                Some(exit) => exit,
                None if held.token.completion().asked() => Exit::Shutdown,
                None => Exit::Normal,
            },
            Err(Hurt::Error(error)) => Exit::of_error(error),
            Err(Hurt::Exit(exit)) => exit,
        };
        held.end(exit);
        Ok(())
    }
}

impl<A: Actor> Drop for Held<A> {
    fn drop(&mut self) {
        // It may have been killed: then no hook has told.
        self.token.completion().end();
    }
}

/// A start hook went wrong; tells it apart from one that was not let run to its end.
#[derive(Debug, thiserror::Error)]
#[error("the start hook went wrong")]
pub(crate) struct NotUp(pub(crate) Hurt);
