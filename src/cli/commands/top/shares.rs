//! Entitlement and charges of each client.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use ostler_kernel::id::ClientId;
use ostler_server::wire::{ClientRow, ClientTier};
use serde::{Serialize, Serializer};

const MINUTE: Duration = Duration::from_secs(60);

const SAMPLES_MAX: usize = 128;

/// A fraction in ten-thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share(u32);

impl Share {
    /// Returns `None` if the whole is 0.
    fn of(part: u64, whole: u128) -> Option<Share> {
        let share = (u128::from(part) * 10_000 + whole / 2).checked_div(whole)?;
        Some(Share(share.min(10_000) as u32))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 + 5) / 10;
        f.pad(&format!("{}.{}%", tenths / 10, tenths % 10))
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 10_000.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ClientShare {
    #[serde(flatten)]
    pub(super) line: ClientRow,
    /// Weight relative to the clients that have work; `None`: no work, or parked.
    pub(super) entitled: Option<Share>,
    /// Part of the charges since the last poll; `None` without a last poll or charges.
    pub(super) got_last: Option<Share>,
    pub(super) got_minute: Option<Share>,
    pub(super) got_all: Option<Share>,
}

#[derive(Debug)]
struct Sample {
    at: Duration,
    charged: BTreeMap<ClientId, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct ShareHistory {
    earlier: VecDeque<Sample>,
    /// Cost of settled attempts by client. A decrease means that the scheduler was restarted.
    settled: BTreeMap<ClientId, u64>,
}

impl ShareHistory {
    /// Computes the shares at time `at`, which must not decrease.
    pub(super) fn shares(&mut self, clients: Vec<ClientRow>, at: Duration) -> Vec<ClientShare> {
        let settled: BTreeMap<ClientId, u64> = clients
            .iter()
            .map(|line| (line.client.clone(), line.charged.saturating_sub(line.reserved)))
            .collect();
        let before = std::mem::take(&mut self.settled);
        if settled.iter().any(|(client, now)| before.get(client).is_some_and(|before| now < before)) {
            self.earlier.clear();
        }
        self.settled = settled;
        // The last sample counts whatever its age.
        while self.earlier.len() > 1
            && (self.earlier[0].at + MINUTE < at || self.earlier.len() >= SAMPLES_MAX)
        {
            self.earlier.pop_front();
        }
        let since = |sample: Option<&Sample>| {
            shares(&clients, |line| {
                let before = sample?.charged.get(&line.client).copied().unwrap_or(0);
                Some(line.charged.saturating_sub(before))
            })
        };
        let last = since(self.earlier.back());
        let minute = since(self.earlier.front());
        let all = shares(&clients, |line| Some(line.charged));
        let entitled = shares(&clients, |line| {
            let has_work = line.running > 0 || line.queued > 0;
            (has_work && !line.parked).then(|| line.weight_served.into())
        });
        let charged = clients.iter().map(|line| (line.client.clone(), line.charged)).collect();
        self.earlier.push_back(Sample { at, charged });
        let each = entitled.into_iter().zip(last).zip(minute).zip(all);
        let share = |(line, (((entitled, got_last), got_minute), got_all))| ClientShare {
            line,
            entitled,
            got_last,
            got_minute,
            got_all,
        };
        clients.into_iter().zip(each).map(share).collect()
    }
}

/// The share of each client of the sum over its tier.
fn shares(clients: &[ClientRow], part: impl Fn(&ClientRow) -> Option<u64>) -> Vec<Option<Share>> {
    let parts: Vec<Option<u64>> = clients.iter().map(part).collect();
    let whole = |tier: ClientTier| -> u128 {
        let of_tier = clients.iter().zip(&parts).filter(|(line, _)| line.tier == tier);
        of_tier.filter_map(|(_, part)| part.map(u128::from)).sum()
    };
    let (contracted, marketplace) = (whole(ClientTier::Contracted), whole(ClientTier::Marketplace));
    let of = |line: &ClientRow| match line.tier {
        ClientTier::Contracted => contracted,
        ClientTier::Marketplace => marketplace,
    };
    clients.iter().zip(&parts).map(|(line, part)| Share::of((*part)?, of(line))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(in crate::cli::commands::top) fn client(
        name: &str,
        weight: u32,
        running: u32,
        charged: u64,
    ) -> ClientRow {
        ClientRow {
            tokens: None,
            nano_usd: None,
            client: name.into(),
            tier: ClientTier::Marketplace,
            weight,
            weight_served: weight,
            weight_from: "chosen".into(),
            deposited: None,
            spent: charged,
            reserved: 0,
            left: None,
            reputation_pm: None,
            for_jobs: 0,
            parked: false,
            running,
            queued: 0,
            charged,
            lag: 0,
        }
    }

    fn text(share: Option<Share>) -> String {
        share.map_or_else(|| "-".to_owned(), |share| share.to_string())
    }

    #[test]
    fn a_share_is_a_part_of_a_whole() {
        for (part, whole, expected) in [
            (0, 0, "-"),
            (0, 7, "0.0%"),
            (1, 3, "33.3%"),
            (2, 3, "66.7%"),
            (7, 7, "100.0%"),
            (1, 1_000, "0.1%"),
            (1, 10_000, "0.0%"),
            (u64::MAX, u128::from(u64::MAX), "100.0%"),
            (u64::MAX, u128::from(u64::MAX) * 4, "25.0%"),
        ] {
            assert_eq!(text(Share::of(part, whole)), expected, "{part} of {whole}");
        }
        assert_eq!(serde_json::to_string(&Share::of(1, 3)).unwrap(), "0.3333");
    }

    #[test]
    fn a_client_is_entitled_to_its_weight_among_those_of_its_tier_that_have_work() {
        for (name, change, expected) in [
            (
                "all have work",
                (|_: &mut [ClientRow]| ()) as fn(&mut [ClientRow]),
                ["10.0%", "30.0%", "60.0%"],
            ),
            ("one has none", |all| all[2].running = 0, ["25.0%", "75.0%", "-"]),
            (
                "what waits is work",
                |all| (all[2].running, all[2].queued) = (0, 1),
                ["10.0%", "30.0%", "60.0%"],
            ),
            ("one is parked", |all| all[0].parked = true, ["-", "33.3%", "66.7%"]),
            ("one is contracted", |all| all[1].tier = ClientTier::Contracted, ["14.3%", "100.0%", "85.7%"]),
            ("none has work", |all| all.iter_mut().for_each(|line| line.running = 0), ["-", "-", "-"]),
        ] {
            let mut clients = vec![client("a", 100, 1, 0), client("b", 300, 1, 0), client("c", 600, 1, 0)];
            change(&mut clients);
            let shares = ShareHistory::default().shares(clients, Duration::ZERO);
            let entitled: Vec<String> = shares.iter().map(|share| text(share.entitled)).collect();
            assert_eq!(entitled, expected, "{name}");
        }
    }

    #[test]
    fn what_clients_got_is_the_difference_of_what_they_were_charged() {
        let mut history = ShareHistory::default();
        // Seconds; charges of a and b; their shares since the last poll, in the last minute, and in all.
        for (at, charged, last, minute, all) in [
            (0, [100, 300], ["-", "-"], ["-", "-"], ["25.0%", "75.0%"]),
            (1, [200, 300], ["100.0%", "0.0%"], ["100.0%", "0.0%"], ["40.0%", "60.0%"]),
            (2, [200, 300], ["-", "-"], ["100.0%", "0.0%"], ["40.0%", "60.0%"]),
            (30, [300, 600], ["25.0%", "75.0%"], ["40.0%", "60.0%"], ["33.3%", "66.7%"]),
            // The samples of the first two seconds are too old.
            (63, [350, 750], ["25.0%", "75.0%"], ["25.0%", "75.0%"], ["31.8%", "68.2%"]),
            // After a long pause, only the last sample is left.
            (500, [450, 850], ["50.0%", "50.0%"], ["50.0%", "50.0%"], ["34.6%", "65.4%"]),
            // A restarted scheduler counts from 0.
            (501, [30, 10], ["-", "-"], ["-", "-"], ["75.0%", "25.0%"]),
            (502, [40, 40], ["25.0%", "75.0%"], ["25.0%", "75.0%"], ["50.0%", "50.0%"]),
        ] {
            let clients = vec![client("a", 1, 1, charged[0]), client("b", 1, 1, charged[1])];
            let shares = history.shares(clients, Duration::from_secs(at));
            let of = |part: fn(&ClientShare) -> Option<Share>| -> Vec<String> {
                shares.iter().map(|share| text(part(share))).collect()
            };
            assert_eq!(of(|share| share.got_last), last, "last, at {at}");
            assert_eq!(of(|share| share.got_minute), minute, "minute, at {at}");
            assert_eq!(of(|share| share.got_all), all, "all, at {at}");
        }
    }

    #[test]
    fn an_estimate_that_is_given_back_is_no_other_scheduler() {
        let mut history = ShareHistory::default();
        let with = |charged, reserved| vec![ClientRow { reserved, ..client("a", 1, 1, charged) }];
        history.shares(with(110, 100), Duration::ZERO);
        let shares = history.shares(with(15, 0), Duration::from_secs(1));
        assert_eq!((text(shares[0].got_last), history.earlier.len()), ("-".to_owned(), 2));
    }

    #[test]
    fn looks_are_kept_up_to_a_limit() {
        let mut history = ShareHistory::default();
        for at in 0..1_000 {
            history.shares(vec![client("a", 1, 1, 0)], Duration::from_millis(at));
        }
        assert_eq!(history.earlier.len(), SAMPLES_MAX);
    }
}
