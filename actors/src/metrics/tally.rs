//! Usage by client, with names for the [`CLIENTS_NAMED_MAX`] busiest.

use std::collections::{BTreeMap, BTreeSet};

use metrics::Recorder;
use ostler_kernel::id::ClientId;
use ostler_kernel::plan::Kind;

use super::metric;

pub(super) const CLIENTS_NAMED_MAX: usize = 50;

/// Label of all other clients; no client can have the name.
pub(super) const OTHER: &str = "(other)";

#[derive(Default)]
pub(super) struct Tally {
    clients: BTreeMap<ClientId, Used>,
    named: BTreeSet<ClientId>,
    /// Usage of clients while they were unnamed; only grows, also when a client gets a name later.
    others: Shown,
}

#[derive(Default)]
struct Used {
    /// Since the start; the largest decide the names.
    total: u64,
    fresh: Shown,
    own: Shown,
}

#[derive(Default)]
struct Shown {
    service: u64,
    credits: BTreeMap<Kind, u64>,
}

impl Shown {
    fn take_in(&mut self, fresh: Shown) {
        self.service += fresh.service;
        for (kind, credits) in fresh.credits {
            *self.credits.entry(kind).or_default() += credits;
        }
    }

    fn tell(&self, into: &dyn Recorder, client: &str) {
        metric::SERVICE.counter(into, [client.to_owned().into()]).absolute(self.service);
        for (kind, credits) in &self.credits {
            let counter = metric::CREDITS.counter(into, [client.to_owned().into(), kind.as_str().into()]);
            counter.absolute(*credits);
        }
    }
}

impl Tally {
    pub(super) fn spend(&mut self, client: &ClientId, kind: Kind, credits: u64) {
        *self.used(client).fresh.credits.entry(kind).or_default() += credits;
    }

    /// Adds service since the last answer, and names the busiest clients.
    pub(super) fn serve(&mut self, served: &[(ClientId, u64)]) {
        for (client, credits) in served {
            let used = self.used(client);
            used.total += credits;
            used.fresh.service += credits;
        }
        let clients = self.clients.iter();
        let mut busiest: Vec<(&ClientId, u64)> = clients.map(|(client, used)| (client, used.total)).collect();
        busiest.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
        self.named = busiest.into_iter().take(CLIENTS_NAMED_MAX).map(|(client, _)| client.clone()).collect();
    }

    fn used(&mut self, client: &ClientId) -> &mut Used {
        self.clients.entry(client.clone()).or_default()
    }

    pub(super) fn named(&self) -> impl Iterator<Item = &ClientId> {
        self.named.iter()
    }

    /// True if the client is named.
    pub(super) fn names(&self, client: &ClientId) -> bool {
        self.named.contains(client)
    }

    pub(super) fn tell(&mut self, into: &dyn Recorder) {
        for (client, used) in &mut self.clients {
            let fresh = std::mem::take(&mut used.fresh);
            if self.named.contains(client) {
                used.own.take_in(fresh);
                used.own.tell(into, client.as_str());
            } else {
                self.others.take_in(fresh);
            }
        }
        self.others.tell(into, OTHER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::seen::Seen;

    /// The sum over all clients, and the number of named ones.
    fn shown(tally: &mut Tally) -> (f64, usize, Seen) {
        let seen = Seen::default();
        tally.tell(&seen);
        let service: Vec<String> =
            seen.names().into_iter().filter(|name| name.starts_with(metric::SERVICE.name)).collect();
        let all = service.iter().filter_map(|name| seen.value(name)).sum();
        (all, service.len() - 1, seen)
    }

    #[test]
    fn as_many_clients_as_the_limit_are_named_and_nothing_is_lost() {
        let mut tally = Tally::default();
        let client = |number: usize| ClientId::from(format!("c{number:03}").as_str());
        let served: Vec<(ClientId, u64)> = (1..=60).map(|number| (client(number), number as u64)).collect();
        tally.serve(&served);
        tally.spend(&client(1), Kind::Tool, 7);
        let (all, named, seen) = shown(&mut tally);
        assert_eq!((all, named), (1830.0, CLIENTS_NAMED_MAX));
        assert!(!tally.names(&client(10)) && tally.names(&client(11)));
        assert_eq!(seen.value("ostler_scheduler_service_total (other)"), Some(55.0));
        assert_eq!(seen.value("ostler_credits_total (other) tool"), Some(7.0));

        // A client that becomes one of the busiest leaves its unnamed usage with the others.
        tally.serve(&[(client(1), 1_000)]);
        let (all, named, seen) = shown(&mut tally);
        assert_eq!(
            (all, named),
            (2830.0 - 11.0, CLIENTS_NAMED_MAX),
            "one that has lost its name is not shown"
        );
        assert_eq!(seen.value("ostler_scheduler_service_total c001"), Some(1_000.0));
        assert_eq!(seen.value("ostler_scheduler_service_total (other)"), Some(55.0));

        // A client with a regained name keeps its earlier values.
        tally.serve(&[(client(11), 500)]);
        let (_, _, seen) = shown(&mut tally);
        assert_eq!(seen.value("ostler_scheduler_service_total c011"), Some(511.0));
    }

    #[test]
    fn no_client_can_be_called_as_the_others_are() {
        assert!(!ostler_kernel::id::is_name(OTHER));
        let mut tally = Tally::default();
        tally.serve(&[(ClientId::from("other"), 5), (ClientId::from("acme"), 3)]);
        let (_, named, seen) = shown(&mut tally);
        assert_eq!(named, 2);
        assert_eq!(seen.value("ostler_scheduler_service_total other"), Some(5.0));
    }
}
