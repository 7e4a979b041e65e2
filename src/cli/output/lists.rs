//! The children of an expanded node, folded into the line of the node.

/// Children of a folded list that are shown: failed ones, and those in progress.
pub(crate) const CHILDREN_SHOWN_MAX: usize = 3;

/// The expanded node and the number of a child, such as `read` and 4 of `read.4`.
pub(crate) fn parent(child: &str) -> Option<&str> {
    let (parent, number) = child.rsplit_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(parent)
}

/// Counts of the children of one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListCounts {
    pub(crate) all: usize,
    pub(crate) executed: usize,
    pub(crate) failed: usize,
}

impl ListCounts {
    pub(crate) fn add(&mut self, is_executed: bool, is_failed: bool) {
        self.all += 1;
        self.executed += usize::from(is_executed);
        self.failed += usize::from(is_failed);
    }
}

impl std::fmt::Display for ListCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.executed, self.all)?;
        if self.failed > 0 { write!(f, ", {} failed", self.failed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_a_number_behind_the_id_of_its_list() {
        assert_eq!(parent("read.4"), Some("read"));
        assert_eq!(parent("a.b.10"), Some("a.b"));
        for other in ["read", "read.", "read.x", "undo.page", ""] {
            assert_eq!(parent(other), None, "{other}");
        }
    }
}
