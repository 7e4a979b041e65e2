//! The key `oauth` of `[mcp.NAME]`.

use reqwest::Url;
use serde::Deserialize;

use super::requests::{is_private_literal, is_secret};

/// `oauth` of `[mcp.NAME]`: what a login at the address of the server goes by. Without it, Ostler registers itself with the
/// authorization server that the server names.
///
/// ```
/// let text = r#"
///     url = "https://mcp.example.com/mcp"
///     oauth = {client_id = "ostler-at-acme", scopes = ["read"]}
/// "#;
/// let config: ostler_drivers::mcp::McpConfig = toml::from_str(text).unwrap();
/// assert_eq!(config.oauth.unwrap().scopes, ["read"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table such as {client_id = \"…\"}")]
pub struct OauthConfig {
    /// Id of a client that was registered by hand.
    pub client_id: Option<String>,
    /// Name of the environment variable with the secret of `client_id`, read at the login.
    pub client_secret_env: Option<String>,
    /// Address of a client metadata document, which is the id of the client where the authorization server takes one.
    pub client_metadata_url: Option<String>,
    /// Scopes to ask for, instead of those that the server names.
    pub scopes: Vec<String>,
    /// The only authorization server that is used; its host may have a private address.
    pub issuer: Option<String>,
    /// Loopback port of the redirect, for clients that were registered with one; default: any free port.
    pub callback_port: Option<u16>,
}

impl OauthConfig {
    /// Every fault, with its remedy.
    pub(in crate::mcp) fn faults(&self) -> Vec<(String, &'static str)> {
        let mut faults = Vec::new();
        if self.client_secret_env.is_some() && self.client_id.is_none() {
            faults.push(("`client_secret_env` without `client_id`".to_owned(), "add the `client_id`"));
        }
        if self.client_secret_env.is_some() && self.issuer.is_none() {
            let help = "add the `issuer` that knows the secret: a server may name another one";
            faults.push(("`client_secret_env` without `issuer`".to_owned(), help));
        }
        if self.client_id.is_some() && self.client_metadata_url.is_some() {
            let what = "a client has either a `client_id` or a `client_metadata_url`";
            faults.push((what.to_owned(), "remove one of the two"));
        }
        let metadata = self.client_metadata_url.as_deref();
        if let Some(url) = metadata.filter(|url| !is_document(url)) {
            let help = "use an https address with a path, such as \"https://example.com/client.json\"";
            faults.push((format!("{url:?} is no address of a client metadata document"), help));
        }
        if let Some(issuer) = self.issuer.as_deref().filter(|issuer| !is_issuer(issuer)) {
            let help = "use an https address with the name of a host, such as \"https://login.example.com\"";
            faults.push((format!("{issuer:?} is no authorization server"), help));
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !is_scope(scope)) {
            faults.push((format!("{scope:?} is no scope"), "list each scope as a text of its own"));
        }
        if self.callback_port == Some(0) {
            faults.push(("no program listens on port 0".to_owned(), "remove `callback_port`"));
        }
        faults
    }
}

fn is_document(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
}

fn is_issuer(issuer: &str) -> bool {
    Url::parse(issuer).is_ok_and(|url| is_secret(&url) && !is_private_literal(&url))
}

/// Longest scope, in bytes.
const SCOPE_BYTES_MAX: usize = 256;

/// True for a scope token of RFC 6749, section 3.3.
pub(in crate::mcp) fn is_scope(scope: &str) -> bool {
    let is_of_scope = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=SCOPE_BYTES_MAX).contains(&scope.len()) && scope.bytes().all(is_of_scope)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match toml::from_str::<OauthConfig>(text) {
            Ok(config) => {
                let faults = config.faults();
                faults.iter().map(|(what, help)| format!("{what}; {help}\n")).collect()
            }
            Err(error) => error.message().to_owned(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_table_is_understood_or_its_faults_are_named() {
        check(
            "client_id = \"a\"\nclient_secret_env = \"S\"\nissuer = \"https://h\"\nscopes = [\"a:b\"]\ncallback_port = 1",
            expect![""],
        );
        check("client_metadata_url = \"https://h/c.json\"\nissuer = \"http://localhost:1\"", expect![""]);
        check(
            "client_metadata_url = \"https://h\"\nissuer = \"http://h\"\nclient_secret_env = \"S\"\nscopes = [\"a b\"]\ncallback_port = 0",
            expect![[r#"
                `client_secret_env` without `client_id`; add the `client_id`
                "https://h" is no address of a client metadata document; use an https address with a path, such as "https://example.com/client.json"
                "http://h" is no authorization server; use an https address with the name of a host, such as "https://login.example.com"
                "a b" is no scope; list each scope as a text of its own
                no program listens on port 0; remove `callback_port`
            "#]],
        );
        check(
            "client_id = \"a\"\nclient_secret_env = \"S\"\nclient_metadata_url = \"https://h/c\"",
            expect![[r#"
                `client_secret_env` without `issuer`; add the `issuer` that knows the secret: a server may name another one
                a client has either a `client_id` or a `client_metadata_url`; remove one of the two
            "#]],
        );
        check(
            "issuer = \"https://10.0.0.1\"",
            expect![[r#"
                "https://10.0.0.1" is no authorization server; use an https address with the name of a host, such as "https://login.example.com"
            "#]],
        );
        check(
            "client_secret = \"hunter2\"",
            expect![
                "unknown field `client_secret`, expected one of `client_id`, `client_secret_env`, `client_metadata_url`, `scopes`, `issuer`, `callback_port`"
            ],
        );
    }
}
