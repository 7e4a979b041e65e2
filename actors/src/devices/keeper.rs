//! The actor that keeps one device.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::device::{Breaker, Restart};
use ostler_kernel::port::Device;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use crate::base::panic_message::panic_message;

/// Keeps a device running: starts the device when a call needs the device, and restarts an ended device after the wait that the
/// breaker demands.
pub(super) struct Keeper;

/// Message: the task that runs the device panicked.
pub(super) struct Panicked(String);

/// The task that runs the device; a drop aborts the task and so ends the device.
pub(super) struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for Keeper {
    type Msg = Panicked;
    type State = Running;
    type Arguments = Arc<dyn Device>;

    async fn pre_start(
        &self,
        myself: ActorRef<Panicked>,
        device: Arc<dyn Device>,
    ) -> Result<Running, ActorProcessingErr> {
        let task = std::panic::AssertUnwindSafe(keep(device)).catch_unwind();
        Ok(Running(tokio::spawn(async move {
            if let Err(panic) = task.await {
                let _ = myself.cast(Panicked(panic_message(&*panic)));
            }
        })))
    }

    /// Fails, so that the supervisor restarts the keeper with a new breaker.
    async fn handle(
        &self,
        _: ActorRef<Panicked>,
        Panicked(what): Panicked,
        _: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        Err(format!("the device panicked: {what}").into())
    }
}

async fn keep(device: Arc<dyn Device>) {
    let mut breaker = Breaker::default();
    loop {
        device.wanted().await;
        let end = device.serve().await;
        match breaker.ended(end.served) {
            Restart::Now => {}
            Restart::After { wait_ms } => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
            Restart::Refuse { wait_ms } => {
                device.refuse(&end.why, wait_ms);
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                device.allow();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use ostler_kernel::port::{BoxFuture, DeviceEnd};
    use serde_json::Value;
    use tokio::sync::Notify;

    use super::*;

    /// A device that ends at once, and records each refusal.
    #[derive(Default)]
    struct Broken {
        starts: AtomicU32,
        panics: bool,
        told: Mutex<Vec<String>>,
        allowed: Notify,
    }

    impl Device for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn wanted(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }

        fn serve(&self) -> BoxFuture<'_, DeviceEnd> {
            let start = self.starts.fetch_add(1, Ordering::Relaxed);
            assert!(!self.panics || start > 0, "the first start panics");
            Box::pin(async { DeviceEnd { served: false, why: "it is broken".to_owned() } })
        }

        fn refuse(&self, why: &str, wait_ms: u64) {
            self.told.lock().unwrap().push(format!("{why}: {wait_ms}"));
        }

        fn allow(&self) {
            self.allowed.notify_one();
        }

        fn accept(&self, _: Value, _: &str) -> Result<(), String> {
            Err("it offers nothing".to_owned())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_device_that_fails_in_a_row_is_refused_for_a_growing_while() {
        let device = Arc::new(Broken::default());
        let tree = super::super::start(vec![Arc::clone(&device) as Arc<dyn Device>]).await.unwrap();
        device.allowed.notified().await;
        device.allowed.notified().await;
        tree.stop().await;
        let told = device.told.lock().unwrap();
        assert_eq!(told[..2], ["it is broken: 400", "it is broken: 800"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_keeper_whose_device_panics_is_started_again() {
        let device = Arc::new(Broken { panics: true, ..Broken::default() });
        let tree = super::super::start(vec![Arc::clone(&device) as Arc<dyn Device>]).await.unwrap();
        device.allowed.notified().await;
        assert!(device.starts.load(Ordering::Relaxed) > 3);
        tree.stop().await;
    }
}
