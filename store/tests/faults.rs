//! The journal on a disk with faults.

#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use std::sync::Arc;

use common::{batch, events, numbered, on, opened, run, small, stream, wait};
use ostler_kernel::event::{Event, OperatorAct};
use ostler_kernel::port::{Journal, JournalError, Position, RunRowStatus, Seq};
use ostler_store::disk::{Disk, FaultyDisk};
use ostler_store::{JournalOpened, OpenJournalError, Options, SegmentJournal};

const SEGMENT: &str = "0000000001.seg";

fn append(journal: &SegmentJournal, expected: u64) -> Position {
    journal.append(vec![batch(stream(1), expected, vec![numbered(expected)])]).unwrap()
}

fn append_durably(journal: &SegmentJournal, expected: u64) -> Position {
    let position = append(journal, expected);
    wait(journal, position).unwrap();
    position
}

fn reopen(disk: &FaultyDisk) -> Result<(SegmentJournal, JournalOpened), OpenJournalError> {
    SegmentJournal::on_disk(Arc::new(disk.clone()), small())
}

fn read_all(disk: &FaultyDisk, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; small().segment_bytes as usize];
    let read = disk.open(name, false).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes.truncate(read);
    bytes
}

fn disk_with(bytes: &[u8]) -> FaultyDisk {
    let disk = FaultyDisk::new();
    disk.open(SEGMENT, true).unwrap().write_at(bytes, 0).unwrap();
    disk.sync().unwrap();
    disk
}

/// Checks that the journal holds a prefix of the expected records, `durable` long or longer.
fn check_prefix(journal: &SegmentJournal, durable: u64, context: &str) -> u64 {
    let found = events(journal, stream(1));
    let count = found.len() as u64;
    assert!(count >= durable, "{context}: {count} records left of {durable} durable ones");
    assert_eq!(found, (0..count).map(numbered).collect::<Vec<_>>(), "{context}");
    count
}

#[test]
fn a_journal_goes_on_where_it_was_closed() {
    let disk = FaultyDisk::new();
    let mut expected = 0;
    for opening in 1..=5 {
        let (journal, report) = reopen(&disk).unwrap();
        assert_eq!((report.epoch, report.torn), (opening, None));
        assert_eq!(journal.epoch(), opening);
        check_prefix(&journal, expected, "reopened");
        for _ in 0..60 {
            append(&journal, expected);
            expected += 1;
        }
    }
    assert!(disk.list().unwrap().len() > 3, "several segments");
    let (journal, _) = reopen(&disk).unwrap();
    assert_eq!(check_prefix(&journal, expected, "closed"), expected);
    assert_eq!(journal.verify().unwrap(), []);
}

#[test]
fn a_frame_cut_at_any_byte_is_dropped_and_told() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    append_durably(&journal, 0);
    let start = (append_durably(&journal, 1).0 & 0xffff_ffff) as usize;
    // Without a seal, as after a kill.
    let whole = read_all(&disk, SEGMENT);
    let len = whole[start..].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in 0..len {
        for fill in [0u8, 0xff] {
            let mut bytes = whole.clone();
            bytes[start + cut..start + len].fill(fill);
            if bytes == whole {
                continue; // the frame ends in the fill byte
            }
            let disk = disk_with(&bytes);
            let (journal, report) = reopen(&disk).unwrap();
            let context = format!("cut at {cut}, {fill:#x} behind it");
            assert_eq!(check_prefix(&journal, 1, &context), 1, "{context}");
            let dropped = report.torn.map(|torn| (torn.segment, torn.offset as usize));
            let left = bytes[start..].iter().any(|byte| *byte != 0);
            assert_eq!(dropped, left.then_some((1, start)), "{context}");
            append_durably(&journal, 1);
            drop(journal);
            check_prefix(&reopen(&disk).unwrap().0, 2, &context);
        }
    }
}

#[test]
fn what_a_torn_end_leaves_behind_never_comes_back() {
    // Three frames of one write: the first is torn, and the others stand where new frames will end. Blocks allocated ahead
    // would overwrite them, so there are none.
    let options = Options { prepare_bytes: 0, ..small() };
    let open = |disk: &FaultyDisk| SegmentJournal::on_disk(Arc::new(disk.clone()), options.clone()).unwrap();
    let disk = FaultyDisk::new();
    let (journal, _) = open(&disk);
    append_durably(&journal, 0);
    disk.hold_syncs();
    append(&journal, 1);
    until_held(&disk);
    let torn: Vec<Position> = (2..5).map(|number| append(&journal, number)).collect();
    disk.release_syncs();
    wait(&journal, torn[2]).unwrap();
    let mut bytes = read_all(&disk, SEGMENT);
    bytes[(torn[0].0 & 0xffff_ffff) as usize + 12] ^= 1;
    let torn_disk = disk_with(&bytes);
    let (journal, report) = open(&torn_disk);
    assert!(report.torn.is_some());
    assert_eq!(check_prefix(&journal, 2, "torn"), 2);
    append_durably(&journal, 2);
    let disk = torn_disk.cut_power(0);
    let (journal, report) = open(&disk);
    assert_eq!((check_prefix(&journal, 3, "after another end"), report.torn), (3, None));
}

/// Waits until the writer blocks in a sync.
fn until_held(disk: &FaultyDisk) {
    let begun = std::time::Instant::now();
    while disk.syncs_waiting() == 0 {
        assert!(begun.elapsed() < common::PATIENCE, "nothing was synced");
        std::thread::yield_now();
    }
}

#[test]
fn a_flipped_byte_is_refused_or_dropped_but_never_given_out() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    for number in 0..6 {
        append_durably(&journal, number);
    }
    let last = (append_durably(&journal, 6).0 & 0xffff_ffff) as usize;
    let unsealed = read_all(&disk, SEGMENT);
    drop(journal);
    let sealed = read_all(&disk, SEGMENT);
    let used = sealed.iter().rposition(|byte| *byte != 0).unwrap() + 2;
    for at in 0..used {
        for bits in [1, 0x80] {
            let flipped = disk_with(&sealed);
            flipped.flip(SEGMENT, at, bits);
            let context = format!("bits {bits:#x} of byte {at}");
            match reopen(&flipped) {
                // Only the seal and the zeros behind may be dropped.
                Ok((journal, report)) => {
                    assert_eq!(check_prefix(&journal, 7, &context), 7);
                    assert!(report.torn.is_some(), "{context}");
                }
                Err(OpenJournalError::Damaged(damages)) => {
                    let damage = &damages[0];
                    assert_eq!(damage.segment, 1, "{context}");
                    assert!(damage.offset <= at as u64, "{context}: {damage}");
                    // A frame holds about a hundred bytes.
                    assert!(at < 64 || damage.offset + 250 > at as u64, "{context}: {damage}");
                    // The stream of the last frame is guessed from the damaged bytes.
                    let told = at < 64 || at >= last || damage.streams == [stream(1)];
                    assert!(told, "{context}: {damage}");
                }
                Err(error) => panic!("{context}: {error}"),
            }
        }
    }
    // Without the seal, only the last write may count as torn.
    for at in 64..unsealed.iter().rposition(|byte| *byte != 0).unwrap() + 1 {
        let flipped = disk_with(&unsealed);
        flipped.flip(SEGMENT, at, 4);
        match reopen(&flipped) {
            Ok((journal, report)) => {
                assert!(at >= last, "byte {at}");
                check_prefix(&journal, 6, &format!("byte {at}"));
                assert!(report.torn.is_some());
            }
            Err(error) => assert!(matches!(error, OpenJournalError::Damaged(_)), "{error}"),
        }
    }
}

#[test]
fn damage_in_an_earlier_segment_names_it_and_the_runs_that_lost_records() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    let mut places = Vec::new();
    for number in 0..300u64 {
        let run = number % 3;
        let position = journal.append(vec![batch(stream(run), number / 3, vec![numbered(number)])]).unwrap();
        places.push((position.0 >> 32, position.0 & 0xffff_ffff));
    }
    drop(journal);
    let (segment, offset) = places[100];
    disk.flip(&format!("{segment:010}.seg"), offset as usize + 60, 1);
    let Err(OpenJournalError::Damaged(damages)) = reopen(&disk) else { panic!("not refused") };
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!((u64::from(damages[0].segment), damages[0].offset), (segment, offset));
    assert_eq!(damages[0].streams, [stream(100 % 3)]);
    assert!(damages[0].to_string().contains(&run(100 % 3).to_string()), "{}", damages[0]);
    assert!(!damages[0].torn);
}

#[test]
fn a_flip_while_the_journal_is_open_is_an_error_for_who_reads_there() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    for number in 0..3 {
        append_durably(&journal, number);
    }
    let place = append_durably(&journal, 3).0 & 0xffff_ffff;
    append_durably(&journal, 4);
    disk.flip(SEGMENT, place as usize + 20, 1);
    let damaged = journal.read(stream(1), Seq(0), 10);
    assert!(matches!(damaged, Err(JournalError::Damaged { .. })), "{damaged:?}");
    assert_eq!(journal.read(stream(1), Seq(0), 3).unwrap().len(), 3, "before it");
    assert_eq!(journal.read(stream(1), Seq(4), 3).unwrap().len(), 1, "behind it");
    let found = journal.verify().unwrap();
    assert_eq!(found.iter().map(|damage| damage.offset).collect::<Vec<_>>(), [place]);
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    for number in 0..300 {
        append(&journal, number);
    }
    drop(journal);
    disk.remove("0000000002.seg").unwrap();
    let Err(OpenJournalError::Damaged(damages)) = reopen(&disk) else { panic!("not refused") };
    assert!(damages[0].what.contains("predecessor 2"), "{}", damages[0]);
}

#[test]
fn a_power_cut_keeps_what_was_durable_whatever_else_it_keeps() {
    for seed in 0..300u64 {
        let mut disk = FaultyDisk::new();
        let mut durable = 0;
        for round in 0..4 {
            let context = format!("seed {seed}, round {round}");
            let (journal, _) = reopen(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut count = check_prefix(&journal, durable, &context);
            let appends = 5 + (seed.wrapping_mul(7) + round) % 40;
            for number in 0..appends {
                let position = append(&journal, count);
                count += 1;
                // From one sync per append to hardly any, to tear long writes as well.
                if number % (1 + seed % 6 * 9) == 0 {
                    wait(&journal, position).unwrap();
                    durable = count;
                }
            }
            disk = disk.cut_power(seed * 31 + round);
            drop(journal);
        }
        let (journal, _) = reopen(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check_prefix(&journal, durable, &format!("seed {seed}"));
        assert_eq!(journal.verify().unwrap(), [], "seed {seed}");
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    let before = append_durably(&journal, 0);
    disk.fail_sync_after(0);
    let lost = append(&journal, 1);
    assert!(matches!(wait(&journal, lost), Err(JournalError::Poisoned(_))));
    let next = journal.append(vec![batch(stream(1), 2, vec![numbered(2)])]);
    assert!(matches!(next, Err(JournalError::Poisoned(_))), "{next:?}");
    assert!(matches!(wait(&journal, lost), Err(JournalError::Poisoned(_))), "not even later");
    wait(&journal, before).unwrap();
    assert_eq!(events(&journal, stream(1)).len(), 2, "reading goes on");
    let disk = disk.cut_power(1);
    drop(journal);
    check_prefix(&reopen(&disk).unwrap().0, 1, "reopened");
}

#[test]
fn what_a_failed_sync_left_in_memory_is_written_again_before_it_counts() {
    for seed in 0..20 {
        let disk = FaultyDisk::new();
        let journal = on(&disk);
        append_durably(&journal, 0);
        disk.fail_sync_after(0);
        let _ = wait(&journal, append(&journal, 1));
        drop(journal);
        // The machine keeps running: the next process reads cached data that may never have reached the disk.
        disk.repair_syncs();
        let journal = on(&disk);
        let found = check_prefix(&journal, 1, "reopened");
        let disk = disk.cut_power(seed);
        drop(journal);
        check_prefix(&reopen(&disk).unwrap().0, found, "what was read once is there for good");
    }
}

#[test]
fn a_full_disk_acknowledges_nothing_lets_operators_through_and_goes_on_when_there_is_room() {
    for seed in 0..40u64 {
        let disk = FaultyDisk::new();
        let journal = on(&disk);
        let mut count = 0;
        while count < seed % 7 {
            append_durably(&journal, count);
            count += 1;
        }
        disk.set_capacity(Some(disk.used() + seed * 17));
        let (lost, why) = loop {
            let position = append(&journal, count);
            match wait(&journal, position) {
                Ok(()) => count += 1,
                Err(error) => break (position, error),
            }
        };
        assert!(matches!(why, JournalError::Full(_)), "{why:?}");
        let context = format!("seed {seed}");
        assert_eq!(check_prefix(&journal, count, &context), count, "{context}: taken back, and readable");
        let refused = journal.append(vec![batch(stream(1), count, vec![numbered(count)])]);
        assert!(matches!(refused, Err(JournalError::Full(_))), "{context}: {refused:?}");

        let cancel = Event::Operator(OperatorAct::CancelPlan);
        let position = journal.append(vec![batch(stream(2), 0, vec![cancel.clone()])]).unwrap();
        wait(&journal, position).unwrap();
        assert_eq!(events(&journal, stream(2)), std::slice::from_ref(&cancel));

        disk.set_capacity(None);
        append_durably(&journal, count);
        assert!(matches!(wait(&journal, lost), Err(JournalError::Full(_))), "{context}: lost stays lost");
        drop(journal);
        let journal = on(&disk);
        assert_eq!(check_prefix(&journal, count + 1, &context), count + 1);
        assert_eq!(events(&journal, stream(2)), [cancel]);
    }
}

#[test]
fn a_journal_that_is_opened_on_a_full_disk_lets_operators_through_and_takes_no_reserve_from_what_fits() {
    let cancel = || vec![batch(stream(2), 0, vec![Event::Operator(OperatorAct::CancelPlan)])];
    // With a reserve from an earlier opening.
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    append_durably(&journal, 0);
    drop(journal);
    disk.set_capacity(Some(disk.used()));
    // Opened twice.
    drop(on(&disk));
    let journal = on(&disk);
    let refused = journal.append(vec![batch(stream(1), 1, vec![numbered(1)])]);
    assert!(matches!(refused, Err(JournalError::Full(_))), "{refused:?}");
    let position = journal.append(cancel()).unwrap();
    assert_eq!(wait(&journal, position), Ok(()));
    disk.set_capacity(None);
    append_durably(&journal, 1);
    // Without a reserve, all records may use the free space, whether or not the reserve would fit.
    let enough = {
        let disk = FaultyDisk::new();
        append_durably(&on(&disk), 0);
        disk.used() - small().reserve_bytes
    };
    for spare in (0..small().reserve_bytes + enough).step_by(64) {
        let disk = FaultyDisk::new();
        disk.set_capacity(Some(enough + spare));
        let journal = on(&disk);
        let position = append(&journal, 0);
        assert_eq!(wait(&journal, position), Ok(()), "{spare} bytes more than it took");
    }
}

#[test]
fn the_table_of_runs_is_taken_back_with_its_records() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    let position = journal.append(vec![batch(stream(1), 0, vec![opened(1)])]).unwrap();
    wait(&journal, position).unwrap();
    disk.set_capacity(Some(disk.used()));
    let long = Event::Parked { reason: "x".repeat(5000) };
    let position =
        journal.append(vec![batch(stream(1), 1, vec![long]), batch(stream(2), 0, vec![opened(2)])]).unwrap();
    assert!(matches!(wait(&journal, position), Err(JournalError::Full(_))));
    let rows = journal.runs(false).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].status, RunRowStatus::Open);
    disk.set_capacity(None);
    let nothing = journal.append(vec![batch(stream(1), 1, Vec::new())]).unwrap();
    assert_eq!(wait(&journal, nothing), Ok(()), "it waits for nothing that was taken back");
}

#[test]
fn an_append_beyond_the_queue_waits_for_the_disk_and_then_gives_up() {
    let disk = FaultyDisk::new();
    let options = Options { queue_bytes_max: 2000, queue_wait_ms_max: 20, ..small() };
    let (journal, _) = SegmentJournal::on_disk(Arc::new(disk.clone()), options).unwrap();
    append_durably(&journal, 0);
    disk.hold_syncs();
    let mut count = 1;
    let why = loop {
        match journal.append(vec![batch(stream(1), count, vec![numbered(count)])]) {
            Ok(_) => count += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(why.contains("QUEUE_BYTES_MAX"), "{why}");
    assert!((5..40).contains(&count), "{count} waited");
    disk.release_syncs();
    append_durably(&journal, count);
    assert_eq!(check_prefix(&journal, count + 1, "afterwards"), count + 1);
}

#[test]
fn appends_that_wait_together_share_a_sync() {
    let disk = FaultyDisk::new();
    let options = Options { segment_bytes: 256 * 1024, ..small() };
    let (journal, _) = SegmentJournal::on_disk(Arc::new(disk.clone()), options).unwrap();
    append_durably(&journal, 0);
    let before = disk.syncs();
    disk.hold_syncs();
    append(&journal, 1);
    until_held(&disk);
    let last = (2..101).fold(Position::default(), |_, number| append(&journal, number));
    disk.release_syncs();
    wait(&journal, last).unwrap();
    assert_eq!(disk.syncs() - before, 2, "one for the first, one for all that came while it lasted");
}

#[test]
fn a_frame_of_an_earlier_epoch_behind_a_later_one_is_refused() {
    let stale = FaultyDisk::new();
    let journal = on(&stale);
    append_durably(&journal, 0);
    // A second process takes over without a working lock, and both write at the same address.
    let fresh = disk_with(&read_all(&stale, SEGMENT));
    let newer = on(&fresh);
    append_durably(&newer, 1);
    let end = read_all(&fresh, SEGMENT).iter().rposition(|byte| *byte != 0).unwrap() + 1;
    append_durably(&journal, 1);
    let third = append_durably(&journal, 2).0 & 0xffff_ffff;
    assert_eq!(third, end as u64, "frames of equal length, so the stale one lands just behind");
    let mut mixed = read_all(&fresh, SEGMENT);
    let stale_bytes = read_all(&stale, SEGMENT);
    mixed[end..].copy_from_slice(&stale_bytes[end..]);
    let Err(OpenJournalError::Damaged(damages)) = reopen(&disk_with(&mixed)) else { panic!("not refused") };
    assert!(damages[0].what.contains("epoch 1"), "{}", damages[0]);
}

#[test]
fn a_frame_of_an_earlier_epoch_is_refused_even_if_its_records_would_follow() {
    let stale = FaultyDisk::new();
    let journal = on(&stale);
    append_durably(&journal, 0);
    let fresh = disk_with(&read_all(&stale, SEGMENT));
    let newer = on(&fresh);
    append_durably(&newer, 1);
    let end = read_all(&fresh, SEGMENT).iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // The first process writes to streams the second never touches.
    let places = [2, 3].map(|number| {
        let position = journal.append(vec![batch(stream(number), 0, vec![numbered(number)])]).unwrap();
        wait(&journal, position).unwrap();
        (position.0 & 0xffff_ffff) as usize
    });
    assert_eq!(places[1], end, "frames of equal length, so the stale one lands just behind");
    let mut mixed = read_all(&fresh, SEGMENT);
    mixed[end..].copy_from_slice(&read_all(&stale, SEGMENT)[end..]);
    let Err(OpenJournalError::Damaged(damages)) = reopen(&disk_with(&mixed)) else { panic!("not refused") };
    assert!(damages[0].what.contains("epoch 1"), "{}", damages[0]);
}
