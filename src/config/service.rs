//! `[service]`: the listener for callbacks.

use std::net::SocketAddr;

use ostler_kernel::plan::Pointer;
use serde::Deserialize;

/// `[service]`. Without `callback_listen`, waits have no address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [service]")]
pub struct ServiceConfig {
    /// Address of the listener, such as `127.0.0.1:8787`; port 0 takes a free port.
    pub callback_listen: Option<SocketAddr>,
    /// Public base address of callbacks, such as `https://hooks.example.com`; `None`: that of the listener.
    pub callback_url: Option<String>,
}

impl ServiceConfig {
    /// The public base address without a slash at its end. `bound`: address of the listener.
    pub(crate) fn base(&self, bound: SocketAddr) -> String {
        match &self.callback_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{bound}"),
        }
    }

    pub(super) fn check(&self, wrong: &mut Vec<(Pointer, String, String)>) {
        let place = |key: &str| Pointer::root().key("service").key(key);
        let Some(listen) = self.callback_listen else {
            if self.callback_url.is_some() {
                let help = "set callback_listen = \"127.0.0.1:8787\", or remove callback_url".to_owned();
                wrong.push((place("callback_url"), "nothing listens at callback_url".to_owned(), help));
            }
            return;
        };
        match &self.callback_url {
            None if listen.ip().is_unspecified() => wrong.push((
                place("callback_listen"),
                format!("{listen} is no address that others can send to"),
                "set callback_url to the address by which others reach this machine".to_owned(),
            )),
            Some(url) if !is_base(url) => wrong.push((
                place("callback_url"),
                "callback_url is no base address".to_owned(),
                "set one such as \"https://hooks.example.com\", without user, query and fragment".to_owned(),
            )),
            _ => {}
        }
    }
}

fn is_base(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let is_plain =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'@' | b'"' | b'<' | b'>');
        !rest.is_empty() && !rest.starts_with('/') && rest.bytes().all(is_plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(listen: Option<&str>, url: Option<&str>) -> usize {
        let listen = listen.map(|listen| listen.parse().expect("an address"));
        let service = ServiceConfig { callback_listen: listen, callback_url: url.map(str::to_owned) };
        let mut wrong = Vec::new();
        service.check(&mut wrong);
        wrong.len()
    }

    #[test]
    fn the_public_address_is_one_that_others_can_send_to() {
        let (here, all) = (Some("127.0.0.1:8787"), Some("0.0.0.0:8787"));
        assert_eq!(faults(None, None), 0);
        assert_eq!(faults(here, None), 0);
        assert_eq!(faults(all, None), 1);
        assert_eq!(faults(None, Some("https://a.example")), 1);
        for url in ["https://a.example", "http://a.example:8080/hooks/"] {
            assert_eq!(faults(all, Some(url)), 0, "{url}");
        }
        for url in
            ["a.example", "https://", "https:///x", "https://u@a.example", "https://a.example?x", "ftp://a"]
        {
            assert_eq!(faults(here, Some(url)), 1, "{url}");
        }
    }
}
