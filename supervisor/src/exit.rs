//! Exits of children: a typed enum, never a string to be parsed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ChildId;

/// Longest text of an [`Exit`] in bytes; longer texts are cut at a character boundary.
pub const EXIT_TEXT_BYTES_MAX: usize = 4096;

/// Exit of a child or of a whole supervisor.
///
/// An actor chooses its own exit by returning one as its error; `Normal`, `Shutdown` and
/// `ShutdownWith` still run its `post_stop`:
///
/// ```
/// # use ostler_supervisor::Exit;
/// fn handle() -> Result<(), ractor::ActorProcessingErr> {
///     Err(Exit::ShutdownWith("quota used up".into()).into())
/// }
/// # assert!(handle().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Exit {
    /// The child stopped by itself, its work done.
    #[error("normal")]
    Normal,
    /// The child was asked to stop, or its supervisor gave up in order.
    #[error("shutdown")]
    Shutdown,
    /// Like [`Exit::Shutdown`], with the reason.
    #[error("shutdown: {0}")]
    ShutdownWith(String),
    /// Killed: no stop hook ran.
    #[error("killed")]
    Killed,
    /// A hook or handler panicked with the text, or the drop of a killed child's state did. A panic in the drop of any
    /// other state changes nothing: the child had ended before.
    #[error("panicked: {0}")]
    Panicked(String),
    /// A hook or handler returned the error.
    #[error("failed: {0}")]
    Failed(String),
    /// The runtime dropped the task.
    #[error("cancelled")]
    Cancelled,
    /// The start hook returned the error, so the child never ran.
    #[error("start failed: {0}")]
    StartFailed(String),
}

impl Exit {
    /// True if this is a failure: everything except `Normal`, `Shutdown` and `ShutdownWith`.
    pub fn is_abnormal(&self) -> bool {
        match self {
            Exit::Normal | Exit::Shutdown | Exit::ShutdownWith(_) => false,
            Exit::Killed | Exit::Panicked(_) | Exit::Failed(_) | Exit::Cancelled | Exit::StartFailed(_) => {
                true
            }
        }
    }

    /// The exit of an actor after the error of a hook: the exit inside the error, else `Failed`.
    pub(crate) fn of_error(error: ractor::ActorProcessingErr) -> Exit {
        match error.downcast::<Exit>() {
            Ok(exit) => exit.clipped(),
            Err(other) => Exit::Failed(clip(other.to_string())),
        }
    }

    fn clipped(self) -> Exit {
        match self {
            Exit::Normal | Exit::Shutdown | Exit::Killed | Exit::Cancelled => self,
            Exit::ShutdownWith(text) => Exit::ShutdownWith(clip(text)),
            Exit::Panicked(text) => Exit::Panicked(clip(text)),
            Exit::Failed(text) => Exit::Failed(clip(text)),
            Exit::StartFailed(text) => Exit::StartFailed(clip(text)),
        }
    }

    /// The exit of an actor that panicked with `payload`.
    pub(crate) fn of_panic(payload: Box<dyn Any + Send>) -> Exit {
        let text = match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => match payload.downcast::<&str>() {
                Ok(text) => (*text).to_string(),
                Err(payload) => {
                    discard(payload);
                    "a panic without text".to_string()
                }
            },
        };
        Exit::Panicked(clip(text))
    }
}

/// Drops a panic payload, which may panic as well.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// Cuts `text` to [`EXIT_TEXT_BYTES_MAX`] bytes.
pub(crate) fn clip(mut text: String) -> String {
    if text.len() > EXIT_TEXT_BYTES_MAX {
        let mut end = EXIT_TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

/// A link in the chain of failures that made a supervisor give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The child that exhausted its supervisor's restart window, or failed to start and so failed its supervisor's
    /// start.
    pub id: ChildId,
    /// The exit.
    pub exit: Exit,
}

/// The error of an actor's `pre_start`: the actor declines to run, without failure.
///
/// The child is listed as down; a temporary one is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ignored")]
pub struct Ignore;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_orderly_exits_are_not_abnormal() {
        for (exit, abnormal) in [
            (Exit::Normal, false),
            (Exit::Shutdown, false),
            (Exit::ShutdownWith("x".into()), false),
            (Exit::Killed, true),
            (Exit::Panicked("x".into()), true),
            (Exit::Failed("x".into()), true),
            (Exit::Cancelled, true),
            (Exit::StartFailed("x".into()), true),
        ] {
            assert_eq!(exit.is_abnormal(), abnormal, "{exit}");
        }
    }

    #[test]
    fn texts_are_cut_at_the_limit_and_never_inside_a_character() {
        let text = "x".to_string() + &"é".repeat(EXIT_TEXT_BYTES_MAX);
        let Exit::Panicked(kept) = Exit::of_panic(Box::new(text)) else { panic!("not a panic") };
        assert_eq!(kept.len(), EXIT_TEXT_BYTES_MAX - 1);
        assert_eq!(clip("y".repeat(EXIT_TEXT_BYTES_MAX)).len(), EXIT_TEXT_BYTES_MAX);
    }

    #[test]
    fn the_text_of_an_exit_that_an_actor_names_is_cut_too() {
        let long = || "y".repeat(EXIT_TEXT_BYTES_MAX + 1);
        for named in [Exit::ShutdownWith, Exit::Panicked, Exit::Failed, Exit::StartFailed] {
            let kept = Exit::of_error(named(long()).into());
            assert_eq!(kept, named("y".repeat(EXIT_TEXT_BYTES_MAX)));
        }
    }

    #[test]
    fn an_error_that_is_an_exit_stays_that_exit() {
        assert_eq!(Exit::of_error(Exit::Shutdown.into()), Exit::Shutdown);
        assert_eq!(Exit::of_error("disk full".into()), Exit::Failed("disk full".into()));
    }
}
