//! Names of tools in the form that providers accept: letters, digits, `_` and `-`, at most 64.

use std::collections::BTreeMap;

use ostler_kernel::port::{Completion, Delta, ToolOffer};

/// Maximum bytes of a name.
const NAME_BYTES_MAX: usize = 64;

/// Names of a request's tools, both ways.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    sent: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
}

impl ToolNames {
    /// Gives each tool a name of its own, in the order of the offers; `reserved` stays free.
    pub(super) fn of(offers: &[ToolOffer], reserved: &[&str]) -> ToolNames {
        let mut names = ToolNames::default();
        for offer in offers {
            if names.sent.contains_key(&offer.name) {
                continue;
            }
            let plain = accepted(&offer.name);
            let is_free = |name: &str| !names.own.contains_key(name) && !reserved.contains(&name);
            let numbered = (2u32..).map(|number| {
                let suffix = format!("_{number}");
                let stem: String = plain.chars().take(NAME_BYTES_MAX - suffix.len()).collect();
                stem + &suffix
            });
            let name = std::iter::once(plain.clone()).chain(numbered).find(|name| is_free(name));
            let name = name.expect("numbers do not end");
            names.own.insert(name.clone(), offer.name.clone());
            names.sent.insert(offer.name.clone(), name);
        }
        names
    }

    /// The name to send for a tool, offered or of an earlier answer.
    pub(super) fn sent(&self, own: &str) -> String {
        self.sent.get(own).cloned().unwrap_or_else(|| accepted(own))
    }

    /// The name of an offered tool; other names stay as the model wrote them.
    pub(super) fn own(&self, sent: &str) -> String {
        self.own.get(sent).cloned().unwrap_or_else(|| sent.to_owned())
    }

    /// Restores the names in a completion.
    pub(super) fn restore(&self, completion: &mut Completion) {
        for call in &mut completion.tool_calls {
            call.name = self.own(&call.name);
        }
    }

    /// Restores the name in a piece.
    pub(super) fn restore_delta(&self, delta: Delta) -> Delta {
        match delta {
            Delta::Call { at, name } => Delta::Call { at, name: self.own(&name) },
            delta @ (Delta::Text(_) | Delta::Reasoning(_) | Delta::Arguments { .. }) => delta,
        }
    }
}

fn accepted(name: &str) -> String {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut accepted: String =
        name.chars().map(|c| if is_accepted(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
    if accepted.is_empty() {
        accepted.push('_');
    }
    accepted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(of: &[&str]) -> ToolNames {
        let offer = |name: &&str| ToolOffer {
            name: (*name).to_owned(),
            description: String::new(),
            params: json!({}),
        };
        ToolNames::of(&of.iter().map(offer).collect::<Vec<_>>(), &["answer"])
    }

    #[test]
    fn names_never_collide_and_come_back() {
        let long = "a".repeat(80);
        let longer = format!("{long}b");
        let all = ["fs.read", "fs_read", "fs/read", "answer", "größe", "", &long, &longer];
        let names = names(&all);
        let mut sent: Vec<String> = all.iter().map(|name| names.sent(name)).collect();
        assert_eq!(&sent[..5], ["fs_read", "fs_read_2", "fs_read_3", "answer_2", "gr__e"]);
        for (own, sent) in all.iter().zip(&sent) {
            assert_eq!(names.own(sent), *own);
            assert!((1..=NAME_BYTES_MAX).contains(&sent.len()), "{sent}");
        }
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), all.len());
        assert_eq!(names.own("made_up"), "made_up");
    }
}
