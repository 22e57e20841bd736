//! The servers that `NO_PROXY` exempts, by the rules of `golang.org/x/net/http/httpproxy`.

use std::net::IpAddr;

use crate::net::endpoint::Endpoint;

/// Returns `true` if an entry of `NO_PROXY` matches the target.
///
/// An entry is `*`, an address, a network, a domain with its subdomains, or `.domain` for the subdomains alone.
pub(super) fn is_exempt(list: &str, target: &Endpoint) -> bool {
    let host = target.host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    list.split(',').map(str::trim).filter(|e| !e.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" {
            return true;
        }
        if let Some((net, bits)) = entry.split_once('/') {
            let network = net.parse::<IpAddr>().ok().zip(bits.parse::<u32>().ok());
            return network.zip(address).is_some_and(|((net, bits), ip)| contains(net, bits, ip));
        }
        let (name, port) = match entry.rsplit_once(':') {
            // A bare IPv6 address has colons but no port.
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
            _ => (entry.as_str(), ""),
        };
        // A port that is not a number matches no target.
        if !port.is_empty() && port.parse() != Ok(target.port) {
            return false;
        }
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = name.parse::<IpAddr>() {
            return address == Some(ip.to_canonical());
        }
        // An address has no domain, so a suffix of the address does not match.
        if address.is_some() {
            return false;
        }
        let name = if name.starts_with("*.") { &name[1..] } else { name };
        match name.strip_prefix('.') {
            Some(domain) => host.strip_suffix(domain).is_some_and(|h| h.ends_with('.')),
            None => host.strip_suffix(name).is_some_and(|h| h.is_empty() || h.ends_with('.')),
        }
    })
}

fn contains(net: IpAddr, bits: u32, ip: IpAddr) -> bool {
    // Shifting by the full width would overflow, so an empty prefix is a separate case.
    match (net, ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) if bits <= 32 => {
            bits == 0 || (net.to_bits() ^ ip.to_bits()) >> (32 - bits) == 0
        }
        (IpAddr::V6(net), IpAddr::V6(ip)) if bits <= 128 => {
            bits == 0 || (net.to_bits() ^ ip.to_bits()) >> (128 - bits) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_any_length_compare() {
        let ip = |s: &str| s.parse::<IpAddr>().unwrap();
        assert!(contains(ip("0.0.0.0"), 0, ip("1.2.3.4")) && contains(ip("::"), 0, ip("::1")));
        assert!(contains(ip("1.2.3.4"), 32, ip("1.2.3.4")) && !contains(ip("1.2.3.4"), 32, ip("1.2.3.5")));
        assert!(!contains(ip("1.2.3.4"), 33, ip("1.2.3.4")) && !contains(ip("::"), 0, ip("1.2.3.4")));
        assert!(contains(ip("::1"), 128, ip("::1")) && !contains(ip("::1"), 128, ip("::2")));
        assert!(!contains(ip("::1"), 129, ip("::1")) && contains(ip("::2"), 127, ip("::3")));
    }
}
