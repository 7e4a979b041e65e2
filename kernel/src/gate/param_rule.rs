//! Rules of an operator for the values of a parameter.

use serde_json::Value;

use super::egress::{Destinations, Egress, HostPattern};

/// A rule for the values of one parameter. A list is judged by its elements, where null is one like any other; any other value as
/// itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParamRule {
    pub(super) within: Option<Vec<Value>>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) url_host: Option<Egress>,
    /// Lower case.
    pub(super) email_domain: Option<Vec<String>>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) null_ok: bool,
}

impl ParamRule {
    /// The reason to refuse a value.
    pub(super) fn fault(&self, value: &Value) -> Option<&'static str> {
        match value {
            Value::Array(items) => {
                let count = items.len() as u64;
                if self.min_items.is_some_and(|least| count < least) {
                    return Some("the list is too short");
                }
                if self.max_items.is_some_and(|most| count > most) {
                    return Some("the list is too long");
                }
                items.iter().find_map(|item| self.fault_of_one(item))
            }
            Value::Null if self.takes_null() => None,
            Value::Null => Some("null is not allowed"),
            _ if self.min_items.is_some() || self.max_items.is_some() => Some("expected a list"),
            value => self.fault_of_one(value),
        }
    }

    fn takes_null(&self) -> bool {
        self.null_ok || self.within.as_ref().is_some_and(|values| values.contains(&Value::Null))
    }

    fn fault_of_one(&self, value: &Value) -> Option<&'static str> {
        if self.within.as_ref().is_some_and(|values| !values.contains(value)) {
            return Some("the value is not listed");
        }
        let bounded = self.min.is_some() || self.max.is_some();
        let in_bounds = |number: f64| {
            self.min.is_none_or(|least| number >= least) && self.max.is_none_or(|most| number <= most)
        };
        if bounded && !value.as_f64().is_some_and(in_bounds) {
            return Some("the number is out of its bounds");
        }
        let text = value.as_str();
        if let Some(hosts) = &self.url_host
            && text.is_none_or(|url| hosts.judge(url).is_err())
        {
            return Some("the URL names no listed host");
        }
        if let Some(domains) = &self.email_domain
            && text.and_then(mail_domain).is_none_or(|domain| !domains.contains(&domain))
        {
            return Some("it is no mail address of a listed domain");
        }
        None
    }
}

/// Hosts of https URLs on port 443, without look-up.
pub(super) fn https_hosts(hosts: &[String]) -> Egress {
    let mut egress = Egress::default();
    egress.push(Destinations {
        hosts: hosts.iter().map(|host| HostPattern::new(host)).collect(),
        schemes: vec!["https".to_owned()],
        ports: None,
        allow_private: false,
    });
    egress
}

/// The domain of a plain address in lower case; `None` for anything around it, or a local part that is quoted.
fn mail_domain(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    let run = |run: &str| {
        !run.is_empty()
            && run.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~-".contains(&byte))
    };
    let plain = local.split('.').all(run) && domain.is_ascii();
    plain.then(|| domain.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_address_is_one_plain_local_part_at_one_domain() {
        for address in ["b@corp.example", "B2.c+x@CORP.example", "!#$%&'*+/=?^_`{|}~-@corp.example"] {
            assert_eq!(mail_domain(address).as_deref(), Some("corp.example"), "{address}");
        }
        for address in [
            "",
            "@corp.example",
            "corp.example",
            ".b@corp.example",
            "b.@corp.example",
            "a..b@corp.example",
            "a b@corp.example",
            "\"b\"@corp.example",
            "<b@corp.example",
            "e@x@corp.example",
            "é@corp.example",
            "b@corp.éxample",
        ] {
            assert_eq!(mail_domain(address), None, "{address}");
        }
        assert_eq!(mail_domain("b@corp.example>").as_deref(), Some("corp.example>"), "compared whole");
    }
}
