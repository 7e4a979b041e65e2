//! Canonical JSON (RFC 8785) and the strict parser in front of it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Canonical JSON text. Only [`canonical`] and [`parse`] make one, so equal values have equal bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Arc<str>);

impl Json {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value it stands for.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).expect("canonical text is JSON")
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The canonical text of a value.
pub fn canonical(value: &Value) -> Json {
    Json(value.to_string().into())
}
