//! The rung that the cage of a program reached.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a program was confined, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CageRung {
    /// Not at all.
    None,
    /// Rules of Landlock, and a filter of system calls.
    Landlock,
    /// Namespaces of its own, made by bubblewrap, and a filter of system calls.
    Bubblewrap,
}

impl fmt::Display for CageRung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CageRung::None => "none",
            CageRung::Landlock => "landlock",
            CageRung::Bubblewrap => "bubblewrap",
        })
    }
}
