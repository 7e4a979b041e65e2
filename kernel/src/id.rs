//! Typed ids and names. A bare string or integer never crosses a function.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The rule of [`is_name`] in words.
pub const NAME_RULE: &str = "1 to 64 of A-Z a-z 0-9 . _ -";

/// True if `text` may name a node, an agent, a client, a pipeline, a stage or an event type.
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

/// The client of requests without a client.
pub const CLIENT_DEFAULT: &str = "local";

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl PartialEq for $name {
            /// Compares pointers first: most compared names are clones of one another.
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
            /// Wraps `text` without a check; code that reads outside input checks with [`is_name`].
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
    /// A node of a plan. Never reused within a run.
    NodeId
}
name! {
    /// A client: the tenant that pays, with a weight in the fair queue.
    ClientId
}
name! {
    /// An agent: executes runs one at a time.
    AgentId
}

name! {
    /// A pipeline.
    PipelineId
}
name! {
    /// A stage, unique within its pipeline.
    StageId
}
name! {
    /// A type of events that stages publish and subscribe to.
    EventType
}

/// Id of a run: a UUID. Clients choose version 7, so ids sort by creation. A child run has version 8, a hash of the step
/// that opens the run: repeated attempts open the same run. Simulations use the nil UUID.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub uuid::Uuid);

impl RunId {
    /// UUID version of ids that clients choose.
    pub const CHOSEN_VERSION: usize = 7;

    const HASHED_VERSION: usize = 8;

    /// The id of a child run, from the first half of a digest.
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

    /// True for the id of a child run.
    pub fn is_hashed(self) -> bool {
        self.0.get_version_num() == RunId::HASHED_VERSION
    }

    /// True for an id that a client may choose.
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

/// A BLAKE3 digest: lower-case hex for people, raw bytes in the journal.
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

/// A text that is not a digest.
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

/// The first hex digits of a digest, as a person copies them; at least half of them. Two contents with 16 equal digits are found in 2^32
/// tries, within minutes: one could be shown and the other approved. With 32 it takes 2^64.
///
/// ```
/// # use ostler_kernel::id::{Digest, DigestStart};
/// let start: DigestStart = format!("b3:2B5a986b{:024}", 0).parse()?;
/// let digest: Digest = format!("2b5a986b{:056}", 0).parse().unwrap();
/// assert!(start.begins(digest));
/// assert!("2b5a986b2b5a986b".parse::<DigestStart>().is_err(), "too short to tell digests apart");
/// # Ok::<(), ostler_kernel::id::ParseDigestStartError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestStart(String);

/// A text that does not begin a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected at least {} hex digits of a digest, found {found:?}", DigestStart::DIGITS_MIN)]
pub struct ParseDigestStartError {
    found: String,
}

impl DigestStart {
    /// Fewest hex digits.
    pub const DIGITS_MIN: usize = 32;

    /// True if the digest begins with these digits.
    pub fn begins(&self, digest: Digest) -> bool {
        digest.to_string().starts_with(&self.0)
    }
}

impl FromStr for DigestStart {
    type Err = ParseDigestStartError;

    fn from_str(text: &str) -> Result<Self, ParseDigestStartError> {
        let digits = text.strip_prefix("b3:").unwrap_or(text).to_ascii_lowercase();
        let fits = (DigestStart::DIGITS_MIN..=64).contains(&digits.len());
        if !fits || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseDigestStartError { found: text.chars().take(80).collect() });
        }
        Ok(DigestStart(digits))
    }
}

impl From<Digest> for DigestStart {
    fn from(digest: Digest) -> DigestStart {
        DigestStart(digest.to_string())
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

/// A point or a span of time: milliseconds in real runs (points since the Unix epoch), ticks in simulations. The kernel
/// compares and adds only.
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
