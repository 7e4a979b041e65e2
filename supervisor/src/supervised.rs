//! The wrapper around a user's actor: records the exit, and keeps the token beside the state, so that the end is
//! reported only when the state is gone.

use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use futures::future::Either;
use ractor::{Actor, ActorProcessingErr, ActorRef, Message, SupervisionEvent};

use crate::completion::{Completion, Token};
use crate::exit::{Exit, discard};

/// A user's actor under supervision.
///
/// Fields drop in order, so the token outlives the actor.
pub(crate) struct Supervised<A> {
    actor: A,
    token: Token,
}

/// A user's state under supervision; the token outlives it.
///
/// ractor hands this value, in the event of the end, to whatever actor is linked to the child. So the stop hook drops
/// state and token: an actor that keeps the event keeps an empty shell, and delays no restart.
pub(crate) struct Held<A: Actor> {
    state: Option<A::State>,
    end: End<A::Msg>,
}

struct End<M> {
    myself: ActorRef<M>,
    /// The orderly exit that a hook asked for, until the stop hook has run.
    leaving: Option<Exit>,
    /// `None` from the end of the stop hook on.
    token: Option<Token>,
}

impl<A: Actor> Supervised<A> {
    pub(crate) fn new(actor: A, token: Token) -> Self {
        Supervised { actor, token }
    }
}

/// Runs a hook to its end; a panic becomes an exit. Neither this function nor its callers are `async fn`s: an `async
/// fn` would hold the hook and its arguments once more, and the future of a message is moved several times before the
/// first poll.
fn guarded<T, F>(hook: impl FnOnce() -> F) -> impl Future<Output = Result<T, HookFailure>>
where
    F: Future<Output = Result<T, ActorProcessingErr>>,
{
    let running = match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(hook) => Either::Left(AssertUnwindSafe(hook).catch_unwind()),
        Err(payload) => Either::Right(ready(Err(payload))),
    };
    running.map(|ended| match ended {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(HookFailure::Error(error)),
        Err(payload) => Err(HookFailure::Exit(Exit::of_panic(payload))),
    })
}

#[derive(Debug)]
pub(crate) enum HookFailure {
    Error(ActorProcessingErr),
    Exit(Exit),
}

impl<A: Actor> Held<A> {
    fn new(state: A::State, myself: ActorRef<A::Msg>, token: Token) -> Self {
        // Until the start hook is over, a kill leaves no trace.
        token.completion().mark_unnoticed();
        Held { state: Some(state), end: End { myself, leaving: None, token: Some(token) } }
    }

    fn parts(&mut self) -> (&mut A::State, &mut End<A::Msg>) {
        (self.state.as_mut().expect("the state lasts until the stop hook is over"), &mut self.end)
    }

    /// Drops the state, then the token.
    fn release(&mut self) {
        if let Some(state) = self.state.take()
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(state)))
        {
            discard(payload);
        }
        self.end.token = None;
    }
}

impl<M: Message> End<M> {
    /// Records the exit after the hooks.
    fn note(&self, exit: Exit) {
        let completion = self.completion();
        completion.record(exit);
        completion.end();
    }

    fn completion(&self) -> &Completion {
        self.token.as_ref().expect("the token lasts until the stop hook is over").completion()
    }

    /// Translates a hook's result for the actor runtime: an orderly exit is a stop request, so that the stop hook runs;
    /// anything else ends the actor at once.
    fn settle(&mut self, outcome: Result<(), HookFailure>) -> Result<(), ActorProcessingErr> {
        let exit = match outcome {
            Ok(()) => return Ok(()),
            Err(HookFailure::Error(error)) => Exit::of_error(error),
            Err(HookFailure::Exit(exit)) => exit,
        };
        if exit.is_abnormal() {
            self.note(exit.clone());
            return Err(exit.into());
        }
        self.leaving.get_or_insert(exit);
        self.myself.stop(None);
        Ok(())
    }

    fn stopped(&mut self, outcome: Result<(), HookFailure>) {
        let exit = match outcome {
            Ok(()) => match self.leaving.take() {
                Some(exit) => exit,
                None if self.completion().asked() => Exit::Shutdown,
                None => Exit::Normal,
            },
            Err(HookFailure::Error(error)) => Exit::of_error(error),
            Err(HookFailure::Exit(exit)) => exit,
        };
        self.note(exit);
    }
}

impl<A: Actor> Actor for Supervised<A> {
    type Msg = A::Msg;
    type State = Held<A>;
    type Arguments = A::Arguments;

    fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        args: A::Arguments,
    ) -> impl Future<Output = Result<Self::State, ActorProcessingErr>> + Send {
        let itself = myself.clone();
        let hook = guarded(move || self.actor.pre_start(itself, args));
        hook.map(move |outcome| match outcome {
            Ok(state) => Ok(Held::new(state, myself, self.token.clone())),
            Err(failure) => Err(StartHookFailed(failure).into()),
        })
    }

    fn post_start(
        &self,
        myself: ActorRef<A::Msg>,
        held: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let (state, end) = held.parts();
        let hook = guarded(move || self.actor.post_start(myself, state));
        hook.map(move |outcome| {
            end.completion().clear_unnoticed();
            end.settle(outcome)
        })
    }

    fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        held: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let (state, end) = held.parts();
        let hook = guarded(move || self.actor.handle(myself, message, state));
        hook.map(move |outcome| end.settle(outcome))
    }

    fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        held: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let (state, end) = held.parts();
        let hook = guarded(move || self.actor.handle_supervisor_evt(myself, event, state));
        hook.map(move |outcome| end.settle(outcome))
    }

    fn post_stop(
        &self,
        myself: ActorRef<A::Msg>,
        held: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        // From here on a kill leaves no trace.
        held.end.completion().mark_unnoticed();
        async move {
            let (state, end) = held.parts();
            let outcome = guarded(move || self.actor.post_stop(myself, state)).await;
            end.stopped(outcome);
            held.release();
            Ok(())
        }
    }
}

impl<A: Actor> Drop for Held<A> {
    fn drop(&mut self) {
        // After a kill no hook has reported the end.
        if let Some(token) = &self.end.token {
            token.completion().end();
        }
    }
}

/// A failed start hook, as opposed to an interrupted one.
#[derive(Debug, thiserror::Error)]
#[error("the start hook went wrong")]
pub(crate) struct StartHookFailed(pub(crate) HookFailure);
