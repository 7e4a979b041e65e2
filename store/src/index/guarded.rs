//! Calls of the database, which may panic on a corrupted file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::{IndexError, index_error};

thread_local! {
    /// This thread is in a call of the database.
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

static QUIET: Once = Once::new();

/// Converts a panic of the database into an error, and keeps it from being reported: the journal does not depend on the index, which
/// is rebuilt.
pub(super) fn guarded<T>(act: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
    QUIET.call_once(|| {
        // Whoever panics already keeps its report.
        if !std::thread::panicking() {
            let report = take_hook();
            set_hook(Box::new(move |panic| {
                if !CALLING.get() {
                    report(panic);
                }
            }));
        }
    });
    let outer = CALLING.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(act));
    CALLING.set(outer);
    ended.unwrap_or_else(|panic| {
        Err(index_error(format_args!("the database panicked: {}", message(panic.as_ref()))))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let told = |act: fn() -> Result<(), IndexError>| guarded(act).unwrap_err().to_string();
        assert_eq!(told(|| panic!("page {}", 7)), "index: the database panicked: page 7");
        assert_eq!(told(|| panic!("a page")), "index: the database panicked: a page");
        assert_eq!(guarded(|| Ok(guarded(|| Ok(1))? + 1)).unwrap(), 2);
        assert!(!CALLING.get());
    }
}
