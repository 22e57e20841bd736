//! The order in which the addresses of a host are tried.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::net::interrupt::Interrupter;

/// The largest number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 16;

/// The address of the last connection on which a server answered. Clones share the address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remembered(Arc<Mutex<Option<SocketAddr>>>);

/// The address of one connection.
///
/// The address is remembered after the first answer, not after connecting. The kernel or a load balancer in front of
/// a hanging server still accepts connections. If a connection ends without an answer, its address is forgotten,
/// unless the call was interrupted.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) address: SocketAddr,
    remembered: Remembered,
    interrupter: Interrupter,
    has_answered: bool,
}

impl Remembered {
    pub(crate) fn route(&self, address: SocketAddr, interrupter: &Interrupter) -> Route {
        Route { address, remembered: self.clone(), interrupter: interrupter.clone(), has_answered: false }
    }

    /// Orders the addresses of a host by RFC 8305, section 4.
    ///
    /// The address families alternate, starting with the family of the first address. If the remembered address is
    /// among `addresses`, it comes first.
    pub(crate) fn order(&self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
        let (ours, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == preferred);
        let pairs = (0..ours.len().max(others.len())).map(|at| [ours.get(at), others.get(at)]);
        let mut ordered: Vec<SocketAddr> = pairs.flatten().flatten().copied().collect();
        let remembered = *self.0.lock();
        if let Some(at) = ordered.iter().position(|address| Some(*address) == remembered) {
            ordered[..=at].rotate_right(1);
        }
        ordered.truncate(MAX_ADDRESSES);
        ordered
    }
}

impl Route {
    pub(crate) fn answered(&mut self) {
        if !self.has_answered {
            self.has_answered = true;
            *self.remembered.0.lock() = Some(self.address);
        }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut remembered = self.remembered.0.lock();
        if !self.has_answered && *remembered == Some(self.address) && !self.interrupter.is_interrupted() {
            *remembered = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    fn ordered(remembered: &Remembered, addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|a| address(a)).collect();
        remembered.order(addresses).iter().map(|a| a.ip().to_string()).collect()
    }

    #[test]
    fn families_take_turns_and_that_of_the_first_address_begins() {
        let nothing = Remembered::default();
        assert_eq!(ordered(&nothing, &["::1", "::2", "::3", "1.1.1.1"]), ["::1", "1.1.1.1", "::2", "::3"]);
        assert_eq!(ordered(&nothing, &["1.1.1.1", "1.1.1.2", "::1", "::2"]), ["1.1.1.1", "::1", "1.1.1.2", "::2"]);
        assert_eq!(ordered(&nothing, &["1.1.1.2", "1.1.1.1"]), ["1.1.1.2", "1.1.1.1"]);
        assert!(ordered(&nothing, &[]).is_empty());
        let many: Vec<_> = (0..60).map(|i| format!("::{i:x}")).chain(["1.1.1.1".to_owned()]).collect();
        let many = ordered(&nothing, &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((many.len(), many[1].as_str()), (MAX_ADDRESSES, "1.1.1.1"), "no family is cut off");
    }

    #[test]
    fn last_answering_address_comes_first_until_it_fails() {
        let remembered = Remembered::default();
        let all = ["::1", "1.1.1.1", "::2"];
        let interrupter = Interrupter::default();
        let mut route = remembered.route(address("::2"), &interrupter);
        assert_eq!(ordered(&remembered, &all), ["::1", "1.1.1.1", "::2"], "connected is not answered");
        route.answered();
        assert_eq!(ordered(&remembered, &all), ["::2", "::1", "1.1.1.1"]);
        assert_eq!(ordered(&remembered, &["::1", "::3"]), ["::1", "::3"], "it is another host's");
        drop(route);
        assert_eq!(ordered(&remembered, &all)[0], "::2", "a connection that ends takes nothing from its address");
        drop(remembered.route(address("::1"), &interrupter));
        assert_eq!(ordered(&remembered, &all)[0], "::2", "another one was silent");
        let interrupted = Interrupter::default();
        interrupted.interrupt();
        drop(remembered.route(address("::2"), &interrupted));
        assert_eq!(ordered(&remembered, &all)[0], "::2", "it may have been about to answer");
        drop(remembered.route(address("::2"), &interrupter));
        assert_eq!(ordered(&remembered, &all)[0], "::1");
    }
}
