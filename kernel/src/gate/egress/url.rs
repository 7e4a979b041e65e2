//! URLs that every parser reads alike.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::EgressFault;

/// Schemes with a known port.
pub(super) const KNOWN_PORTS: [(&str, u16); 2] = [("https", 443), ("http", 80)];

pub(super) fn known_port(scheme: &str) -> Option<u16> {
    KNOWN_PORTS.into_iter().find(|(known, _)| *known == scheme).map(|(_, port)| port)
}

pub(super) fn is_known_port(port: u16) -> bool {
    KNOWN_PORTS.iter().any(|(_, known)| *known == port)
}

pub(super) struct PlainUrl {
    /// Lower case.
    pub(super) scheme: String,
    pub(super) host: String,
    /// The written port, or the known one of the scheme.
    pub(super) port: Option<u16>,
    pub(super) address: Option<IpAddr>,
}

impl PlainUrl {
    pub(super) fn parse(url: &str) -> Result<PlainUrl, EgressFault> {
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

pub(super) fn parse_port(digits: &str) -> Option<u16> {
    if digits.starts_with(['0', '+']) { None } else { digits.parse().ok() }
}

/// The host in lower case, and its address if the host is an IP literal.
pub(super) fn parse_host(host: &str) -> Result<(String, Option<IpAddr>), EgressFault> {
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
    // decimal form is unambiguous; the standard library reads no other.
    match lower.parse::<Ipv4Addr>() {
        Ok(address) => Ok((lower, Some(address.into()))),
        Err(_) => Err(EgressFault::Ambiguous("expected an IPv4 address of four decimal numbers")),
    }
}
