//! Public and private addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
pub(super) fn is_private(address: IpAddr) -> bool {
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
