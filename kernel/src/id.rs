//! Names of things, each its own type: a bare string or integer never crosses a function.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 64;

/// What a name is, in words: see [`is_name`].
pub const NAME_RULE: &str = "1 to 64 of A-Z a-z 0-9 . _ -";

/// Whether a text may name a node, an agent, a client, a pipeline, a stage or a type of events.
///
/// ```
/// use ostler_kernel::id::is_name;
/// assert!(is_name("fetch-2.b_c"));
/// assert!(!is_name("") && !is_name("a/b") && !is_name(&"x".repeat(65)));
/// ```
pub fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// The client of whoever names none.
pub const CLIENT_DEFAULT: &str = "local";

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl PartialEq for $name {
            /// Most names that are compared are clones of one, whose text needs no look.
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

        impl $name {
            /// Wraps `text` as it is; whoever accepts outside input checks it first.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// A node of a plan: `[A-Za-z0-9_.-]{1,64}`, never reused within a run.
    NodeId
}
name! {
    /// A tenant: who pays and whose weight counts.
    ClientId
}
name! {
    /// An agent: what runs submissions, one at a time.
    AgentId
}

name! {
    /// A pipeline: `[A-Za-z0-9_.-]{1,64}`.
    PipelineId
}
name! {
    /// A stage of a pipeline, as its pipeline knows it.
    StageId
}
name! {
    /// A type of events that stages publish and subscribe to.
    EventType
}

/// One execution of a plan: a UUID, version 7 in real runs (so ids sort by creation), version 8 in those that attempts open (a
/// hash, so that whichever attempt asks opens the same run); nil in a simulation.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub uuid::Uuid);

impl RunId {
    /// Version of the UUIDs that whoever opens a run may choose for it.
    pub const CHOSEN_VERSION: usize = 7;

    /// Version of the UUIDs that are hashes.
    const HASHED_VERSION: usize = 8;

    /// The id that a hash stands for.
    ///
    /// ```
    /// use ostler_kernel::id::{Digest, RunId};
    ///
    /// let run = RunId::hashed(Digest([0xab; 32]));
    /// assert_eq!(run.to_string(), "abababab-abab-8bab-abab-abababababab");
    /// assert!(run.is_hashed() && !run.may_be_chosen());
    /// assert!("01920000-0000-7000-8000-000000000000".parse::<RunId>().unwrap().may_be_chosen());
    /// assert!(!RunId::default().is_hashed() && !RunId::default().may_be_chosen());
    /// ```
    pub fn hashed(digest: Digest) -> RunId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.0[..16]);
        RunId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// Whether it is a hash: an attempt has opened the run.
    pub fn is_hashed(self) -> bool {
        self.0.get_version_num() == RunId::HASHED_VERSION
    }

    /// Whether somebody may choose it for a run that they open.
    pub fn may_be_chosen(self) -> bool {
        self.0.get_version_num() == RunId::CHOSEN_VERSION
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        uuid::Uuid::parse_str(text).map(RunId)
    }
}

/// 32 bytes of BLAKE3: lower-case hex where people read it, raw bytes in the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hex digits, found {found:?}")]
pub struct ParseDigestError {
    found: String,
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let refused = || ParseDigestError { found: text.chars().take(80).collect() };
        let bytes = text.strip_prefix("b3:").unwrap_or(text).as_bytes();
        if bytes.len() != 64 {
            return Err(refused());
        }
        let mut digest = [0u8; 32];
        for (byte, pair) in digest.iter_mut().zip(bytes.chunks(2)) {
            let high = (pair[0] as char).to_digit(16).ok_or_else(refused)?;
            let low = (pair[1] as char).to_digit(16).ok_or_else(refused)?;
            *byte = (high * 16 + low) as u8;
        }
        Ok(Digest(digest))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Digest)
        }
    }
}

/// A point or a span of time: ticks in a simulation, milliseconds (since the Unix epoch, for points) in a
/// real run. The kernel only compares and adds.
pub type Ticks = i64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_what_it_prints() {
        let digest = Digest([0xab; 32]);
        assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
        assert_eq!(format!("b3:{digest}").parse::<Digest>(), Ok(digest));
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        for text in ["", "ab", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
