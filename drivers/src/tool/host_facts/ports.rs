//! Ports on which a program waits for connections or datagrams.

use std::net::{IpAddr, Ipv4Addr};

use ostler_kernel::event::Failure;
use serde_json::{Value, json};

use super::{Proc, list};

/// Tables of sockets, with the state of a waiting one: `TCP_LISTEN`, and `TCP_CLOSE` for UDP without a peer.
const TABLES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

pub(super) fn ports(proc: &Proc<'_>) -> Result<Value, Failure> {
    let mut ports = Vec::new();
    let mut is_cut = false;
    for (table, waiting) in TABLES {
        // A kernel without IPv6 has no tables of it.
        if table.ends_with('6') && !proc.root.join("net").join(table).exists() {
            continue;
        }
        let (text, cut) = proc.read(&format!("net/{table}"))?;
        is_cut |= cut;
        ports.extend(text.lines().filter_map(|line| port(line, waiting)).map(|port| (table, port)));
    }
    ports.sort();
    // Programs share a port with SO_REUSEPORT.
    ports.dedup();
    let shown = |(table, (number, address, uid)): (&str, (u16, IpAddr, u32))| json!({"protocol": table.trim_end_matches('6'), "address": address.to_string(), "port": number, "uid": uid});
    Ok(list(ports.into_iter().map(shown).collect(), is_cut))
}

/// Port, address and user of a line, if its socket waits.
fn port(line: &str, waiting: &str) -> Option<(u16, IpAddr, u32)> {
    let mut fields = line.split_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    let state = fields.nth(1)?;
    let uid = fields.nth(3)?.parse().ok()?;
    if state != waiting {
        return None;
    }
    Some((u16::from_str_radix(port, 16).ok()?, self::address(address)?, uid))
}

/// An address in the kernel's form: words of 32 bits in hex, in the machine's order of bytes.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(bytes.into())
        }
        _ => None,
    }
}
