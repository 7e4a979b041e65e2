//! What each client used, and which clients are named in metrics: as many as [`CLIENTS_NAMED_MAX`], the busiest.

use std::collections::{BTreeMap, BTreeSet};

use metrics::Recorder;
use ostler_kernel::id::ClientId;
use ostler_kernel::plan::Kind;

use super::metric;

/// Clients that metrics name.
pub(super) const CLIENTS_NAMED_MAX: usize = 50;

/// The name of all the others: no client can be called so.
pub(super) const OTHER: &str = "(other)";

/// What was used since the start.
#[derive(Default)]
pub(super) struct Tally {
    clients: BTreeMap<ClientId, Used>,
    named: BTreeSet<ClientId>,
    /// What clients used while they had no name: only ever more, whoever gets a name later.
    others: Shown,
}

/// What one client used.
#[derive(Default)]
struct Used {
    /// Since the start: by it the busiest are found.
    total: u64,
    /// Not shown yet, under any name.
    fresh: Shown,
    /// Under its own name.
    own: Shown,
}

/// What counters show.
#[derive(Default)]
struct Shown {
    service: u64,
    /// By kind of node.
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
    /// An attempt cost this.
    pub(super) fn spend(&mut self, client: &ClientId, kind: Kind, credits: u64) {
        *self.used(client).fresh.credits.entry(kind).or_default() += credits;
    }

    /// Clients were served this since the last look. Names the busiest anew.
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

    /// The clients that have a name of their own in metrics.
    pub(super) fn named(&self) -> impl Iterator<Item = &ClientId> {
        self.named.iter()
    }

    /// Whether the client has a name of its own in metrics.
    pub(super) fn names(&self, client: &ClientId) -> bool {
        self.named.contains(client)
    }

    /// Shows what is fresh, and puts all of it into `into`.
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

    /// Everything that is shown for all clients together, and how many have a name.
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

        // One of the rest becomes the busiest: what it used under no name stays with the others.
        tally.serve(&[(client(1), 1_000)]);
        let (all, named, seen) = shown(&mut tally);
        assert_eq!(
            (all, named),
            (2830.0 - 11.0, CLIENTS_NAMED_MAX),
            "one that has lost its name is not shown"
        );
        assert_eq!(seen.value("ostler_scheduler_service_total c001"), Some(1_000.0));
        assert_eq!(seen.value("ostler_scheduler_service_total (other)"), Some(55.0));

        // And has what it had when it gets its name back.
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
