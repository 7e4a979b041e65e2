//! Work that takes seconds and cannot be interrupted, on a thread of the runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does the work here, while the other tasks of this thread move to another. A runtime of one thread has no other: there they wait.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        Ok(_) | Err(_) => work(),
    }
}

/// Bytes of values that are copied, or written as text, within a few milliseconds.
const QUICK_BYTES_MAX: u64 = 1 << 20;

/// Does work with values of about this many bytes, as [`in_place`] if they are many.
pub(crate) fn with_bytes<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    if bytes > QUICK_BYTES_MAX { in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_the_same_thread_go_on_while_long_work_is_done() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let waiter = runtime.spawn(async move { in_place(|| wait.recv().unwrap()) });
        runtime.block_on(runtime.spawn(async move { done.send(7).unwrap() })).unwrap();
        assert_eq!(runtime.block_on(waiter).unwrap(), 7);
    }

    #[test]
    fn a_runtime_of_one_thread_and_none_do_the_work_themselves() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(async { in_place(|| 7) }), 7);
        assert_eq!(in_place(|| 8), 8);
    }
}
