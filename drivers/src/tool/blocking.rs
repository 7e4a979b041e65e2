//! Work that blocks, done off the runtime, and told when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_kernel::event::Failure;

use super::declare::crash;

/// Whether the caller has gone. Long work asks between its pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Fails once the caller has gone; nobody sees that failure.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(crash("the call was given up")) } else { Ok(()) }
    }
}

struct Raise(Stop);

impl Drop for Raise {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
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
            finished.send(()).expect("the test waits");
            Ok(())
        }));
        begun.await.unwrap();
        call.abort();
        ended.await.expect("the work ended by itself");
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let failed = off_runtime(|_| -> Result<(), Failure> { panic!("broken") }).await.unwrap_err();
        assert_eq!(failed.category, ostler_kernel::run::Category::Crash);
    }
}
