//! The egress list: which hosts and ports a call may reach. Empty by default.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    /// Whoever connects looks the name up and judges the address by [`Destination::may_connect`].
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
            HostPattern::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            HostPattern::Exactly(name) => host == name,
        }
    }
}

/// Schemes with a known port.
const KNOWN_PORTS: [(&str, u16); 2] = [("https", 443), ("http", 80)];

fn known_port(scheme: &str) -> Option<u16> {
    KNOWN_PORTS.into_iter().find(|(known, _)| *known == scheme).map(|(_, port)| port)
}

fn is_known_port(port: u16) -> bool {
    KNOWN_PORTS.iter().any(|(_, known)| *known == port)
}

struct PlainUrl {
    /// Lower case.
    scheme: String,
    host: String,
    /// The written port, or the known one of the scheme.
    port: Option<u16>,
    address: Option<IpAddr>,
}

impl PlainUrl {
    fn parse(url: &str) -> Result<PlainUrl, EgressFault> {
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(EgressFault::Ambiguous("expected printable ASCII without spaces and backslashes"));
        }
        let (scheme, rest) =
            url.split_once("://").ok_or(EgressFault::Ambiguous("expected an absolute URL"))?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(plain) {
            return Err(EgressFault::Ambiguous("expected an absolute URL"));
        }
        let scheme = scheme.to_ascii_lowercase();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(EgressFault::Ambiguous("expected no user before the host"));
        }
        let split = match authority.strip_prefix('[') {
            Some(inner) => inner.find(']').map(|end| authority.split_at(end + 2)),
            None => Some(authority.split_at(authority.find(':').unwrap_or(authority.len()))),
        };
        let (host, port) = split.ok_or(EgressFault::Ambiguous("expected a closing bracket"))?;
        let port = match port.strip_prefix(':') {
            Some(digits) => Some(
                parse_port(digits)
                    .ok_or(EgressFault::Ambiguous("expected a port of 1 to 65535 without leading zeros"))?,
            ),
            None if port.is_empty() => known_port(&scheme),
            None => return Err(EgressFault::Ambiguous("expected nothing between the host and the port")),
        };
        let (host, address) = parse_host(host)?;
        Ok(PlainUrl { scheme, host, port, address })
    }
}

fn parse_port(digits: &str) -> Option<u16> {
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The host in lower case, and its address if the host is an IP literal.
fn parse_host(host: &str) -> Result<(String, Option<IpAddr>), EgressFault> {
    let lower = host.to_ascii_lowercase();
    if let Some(inner) = lower.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr =
            inner.parse().map_err(|_| EgressFault::Ambiguous("expected an IPv6 address in brackets"))?;
        return Ok((lower, Some(address.into())));
    }
    let name = lower.strip_suffix('.').unwrap_or(&lower); // a final dot marks a fully qualified name
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.split('.').all(|label| !label.is_empty() && label.bytes().all(plain)) {
        return Err(EgressFault::Ambiguous("expected a host of letters, digits, `-`, `_` and dots"));
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !hex && !last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok((lower, None));
    }
    // URL parsers read such a host as an IPv4 address in decimal, octal or hex, with one to four parts. Only the dotted
    // decimal form is unambiguous.
    match lower.parse::<Ipv4Addr>() {
        Ok(address) if address.to_string() == lower => Ok((lower, Some(address.into()))),
        _ => Err(EgressFault::Ambiguous("expected an IPv4 address of four decimal numbers")),
    }
}

/// True if an address is globally reachable according to the IANA special-purpose registries (RFC 6890).
pub fn is_public(address: IpAddr) -> bool {
    const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
        (Ipv4Addr::new(0, 0, 0, 0), 8),
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 0, 0, 0), 24),
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        (Ipv4Addr::new(192, 88, 99, 0), 24),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        (Ipv4Addr::new(224, 0, 0, 0), 4),
        (Ipv4Addr::new(240, 0, 0, 0), 4),
    ];
    const SPECIAL_V6: [(Ipv6Addr, u32); 3] = [
        (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
        (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    ];
    match address {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|&range| within_v4(address, range)),
        IpAddr::V6(address) => {
            let global = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
            within_v6(address, global) && !SPECIAL_V6.iter().any(|&range| within_v6(address, range))
        }
    }
}

/// True if an address is loopback or private (RFC 1918, RFC 6598, RFC 4193), which a literal entry may open.
fn is_private(address: IpAddr) -> bool {
    const PRIVATE_V4: [(Ipv4Addr, u32); 5] = [
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
    ];
    match address {
        IpAddr::V4(address) => PRIVATE_V4.iter().any(|&range| within_v4(address, range)),
        IpAddr::V6(address) => {
            address == Ipv6Addr::LOCALHOST
                || within_v6(address, (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7))
        }
    }
}

fn within_v4(address: Ipv4Addr, (network, bits): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
}

fn within_v6(address: Ipv6Addr, (network, bits): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress() -> Egress {
        Egress::new([
            "api.example.com:443",
            "*.cdn.example.com:443",
            "plain.example.com:80",
            "odd.example.com:8443",
            "127.0.0.1:8080",
            "[::1]:8080",
            "localhost:8080",
            "169.254.169.254:80",
            "*:444",
        ])
        .unwrap()
    }

    const REFUSED_URLS: &[&str] = &[
        "",
        "api.example.com",
        "//api.example.com/",
        "/path",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "https:///x",
        "https://",
        "https:/api.example.com",
        "https://user@api.example.com/",
        "https://api.example.com@evil.net/",
        "https://api.example.com:80/",
        "https://api.example.com:0443/",
        "https://api.example.com:/",
        "https://api.example.com:65536/",
        "https://api.example.com:99999999999/",
        "https://api.example.com:+443/",
        "https://api.example.com.evil.net/",
        "https://evilapi.example.com/",
        "https://cdn.example.com/",
        "https://.cdn.example.com/",
        "https://a..cdn.example.com/",
        "https://xcdn.example.com/",
        "http://api.example.com/",
        "http://api.example.com:443/",
        "http://a.cdn.example.com:443/",
        "https://plain.example.com:80/",
        "https://api.example.com./",
        "https://api.example.com\\@evil.net/",
        "https://api.example.com\t/",
        " https://api.example.com/",
        "https://api.example.com\n/",
        "https://аpi.example.com/",
        "https://api%2eexample.com/",
        "http://127.0.0.1:8081/",
        "http://2130706433:8080/",
        "http://0x7f000001:8080/",
        "http://127.1:8080/",
        "http://0177.0.0.1:8080/",
        "http://127.0.0.01:8080/",
        "http://127.0.0.1.:8080/",
        "http://0x:8080/",
        "http://[::1:8080/",
        "http://[::1]x:8080/",
        "http://[0:0:0:0:0:0:0:1]:8080/",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://[fe80::1%25eth0]:8080/",
        "https://127.0.0.1:444/",
        "https://10.0.0.1:444/",
        "https://[::1]:444/",
        "https://[::ffff:8.8.8.8]:444/",
        "http://169.254.169.254/",
        "https://[fe80::1]:444/",
        "https://0.0.0.0:444/",
    ];

    #[test]
    fn only_what_is_listed_may_be_reached() {
        for url in [
            "https://api.example.com",
            "https://API.example.com/x?y#z",
            "HTTPS://api.example.com:443/",
            "https://a.cdn.example.com/",
            "https://a.b.cdn.example.com/",
            "http://plain.example.com/",
            "https://odd.example.com:8443/",
            "http://127.0.0.1:8080/x",
            "http://[::1]:8080/",
            "http://localhost:8080",
            "https://anything.at.all:444/",
            "https://8.8.8.8:444/",
            "https://[2606:4700::1]:444/",
        ] {
            assert!(egress().judge(url).is_ok(), "{url}: {:?}", egress().judge(url));
        }
        for url in REFUSED_URLS {
            assert!(egress().judge(url).is_err(), "{url}: {:?}", egress().judge(url));
        }
    }

    #[test]
    fn nothing_is_listed_by_default() {
        let fault = Egress::default().judge("https://api.example.com/").unwrap_err();
        assert_eq!(fault.to_string(), "api.example.com:443 is not on the egress list");
    }

    #[test]
    fn an_entry_is_a_host_and_a_port() {
        for entry in [
            "",
            "example.com",
            "example.com:",
            ":443",
            "example.com:0",
            "example.com:0443",
            "Example.com:443",
            "https://example.com:443",
            "*example.com:443",
            "*.*.com:443",
            "a.*.com:443",
            "*.:443",
            "*.10.0.0.1:80",
            "[::1:80",
            "example.com:443/",
            "010.0.0.1:80",
        ] {
            assert!(Egress::new([entry]).is_err(), "{entry}");
        }
    }

    #[test]
    fn a_name_may_lead_to_a_private_address_only_if_it_is_listed_literally() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let listed = egress().judge("http://localhost:8080/").unwrap();
        let by_pattern = egress().judge("https://a.cdn.example.com/").unwrap();
        for (text, by_listed, by_wildcard) in [
            ("127.0.0.1", true, false),
            ("10.1.2.3", true, false),
            ("::1", true, false),
            ("fd00::1", true, false),
            ("169.254.169.254", false, false),
            ("0.0.0.0", false, false),
            ("::ffff:127.0.0.1", false, false),
            ("fe80::1", false, false),
            ("93.184.216.34", true, true),
            ("2606:4700::1111", true, true),
        ] {
            assert_eq!(listed.may_connect(address(text)), by_listed, "{text}");
            assert_eq!(by_pattern.may_connect(address(text)), by_wildcard, "{text}");
        }
    }

    #[test]
    fn the_edges_of_the_special_ranges() {
        for (text, public) in [
            ("0.255.255.255", false),
            ("1.0.0.0", true),
            ("9.255.255.255", true),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("100.64.0.0", false),
            ("100.127.255.255", false),
            ("100.128.0.0", true),
            ("169.253.255.255", true),
            ("169.255.0.0", true),
            ("172.15.255.255", true),
            ("172.31.255.255", false),
            ("172.32.0.0", true),
            ("192.0.0.255", false),
            ("192.0.1.0", true),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.167.255.255", true),
            ("198.17.255.255", true),
            ("198.19.255.255", false),
            ("198.20.0.0", true),
            ("198.51.100.1", false),
            ("203.0.113.9", false),
            ("223.255.255.255", true),
            ("224.0.0.0", false),
            ("255.255.255.255", false),
            ("1fff::1", false),
            ("2000::1", true),
            ("2001:1ff::1", false),
            ("2001:200::1", true),
            ("2001:db8::1", false),
            ("2002::1", false),
            ("2003::1", true),
            ("3fff:ffff::1", true),
            ("4000::1", false),
            ("::", false),
            ("::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }
}
