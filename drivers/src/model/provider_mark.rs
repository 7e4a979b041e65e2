//! The mark that ties opaque data of a provider to the model that gave them. Other providers refuse fields that they do not know.

use ostler_kernel::port::Message;
use serde_json::Value;

/// Key of the name of the model, beside the data of the dialect.
const BY: &str = "by";

/// The data with the name of the model that gave them; `None` for data that are no object.
pub(super) fn marked(data: Value, by: &str) -> Option<Value> {
    let Value::Object(mut data) = data else { return None };
    data.insert(BY.to_owned(), by.into());
    Some(Value::Object(data))
}

/// Removes the data that another model gave: a fallback, or a model that was configured before.
pub(super) fn keep_own(messages: &mut [Message], name: &str) {
    for message in messages {
        let Message::Assistant { provider_data, .. } = message else { continue };
        let by = provider_data.as_ref().and_then(|data| data.get(BY));
        if by.is_some_and(|by| by != name) {
            *provider_data = None;
        }
    }
}
