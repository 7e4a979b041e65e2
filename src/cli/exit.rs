//! Exit codes, and errors that end a command.

use std::fmt;

/// Exit codes. 130 and 143 are those of an interrupted shell command.
pub(crate) mod code {
    pub(crate) const SUCCEEDED: u8 = 0;
    /// The run failed or was cancelled, or a check found a difference.
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const INVALID: u8 = 2;
    /// A run waits for a person or for a value from outside, or a person suspended it.
    pub(crate) const WAITS: u8 = 3;
    /// The store is damaged, unusable, or held by a process that does not answer or must exit first.
    pub(crate) const STORE: u8 = 4;
    /// Another error, or a run that made no progress; state is kept.
    pub(crate) const INTERNAL: u8 = 5;
    /// The command could not prove that an operator decides.
    pub(crate) const UNPROVEN: u8 = 6;
}

/// A command that ends early: the exit code, and the message for stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) what: String,
}

impl Failure {
    pub(crate) fn invalid(what: impl Into<String>) -> Failure {
        Failure { code: code::INVALID, what: what.into() }
    }

    pub(crate) fn store(what: impl Into<String>) -> Failure {
        Failure { code: code::STORE, what: what.into() }
    }

    pub(crate) fn internal(what: impl Into<String>) -> Failure {
        Failure { code: code::INTERNAL, what: what.into() }
    }

    pub(crate) fn silent(code: u8) -> Failure {
        Failure { code, what: String::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
