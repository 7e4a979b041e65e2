//! Simulated lives of a journal, by seed, on a disk with faults.
//!
//! Each seed determines a sequence of appends to several streams, waits, power cuts, kills, failed syncs, a full disk and
//! flipped bytes. Afterwards all acknowledged records exist, no record is invented, and each append to several streams is
//! complete or absent.
//!
//! `OSTLER_SEEDS` sets the number of seeds (default 1,000), `OSTLER_SEED` runs a single one.

#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{batch, events, small, stream, wait};
use ostler_kernel::event::Event;
use ostler_kernel::port::{Journal, JournalError, Position};
use ostler_store::disk::{Disk, FaultyDisk};
use ostler_store::{JournalOpened, OpenJournalError, SegmentJournal};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SEEDS: u64 = 1_000;

const STEPS: usize = 40;

const STREAMS: u64 = 4;

/// Prints the seed on a panic.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}: OSTLER_SEED={0} cargo test --workspace --test seeds", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, found {text:?}")))
}

/// Counts of events, to notice a test without faults.
#[derive(Debug, Default)]
struct Met {
    acknowledged: u64,
    poisoned: u64,
    full: u64,
    power_cuts: u64,
    kills: u64,
    torn: u64,
    refused: u64,
    lost: u64,
}

/// An append, with the length of each stream afterwards.
struct Append {
    position: Position,
    ends: BTreeMap<u64, usize>,
}

struct Life<'a> {
    random: StdRng,
    met: &'a mut Met,
    disk: FaultyDisk,
    journal: Option<SegmentJournal>,
    /// Appended events by stream, without those known to be lost.
    meant: BTreeMap<u64, Vec<Event>>,
    /// Number of events by stream acknowledged, or read after an opening.
    durable: BTreeMap<u64, usize>,
    open: Vec<Append>,
    count: u64,
}

impl Life<'_> {
    fn journal(&self) -> &SegmentJournal {
        self.journal.as_ref().expect("it is open between two steps")
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..50 => self.append(),
            50..72 => self.wait(),
            72..80 => self.cut_power(),
            80..84 => self.kill(),
            84..88 => {
                let syncs = self.random.random_range(0..3);
                self.disk.fail_sync_after(syncs);
            }
            88..92 => {
                let room = self.random.random_range(0..6_000);
                self.disk.set_capacity(Some(self.disk.used() + room));
            }
            92..95 => self.disk.set_capacity(None),
            95..98 => self.close(),
            _ => self.flip(),
        }
    }

    /// Appends to one to three streams at once.
    fn append(&mut self) {
        let first = self.random.random_range(0..STREAMS);
        let streams = (first..first + self.random.random_range(1..4)).map(|of| of % STREAMS);
        let drafts: Vec<(u64, Vec<Event>)> = streams
            .map(|of| (of, (0..self.random.random_range(1..4)).map(|_| self.event()).collect()))
            .collect();
        let before = |of| self.meant.get(&of).map_or(0, Vec::len);
        let batches = drafts
            .iter()
            .map(|(of, events)| batch(stream(*of), before(*of) as u64, events.clone()))
            .collect();
        let ends = drafts.iter().map(|(of, events)| (*of, before(*of) + events.len())).collect();
        match self.journal().append(batches) {
            Ok(position) => {
                drafts.into_iter().for_each(|(of, events)| self.meant.entry(of).or_default().extend(events));
                self.open.push(Append { position, ends });
            }
            Err(error) => self.failed(error),
        }
    }

    /// A numbered event; one in ten is long.
    fn event(&mut self) -> Event {
        self.count += 1;
        let long = if self.random.random_range(0..10) == 0 { self.random.random_range(0..800) } else { 10 };
        let text: String = (0..long).map(|_| char::from(self.random.random_range(b'!'..b'~'))).collect();
        Event::Parked { reason: format!("number {} {text}", self.count) }
    }

    fn wait(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.open.len());
        match wait(self.journal(), self.open[at].position) {
            Ok(()) => {
                let append = self.open.remove(at);
                self.acknowledged(append.ends);
            }
            Err(error) => self.failed(error),
        }
    }

    fn acknowledged(&mut self, ends: BTreeMap<u64, usize>) {
        self.met.acknowledged += 1;
        for (of, end) in ends {
            let durable = self.durable.entry(of).or_default();
            *durable = end.max(*durable);
        }
    }

    fn failed(&mut self, error: JournalError) {
        match error {
            // The disk was full, and the journal has rolled back.
            JournalError::Full(_) | JournalError::Conflict { .. } => {
                self.met.full += 1;
                let answers: Vec<_> =
                    self.open.iter().map(|append| wait(self.journal(), append.position)).collect();
                if let Some(poisoned) =
                    answers.iter().position(|answer| matches!(answer, Err(JournalError::Poisoned(_))))
                {
                    return self.failed(answers[poisoned].clone().unwrap_err());
                }
                let acknowledged = self.open.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
                let ends: Vec<_> = acknowledged.map(|(append, _)| append.ends.clone()).collect();
                ends.into_iter().for_each(|ends| self.acknowledged(ends));
                self.look();
            }
            JournalError::Poisoned(_) => {
                self.met.poisoned += 1;
                let more = self.journal().append(vec![batch(stream(0), 0, vec![common::numbered(0)])]);
                assert!(matches!(more, Err(JournalError::Poisoned(_))), "{more:?}");
                self.restart();
            }
            error => panic!("{error}"),
        }
    }

    /// Restarts the process after poisoning, sometimes with a power cut.
    fn restart(&mut self) {
        self.journal = None;
        self.disk.repair_syncs();
        self.disk.set_capacity(None);
        if self.random.random() {
            let seed = self.random.random();
            self.disk = self.disk.cut_power(seed);
        }
        self.reopen();
    }

    fn cut_power(&mut self) {
        self.met.power_cuts += 1;
        let seed = self.random.random();
        let disk = self.disk.cut_power(seed);
        self.journal = None;
        self.disk = disk;
        self.disk.set_capacity(None);
        self.reopen();
    }

    /// Kills the process; written data survives, synced or not.
    fn kill(&mut self) {
        self.met.kills += 1;
        let disk = self.disk.kill();
        self.journal = None;
        self.disk = disk;
        self.disk.repair_syncs();
        self.disk.set_capacity(None);
        self.reopen();
    }

    fn close(&mut self) {
        self.journal = None;
        self.disk.repair_syncs();
        self.disk.set_capacity(None);
        self.reopen();
    }

    fn flip(&mut self) {
        self.close();
        self.journal = None;
        let mut names = self.disk.list().unwrap();
        names.retain(|name| name.ends_with(".seg"));
        if names.is_empty() {
            return self.reopen();
        }
        let name = names[self.random.random_range(0..names.len())].clone();
        let mut bytes = vec![0; small().segment_bytes as usize];
        let read = self.disk.open(&name, false).unwrap().read_at(&mut bytes, 0).unwrap();
        let used = bytes[..read].iter().rposition(|byte| *byte != 0).map_or(1, |at| at + 1);
        let (at, bits) = (self.random.random_range(0..used), 1 << self.random.random_range(0..8));
        self.disk.flip(&name, at, bits);
        match SegmentJournal::on_disk(Arc::new(self.disk.clone()), small()) {
            Err(OpenJournalError::Damaged(damages)) => {
                self.met.refused += 1;
                let segment: u32 = name[..10].parse().unwrap();
                assert!(
                    damages.iter().any(|damage| damage.segment == segment),
                    "{name}, byte {at}: {damages:?}"
                );
                self.disk.flip(&name, at, bits);
                self.reopen();
            }
            // The bit was in the seal, which holds no record.
            Ok(opened) => self.opened(opened),
            Err(error) => panic!("{name}, byte {at}: {error}"),
        }
    }

    fn reopen(&mut self) {
        let opened = SegmentJournal::on_disk(Arc::new(self.disk.clone()), small());
        self.opened(opened.unwrap_or_else(|error| panic!("{error}")));
    }

    fn opened(&mut self, (journal, report): (SegmentJournal, JournalOpened)) {
        self.met.torn += u64::from(report.torn.is_some());
        assert_eq!(journal.verify().unwrap(), []);
        self.journal = Some(journal);
        self.look();
    }

    /// Compares the journal with the expected events, and continues with the events found.
    fn look(&mut self) {
        let mut there = BTreeMap::new();
        for (of, meant) in &self.meant {
            let found = events(self.journal(), stream(*of));
            let (count, durable) = (found.len(), self.durable.get(of).copied().unwrap_or(0));
            assert!(count >= durable, "stream {of}: {count} records of {durable} acknowledged ones");
            assert_eq!(found[..], meant[..count.min(meant.len())], "stream {of}");
            there.insert(*of, count);
        }
        for append in self.open.drain(..) {
            let whole = append.ends.iter().filter(|(of, end)| there[of] >= **end).count();
            assert!(whole == 0 || whole == append.ends.len(), "an append is there in part");
            self.met.lost += u64::from(whole == 0);
        }
        for (of, count) in there {
            self.meant.entry(of).or_default().truncate(count);
            self.durable.insert(of, count);
        }
    }
}

#[test]
fn whatever_the_disk_does_what_was_acknowledged_is_there_and_nothing_else() {
    let seeds = match number("OSTLER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("OSTLER_SEEDS").unwrap_or(SEEDS),
    };
    let (mut met, all) = (Met::default(), seeds.end - seeds.start);
    for seed in seeds {
        let _told = SeedOnPanic(seed);
        let disk = FaultyDisk::new();
        let (meant, durable, open) = Default::default();
        let random = StdRng::seed_from_u64(seed);
        let mut life = Life { random, met: &mut met, disk, journal: None, meant, durable, open, count: 0 };
        life.reopen();
        for _ in 0..STEPS {
            life.step();
        }
        life.close();
    }
    println!("{all} seeds: {met:?}");
    if all >= SEEDS {
        let Met { acknowledged, poisoned, full, power_cuts, kills, torn, refused, lost } = met;
        let least =
            [acknowledged / 50, poisoned, full, power_cuts, kills, torn, refused, lost].into_iter().min();
        assert!(least > Some(all / 50), "some fault was hardly met: {met:?}");
    }
}
