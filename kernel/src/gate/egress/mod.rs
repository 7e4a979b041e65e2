//! The egress list: which hosts and ports a call may reach. Empty by default.

mod address;
#[cfg(test)]
mod tests;
mod url;

use std::net::IpAddr;

use address::is_private;
pub use address::is_public;
use url::{KNOWN_PORTS, PlainUrl, is_known_port, known_port, parse_host, parse_port};

/// Permitted destinations: rules of which one must fit.
///
/// [`Egress::judge`] accepts a URL only if every URL parser must read the same scheme, host and port from the text:
/// printable ASCII without backslashes, no user part, a port without leading zeros, a host of plain labels, and an IPv4
/// address in its one canonical spelling. Any other text could name one host to this check and another to the HTTP client.
/// A URL that passes is compared with the list as text, without name resolution.
///
/// Names are resolved where the connection is made, and [`Destination::may_connect`] judges the address, so a listed name
/// cannot lead into a private network through DNS rebinding. Where addresses are known before, [`Lookup`] gives them.
///
/// ```
/// use ostler_kernel::gate::Egress;
/// let egress = Egress::new(["api.example.com:443", "127.0.0.1:8080"]).unwrap();
/// assert!(egress.judge("https://api.example.com/v1").is_ok());
/// assert!(egress.judge("https://api.example.com.evil.net/v1").is_err());
/// assert!(egress.judge("http://127.0.0.1:8080/").is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Egress {
    rules: Vec<Destinations>,
}

/// One egress rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destinations {
    pub(super) hosts: Vec<HostPattern>,
    pub(super) schemes: Vec<String>,
    /// `None`: the known port of the scheme.
    pub(super) ports: Option<Vec<u16>>,
    /// Opens private networks and loopback.
    pub(super) allow_private: bool,
}

impl Destinations {
    fn fits(&self, url: &PlainUrl) -> bool {
        let Some(port) = url.port else { return false };
        self.schemes.contains(&url.scheme)
            && self.hosts.iter().any(|host| host.fits(&url.host))
            && match &self.ports {
                Some(ports) => ports.contains(&port),
                None => known_port(&url.scheme) == Some(port),
            }
    }

    fn opens(&self, address: IpAddr) -> bool {
        is_public(address) || (self.allow_private && is_private(address))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostPattern {
    /// `*`.
    Any,
    /// `*.example.com`, stored as `.example.com`; requires at least one label in front.
    Below(String),
    Exactly(String),
}

/// Addresses of the hosts of URLs.
pub trait Lookup {
    /// Looks a name up. Called once for each URL that a rule fits, in the order of the parameters.
    fn addresses(&mut self, host: &str) -> Addresses;
}

/// The answer to a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// Leaves names to the connection, which looks them up and judges each address by [`Destination::may_connect`].
    AtConnection,
    /// All addresses of the name; none: the name does not exist.
    Found(Vec<IpAddr>),
}

/// Leaves every name to the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtConnection;

impl Lookup for AtConnection {
    fn addresses(&mut self, _: &str) -> Addresses {
        Addresses::AtConnection
    }
}

/// The address that a URL was judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// The address.
    pub address: IpAddr,
    /// The URL names a host; `false`: it names the address.
    pub looked_up: bool,
}

/// An invalid entry of the egress list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("egress entry {entry:?}: expected host:port, in lower case (`*.host:port` for all below it)")]
pub struct EgressEntryError {
    /// The text of the entry.
    pub entry: String,
}

/// Reasons to refuse a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressFault {
    /// Two parsers could read different destinations from the text.
    #[error("ambiguous URL: {0}")]
    Ambiguous(&'static str),
    /// The scheme is neither http nor https.
    #[error("expected an http or https URL")]
    Scheme,
    /// The port is the default of the other scheme.
    #[error("port {port} is the port of {expected}, found scheme {scheme}")]
    OtherScheme {
        /// Port of the URL.
        port: u16,
        /// Scheme that uses this port by default.
        expected: &'static str,
        /// Scheme of the URL.
        scheme: &'static str,
    },
    /// No entry lists host and port.
    #[error("{host}:{port} is not on the egress list")]
    NotListed {
        /// Host of the URL.
        host: String,
        /// Port of the URL.
        port: u16,
    },
    /// The address is not public, and no entry names the host literally.
    #[error("{host}:{port} is not a public address; only an entry without a wildcard opens a private one")]
    NotPublic {
        /// Host of the URL.
        host: String,
        /// Port of the URL.
        port: u16,
    },
    /// The name has no address.
    #[error("{host} has no address")]
    NotFound {
        /// Host of the URL.
        host: String,
    },
}

/// A permitted host and port. Check the resolved address with [`Destination::may_connect`] before connecting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Lower case; an IPv6 address keeps its brackets.
    pub host: String,
    /// The explicit port or the scheme's default.
    pub port: u16,
    /// A fitting rule opens private networks; an entry of the list does if it has no wildcard.
    opens_private: bool,
}

impl Destination {
    /// True if the host may be reached at this resolved address. Public addresses are open. Private addresses need an entry
    /// that names the host literally. Link-local and other special addresses are never open, which protects cloud metadata
    /// services such as 169.254.169.254.
    pub fn may_connect(&self, address: IpAddr) -> bool {
        is_public(address) || (self.opens_private && is_private(address))
    }
}

impl Egress {
    /// Parses entries of the form `host:port`, `*.host:port` or `*:port`.
    ///
    /// # Errors
    ///
    /// The first invalid entry.
    pub fn new<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Result<Egress, EgressEntryError> {
        let rules = entries.into_iter().map(|entry| {
            let entry = entry.as_ref();
            listed(entry).ok_or_else(|| EgressEntryError { entry: entry.to_owned() })
        });
        Ok(Egress { rules: rules.collect::<Result<_, _>>()? })
    }

    pub(super) fn push(&mut self, rule: Destinations) {
        self.rules.push(rule);
    }

    /// True if nothing may be reached.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks a URL against the rules, without resolving its host.
    ///
    /// # Errors
    ///
    /// The reason to refuse the URL.
    pub fn judge(&self, url: &str) -> Result<Destination, EgressFault> {
        let (url, opens_private) = self.fitting(url)?;
        let destination = Destination { port: url.port.unwrap_or_default(), host: url.host, opens_private };
        match url.address {
            Some(address) if !destination.may_connect(address) => {
                Err(EgressFault::NotPublic { host: destination.host, port: destination.port })
            }
            _ => Ok(destination),
        }
    }

    /// Checks a URL and the addresses of its host. `None`: whoever connects judges the address.
    pub(super) fn pin(&self, url: &str, lookup: &mut dyn Lookup) -> Result<Option<Pinned>, EgressFault> {
        let (url, _) = self.fitting(url)?;
        let looked_up = url.address.is_none();
        let addresses = match url.address {
            Some(address) => vec![address],
            None => match lookup.addresses(&url.host) {
                Addresses::AtConnection => return Ok(None),
                Addresses::Found(addresses) => addresses,
            },
        };
        let Some(&address) = addresses.first() else { return Err(EgressFault::NotFound { host: url.host }) };
        let opens = |rule: &Destinations| addresses.iter().all(|&address| rule.opens(address));
        if self.rules.iter().filter(|rule| rule.fits(&url)).any(opens) {
            Ok(Some(Pinned { address, looked_up }))
        } else {
            Err(EgressFault::NotPublic { port: url.port.unwrap_or_default(), host: url.host })
        }
    }

    /// The parsed URL, and whether a fitting rule opens private networks; an error if no rule fits.
    fn fitting(&self, url: &str) -> Result<(PlainUrl, bool), EgressFault> {
        let parsed = PlainUrl::parse(url)?;
        let mut fitting = self.rules.iter().filter(|rule| rule.fits(&parsed)).peekable();
        if fitting.peek().is_none() {
            return Err(self.unlisted(parsed));
        }
        let opens_private = fitting.any(|rule| rule.allow_private);
        Ok((parsed, opens_private))
    }

    fn unlisted(&self, url: PlainUrl) -> EgressFault {
        let known = |scheme: &str| self.rules.iter().any(|rule| rule.schemes.iter().any(|it| it == scheme));
        let Some(port) = url.port.filter(|_| known_port(&url.scheme).is_some() || known(&url.scheme)) else {
            return EgressFault::Scheme;
        };
        let owner = KNOWN_PORTS.into_iter().find(|(_, known)| *known == port);
        let scheme = KNOWN_PORTS.into_iter().map(|(known, _)| known).find(|known| *known == url.scheme);
        match (owner, scheme) {
            (Some((expected, _)), Some(scheme)) if expected != scheme => {
                EgressFault::OtherScheme { port, expected, scheme }
            }
            _ => EgressFault::NotListed { host: url.host, port },
        }
    }
}

/// The rule of an entry of the list. Port 443 accepts only https and port 80 only http, so an entry for a protected
/// connection never permits plain text. Any other port accepts both.
fn listed(entry: &str) -> Option<Destinations> {
    let (host, port) = entry.rsplit_once(':')?;
    let port = parse_port(port)?;
    let schemes = KNOWN_PORTS.iter().filter(|(_, known)| *known == port || !is_known_port(port));
    let schemes = schemes.map(|(scheme, _)| (*scheme).to_owned()).collect();
    let host = HostPattern::listed(host)?;
    let allow_private = matches!(host, HostPattern::Exactly(_));
    Some(Destinations { hosts: vec![host], schemes, ports: Some(vec![port]), allow_private })
}

impl HostPattern {
    /// The pattern of an entry of the list: its host must be one that a URL can name.
    fn listed(host: &str) -> Option<HostPattern> {
        let name = host.strip_prefix("*.").unwrap_or(host);
        if host != "*" {
            let (plain, address) = parse_host(name).ok()?;
            if plain != name || (name != host && address.is_some()) {
                return None;
            }
        }
        Some(HostPattern::new(host))
    }

    /// `*`, `*.example.com`, or a host as URLs name it, in lower case.
    pub(super) fn new(pattern: &str) -> HostPattern {
        match pattern.strip_prefix('*') {
            Some("") => HostPattern::Any,
            Some(suffix) if suffix.starts_with('.') => HostPattern::Below(suffix.to_owned()),
            _ => HostPattern::Exactly(pattern.to_owned()),
        }
    }

    fn fits(&self, host: &str) -> bool {
        match self {
            HostPattern::Any => true,
            // The host of a URL does not begin with a dot, so a label precedes the suffix.
            HostPattern::Below(suffix) => host.ends_with(suffix.as_str()),
            HostPattern::Exactly(name) => host == name,
        }
    }
}
