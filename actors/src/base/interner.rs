//! Interns equal values, since a million agents have few different profiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::json::Json;

/// Interned values; a further one clears the table. Values that were handed out stay shared.
pub(crate) const ALIKE_MAX: usize = 1_024;

/// Longest text of an interned value in bytes; longer ones are rarely equal.
const ALIKE_BYTES_MAX: usize = 4_096;

pub(crate) struct Interner<T>(BTreeMap<Json, Arc<T>>);

impl<T> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner(BTreeMap::new())
    }
}

impl<T> Interner<T> {
    /// Returns the interned value of a text, or makes it.
    pub(crate) fn of<E>(&mut self, text: &Json, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        if let Some(known) = self.0.get(text) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(make()?);
        if text.as_str().len() <= ALIKE_BYTES_MAX {
            if self.0.len() >= ALIKE_MAX {
                self.0.clear();
            }
            self.0.insert(text.clone(), Arc::clone(&made));
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::json::canonical;

    use super::*;

    #[test]
    fn what_is_said_again_is_the_same_and_no_more_is_remembered_than_the_limit() {
        let mut alike = Interner::default();
        let mut of = |text: &str| {
            let made = alike.of(&canonical(&text.into()).unwrap(), || Ok::<_, ()>(text.len())).unwrap();
            (made, alike.0.len())
        };
        let (first, _) = of("search");
        let (again, known) = of("search");
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(known, 1);
        for at in 1..ALIKE_MAX {
            assert_eq!(of(&at.to_string()).1, at + 1);
        }
        assert_eq!(of("one too many").1, 1);
        assert_eq!(of(&"x".repeat(ALIKE_BYTES_MAX)), (Arc::new(ALIKE_BYTES_MAX), 1));
    }

    #[test]
    fn what_cannot_be_made_is_not_remembered() {
        let mut alike = Interner::<u8>::default();
        assert_eq!(alike.of(&Json::null(), || Err("no")), Err("no"));
        assert_eq!(alike.of(&Json::null(), || Ok::<_, &str>(1)), Ok(Arc::new(1)));
    }
}
