//! Parses arbitrary bytes as a configuration and builds the policy, without panic or hang.

use ostler::config::{Config, KnownTools};
use ostler_drivers::tool::{ToolConfig, builtin};

/// True if `bytes` are a valid configuration. A valid one yields a policy, an invalid one an error with a message.
pub(crate) fn policy(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let tools = KnownTools::of(&builtin(&ToolConfig::complete(), None));
    match Config::parse_for("ostler.toml", &text, &tools) {
        Ok(config) => {
            let policy = config.gate(&[]);
            assert!(policy.ceiling <= 2 && policy.default_intent <= 1, "{policy:?}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
