//! Tools whose work blocks: done off the runtime, told when nobody waits for it any more, and kept from acting
//! after that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec, ParamProblem};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::declare::{crash, params};

/// A tool that is a function of its parameters `P`, of the workspace, and of whether anybody still waits.
pub(super) struct Blocking<P> {
    /// What it says of itself.
    pub spec: ToolSpec,
    /// What a call with these parameters would do.
    pub class: fn(&Map<String, Value>) -> CallClass,
    /// What its schema cannot tell of literal parameters that are wrong.
    pub check: fn(&Map<String, Value>) -> Vec<ParamProblem>,
    /// Does it. Asks the [`Stop`] every few milliseconds.
    pub work: fn(&P, &CallContext, &Stop) -> ToolResult,
}

impl<P: DeserializeOwned + Send + 'static> Tool for Blocking<P> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        (self.class)(params)
    }

    fn check(&self, params: &Map<String, Value>) -> Vec<ParamProblem> {
        (self.check)(params)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        let work = self.work;
        Box::pin(async move {
            let params: P = params(permit)?;
            off_runtime(move |stop| work(&params, &context, stop)).await
        })
    }
}

/// Whether the caller has gone. Long work asks between its pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<Caller>);

#[derive(Debug, Default)]
struct Caller {
    gone: AtomicBool,
    /// Held while something is done that others see.
    acting: Mutex<()>,
}

impl Stop {
    /// Fails once the caller has gone; nobody sees that failure.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.gone.load(Ordering::SeqCst) { Err(crash("the call was given up")) } else { Ok(()) }
    }

    /// Does what others see, unless the caller has gone. The caller cannot go meanwhile, so nothing is done after
    /// a call was given up; what is done is short, as it holds the caller up.
    pub(super) fn act<T>(&self, act: impl FnOnce() -> T) -> Result<T, Failure> {
        let _acting = self.0.acting.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        Ok(act())
    }
}

#[cfg(test)]
impl Stop {
    /// One whose caller has gone.
    pub(super) fn given_up() -> Stop {
        let stop = Stop::default();
        drop(Raise(stop.clone()));
        stop
    }
}

struct Raise(Stop);

impl Drop for Raise {
    fn drop(&mut self) {
        let Caller { gone, acting } = &*self.0.0;
        gone.store(true, Ordering::SeqCst);
        drop(acting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs `work` on a thread that may block. Dropping the future raises the [`Stop`]; work that does not ask it
/// goes on to its end and its result is lost.
pub(super) async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = Stop::default();
    let _raise = Raise(stop.clone());
    match tokio::task::spawn_blocking(move || work(&stop)).await {
        Ok(result) => result,
        Err(error) => Err(crash(format!("the tool broke off: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_learns_that_nobody_waits() {
        let (started, begun) = tokio::sync::oneshot::channel();
        let (finished, ended) = tokio::sync::oneshot::channel();
        let call = tokio::spawn(off_runtime(move |stop| {
            started.send(()).expect("the test waits");
            while stop.check().is_ok() {
                std::thread::yield_now();
            }
            finished.send(stop.act(|| ()).is_err()).expect("the test waits");
            Ok(())
        }));
        begun.await.unwrap();
        call.abort();
        assert!(ended.await.expect("the work ended by itself"), "it acted after it was given up");
    }

    #[test]
    fn a_caller_cannot_go_while_something_is_done() {
        let stop = Stop::default();
        let (done, going) = (AtomicBool::new(false), Raise(stop.clone()));
        std::thread::scope(|scope| {
            let acted = stop.act(|| {
                scope.spawn(|| {
                    drop(going);
                    assert!(done.load(Ordering::SeqCst), "the caller went first");
                });
                while stop.check().is_ok() {
                    std::thread::yield_now(); // until the caller is about to go
                }
                done.store(true, Ordering::SeqCst);
            });
            assert!(acted.is_ok());
        });
        assert!(stop.act(|| ()).is_err());
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let failed = off_runtime(|_| -> Result<(), Failure> { panic!("broken") }).await.unwrap_err();
        assert_eq!(failed.category, ostler_kernel::run::FailureCategory::Crash);
    }
}
