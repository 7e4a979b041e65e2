//! Model check: explores every interleaving, up to a depth, of publishing, delivering, acknowledging, crashing, moving the
//! cursor, dead-lettering and releasing, while a small retention drops old events.
//!  
//! Invariant: between two restarts a subscriber gets every event of its types behind its cursor, in order and once, or a gap
//! notice for it.

use super::{Compaction, Keep, NextRead, OnFailure, Pipeline, PipelineSpec, StageSpec, TRIES_MAX};
use crate::event::{PipelineRecord, Published};
use crate::json::canonical;

/// A pipeline with both of its streams: events and records.
#[derive(Clone)]
struct World {
    live: Pipeline,
    events: Vec<Published>,
    records: Vec<PipelineRecord>,
    /// Position up to which the subscriber has read, acknowledged or not.
    after: u64,
    /// Position up to which the subscriber got events or gap notices since the last restart.
    informed_upto: u64,
    /// The subscriber is a remote consumer, which gets a gap notice again until it acknowledges a later position.
    is_remote: bool,
    /// Position that the remote consumer names in its next acknowledgement.
    from: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Publish,
    /// Publishes an event of a type without subscribers.
    PublishOther,
    Read,
    Ack,
    Crash,
    MoveToStart,
    Fail,
    Release,
    EndOfSource,
}

const OPS: [Op; 9] = [
    Op::Publish,
    Op::PublishOther,
    Op::Read,
    Op::Ack,
    Op::Crash,
    Op::MoveToStart,
    Op::Fail,
    Op::Release,
    Op::EndOfSource,
];

fn fresh(on_failure: OnFailure) -> Pipeline {
    let spec = PipelineSpec::new("p")
        .stage(StageSpec::new("a").publishes(["x", "w"]))
        .stage(StageSpec::new("b").subscribes(["x"]).on_failure(on_failure))
        .keep(Keep { events: 2, bytes: 1 << 20 });
    Pipeline::new(spec.validate().unwrap())
}

impl World {
    fn record(&mut self, record: PipelineRecord) {
        self.live.apply(&record).unwrap();
        self.records.push(record);
    }

    fn is_subscribed(&self, seq: u64) -> bool {
        self.events[seq as usize - 1].kind.as_str() == "x"
    }

    /// Publishes an event together with the chunk and skip records, as the live log does.
    fn publish(&mut self, event: Published) {
        let mut records = self.live.chunk_records(std::slice::from_ref(&event));
        let kept = self.live.stage(1).cursor.max(self.live.oldest() - 1) + 1..=self.live.head();
        let seen =
            kept.clone().find(|seq| self.is_subscribed(*seq)).map_or(self.live.head(), |first| first - 1);
        let passing = self.live.skip_records(&records, |_| seen);
        if let [PipelineRecord::Acked { upto, .. }] = passing[..] {
            let passed = self.live.stage(1).cursor + 1..=upto;
            assert!(
                passed.clone().all(|seq| !self.is_subscribed(seq)),
                "passed over what is for it: {passed:?}"
            );
            (self.after, self.informed_upto) = (self.after.max(upto), self.informed_upto.max(upto));
        }
        records.extend(passing);
        self.live.publish(&event);
        self.events.push(event);
        records.into_iter().for_each(|record| self.record(record));
    }

    /// Performs an operation; false if the operation is not possible in this state.
    fn act(&mut self, op: Op) -> bool {
        let stage_state = self.live.stage(1).clone();
        let stage = self.live.topology().name(1).clone();
        match op {
            Op::Publish | Op::PublishOther => {
                let kind = if op == Op::Publish { "x" } else { "w" };
                let data = canonical(&(self.live.head() + 1).into()).unwrap();
                let kind = self.live.topology().check_publish(0, kind, &data).unwrap();
                if self.live.check_open(0).is_err() {
                    return false;
                }
                self.publish(Published { stage: self.live.topology().name(0).clone(), kind, data });
            }
            Op::Read => return self.read(),
            Op::Ack if self.after > stage_state.cursor => {
                if self.is_remote {
                    let Ok(gap) = self.live.gap_before(1, self.from) else {
                        self.restart();
                        return true;
                    };
                    if let Some((first, last)) = gap {
                        self.record(PipelineRecord::Lagged { stage: stage.clone(), first, last });
                        let missed = self.live.stage(1).missed - stage_state.missed;
                        assert_eq!(
                            missed,
                            self.from - stage_state.cursor,
                            "another gap than it was informed_upto of"
                        );
                    }
                }
                let state = self.after.is_multiple_of(2).then(|| canonical(&self.after.into()).unwrap());
                self.record(PipelineRecord::Acked { stage, upto: self.after, state });
                self.from = self.after;
            }
            Op::Crash if self.after > stage_state.cursor => self.restart(),
            Op::MoveToStart if stage_state.cursor > 0 => {
                self.record(PipelineRecord::Moved { stage, after: 0, keeps_state: false });
                self.restart();
            }
            // Fails at the next event until the event becomes a dead letter.
            Op::Fail
                if self.after == stage_state.cursor
                    && self.live.next(1, self.after) == NextRead::Read
                    && self.is_subscribed(self.after + 1) =>
            {
                let seq = self.after + 1;
                for times in 1..=TRIES_MAX {
                    let record = self.live.failure_record(1, seq, "it panicked");
                    self.record(record);
                    let failed = self.live.stage(1).failed.as_ref().unwrap();
                    assert_eq!((failed.seq, failed.times), (seq, times));
                    assert_eq!(failed.is_exhausted(), times == TRIES_MAX);
                }
                let record = self.live.dead_letter_record(1, seq, "it panicked");
                self.record(record);
                assert_eq!(self.live.stage(1).failed, None);
                self.restart();
            }
            Op::Release if stage_state.stopped => {
                self.record(PipelineRecord::Released { stage });
                self.restart();
            }
            Op::EndOfSource if !self.live.stage(0).ended => {
                let stage = self.live.topology().name(0).clone();
                self.record(PipelineRecord::Ended { stage });
            }
            _ => return false,
        }
        true
    }

    fn read(&mut self) -> bool {
        let stage_state = self.live.stage(1).clone();
        let stage = self.live.topology().name(1).clone();
        match self.live.next(1, self.after) {
            NextRead::Read => {
                assert_eq!(self.after + 1, self.informed_upto + 1, "an event out of turn");
                assert!(self.after + 1 >= self.live.oldest(), "an event that is gone");
                (self.after, self.informed_upto) = (self.after + 1, self.informed_upto + 1);
            }
            NextRead::Gap { first, last } => {
                assert_eq!(first, self.informed_upto + 1, "a gap that does not follow");
                if !self.is_remote {
                    // A gap notice acknowledges the events read before it.
                    self.record(PipelineRecord::Lagged { stage, first, last });
                    assert_eq!(self.live.stage(1).cursor, last);
                } else if self.after > self.from.max(stage_state.cursor) {
                    // The remote consumer acknowledges before it reads on.
                    return false;
                }
                (self.after, self.informed_upto, self.from) = (last, last, last);
            }
            NextRead::End => {
                assert_eq!(self.informed_upto, self.live.head(), "the end before everything was heard");
                if stage_state.cursor < self.after {
                    return false;
                }
                self.record(PipelineRecord::Ended { stage });
            }
            NextRead::Wait | NextRead::Stopped | NextRead::Over => return false,
        }
        true
    }

    fn restart(&mut self) {
        let cursor = self.live.stage(1).cursor;
        (self.after, self.informed_upto, self.from) = (cursor, cursor, cursor);
    }

    /// Replaying records and events must reproduce the live state.
    fn check_recovery(&self) {
        let mut read = Pipeline::new(self.live.topology().clone());
        self.records.iter().for_each(|record| read.apply(record).unwrap());
        let known = read.chunked_upto() as usize;
        self.events[known..].iter().for_each(|event| read.publish(event));
        assert_eq!(read, self.live);
        self.check_compaction();
    }

    /// Replaying without obsolete records and dropped events must reproduce the live state.
    fn check_compaction(&self) {
        let mut compaction = Compaction::default();
        (1..).zip(&self.records).for_each(|(number, record)| compaction.apply(number, record));
        let mut left = Pipeline::new(self.live.topology().clone());
        let needed = (1..).zip(&self.records).filter(|(number, _)| !compaction.obsolete().contains(number));
        needed.for_each(|(_, record)| left.apply(record).unwrap());
        let known = left.chunked_upto() as usize;
        assert!(known as u64 + 1 >= compaction.oldest(), "what is read again is there");
        self.events[known..].iter().for_each(|event| left.publish(event));
        assert_eq!(left, self.live);
        assert_eq!(self.live.oldest(), compaction.oldest().max(1));
    }

    /// Without further operations, the subscriber reaches the head or stands stopped.
    fn check_progress(mut self) {
        for _ in 0..20 {
            if !self.act(Op::Read) && !self.act(Op::Ack) {
                break;
            }
        }
        let stage_state = self.live.stage(1);
        assert!(stage_state.stopped || stage_state.cursor == self.live.head(), "{stage_state:?}");
        assert!(self.live.head() + 1 - self.live.oldest() <= self.live.topology().keep().events);
    }
}

fn explore(world: &World, depth: usize, worlds: &mut u64) {
    *worlds += 1;
    if depth == 0 {
        world.check_recovery();
        world.clone().check_progress();
        return;
    }
    for op in OPS {
        let mut next = world.clone();
        if next.act(op) {
            explore(&next, depth - 1, worlds);
        }
    }
}

#[test]
fn whatever_happens_in_whatever_order_nothing_is_skipped_untold_and_nothing_comes_out_of_turn() {
    for (on_failure, is_remote) in
        [(OnFailure::Stop, false), (OnFailure::Continue, false), (OnFailure::Stop, true)]
    {
        let (live, events, records) = (fresh(on_failure), Vec::new(), Vec::new());
        let world = World { live, events, records, after: 0, informed_upto: 0, is_remote, from: 0 };
        let mut worlds = 0;
        for depth in [5, 8] {
            explore(&world, depth, &mut worlds);
        }
        assert!(worlds > 10_000, "{worlds}");
    }
}

#[test]
fn who_has_dealt_with_more_than_it_has_seen_nothing_in_is_not_set_back() {
    let mut pipeline = fresh(OnFailure::Stop);
    let event =
        |kind: &str| Published { stage: "a".into(), kind: kind.into(), data: canonical(&1.into()).unwrap() };
    let batches = [vec![event("w"), event("x")], vec![event("w"); 4]];
    for events in &batches[..1] {
        let records = pipeline.chunk_records(events);
        events.iter().for_each(|event| pipeline.publish(event));
        records.iter().for_each(|record| pipeline.apply(record).unwrap());
    }
    // The stage found nothing in event 1 and handles event 2 while four more events push both out.
    let mut records = vec![PipelineRecord::Acked { stage: "b".into(), upto: 2, state: None }];
    records.extend(pipeline.chunk_records(&batches[1]));
    assert!(matches!(records.last(), Some(PipelineRecord::LogChunk { oldest: 5, .. })), "{records:?}");
    assert_eq!(pipeline.skip_records(&records, |_| 1), []);
    assert_eq!(
        pipeline.skip_records(&records[1..], |_| 1),
        [PipelineRecord::Acked { stage: "b".into(), upto: 1, state: None }]
    );
}

#[test]
fn failures_count_for_one_event_and_until_the_stage_has_got_past_it() {
    use PipelineRecord as P;
    let stage = || "b".into();
    let acked = |upto| P::Acked { stage: stage(), upto, state: None };
    let lagged = P::Lagged { stage: stage(), first: 1, last: 3 };
    let moved = P::Moved { stage: stage(), after: 0, keeps_state: true };
    // Failures at `seq`, then a record, then one more failure at `then`: expected count of that failure.
    for (fails, seq, record, then, times) in [
        (2, 3, acked(2), 3, 3),
        (2, 3, acked(3), 4, 1),
        (2, 3, acked(2), 4, 1),
        (1, 3, lagged, 3, 1),
        (2, 3, moved, 3, 1),
        (2, 0, acked(9), 0, 3),
        (1, 0, P::Ended { stage: stage() }, 0, 1),
    ] {
        let mut pipeline = fresh(OnFailure::Continue);
        for _ in 0..fails {
            pipeline.apply(&pipeline.failure_record(1, seq, "it failed")).unwrap();
        }
        pipeline.apply(&record).unwrap();
        let P::Failed { times: counted, .. } = pipeline.failure_record(1, then, "it failed") else {
            panic!("no failure")
        };
        assert_eq!(counted, times, "{record:?}");
    }
}

#[test]
fn who_acknowledges_names_its_cursor_or_the_end_of_a_gap_that_it_was_told_of() {
    let mut pipeline = fresh(OnFailure::Stop);
    let event = Published { stage: "a".into(), kind: "x".into(), data: canonical(&1.into()).unwrap() };
    for _ in 0..8 {
        let records = pipeline.chunk_records(std::slice::from_ref(&event));
        pipeline.publish(&event);
        records.iter().for_each(|record| pipeline.apply(record).unwrap());
    }
    pipeline.apply(&PipelineRecord::Acked { stage: "b".into(), upto: 2, state: None }).unwrap();
    let last = pipeline.oldest() - 1;
    assert!((4..8).contains(&last), "{last}");
    for (after, informed_upto) in [
        (0, Err(2)),
        (1, Err(2)),
        (2, Ok(None)),
        (3, Ok(Some((3, 3)))),
        (last, Ok(Some((3, last)))),
        (last + 1, Err(2)),
        (u64::MAX, Err(2)),
    ] {
        assert_eq!(pipeline.gap_before(1, after), informed_upto, "after {after}");
    }
}

mod properties {
    use super::*;
    use crate::pipeline::state::LOG_CHUNKS_MIN;
    use proptest::prelude::*;

    proptest! {
        /// However events are batched, the log keeps at least the retention and at most two chunks more.
        #[test]
        fn a_quota_holds_however_events_come(
            keep in 1u64..200,
            batches in prop::collection::vec((1usize..40, 0usize..300), 1..40),
        ) {
            let spec = PipelineSpec::new("p")
                .stage(StageSpec::new("a").publishes(["x"]))
                .keep(Keep { events: keep, bytes: keep * 64 });
            let mut pipeline = Pipeline::new(spec.validate().unwrap());
            for (count, bytes) in batches {
                let data = canonical(&"y".repeat(bytes).into()).unwrap();
                let event = Published { stage: "a".into(), kind: "x".into(), data };
                let events = vec![event; count];
                let records = pipeline.chunk_records(&events);
                events.iter().for_each(|event| pipeline.publish(event));
                for record in &records {
                    prop_assert!(pipeline.apply(record).is_ok());
                }
                let kept = pipeline.head() + 1 - pipeline.oldest();
                let enough = kept >= keep.min(pipeline.head()) || pipeline.bytes() >= keep * 64;
                prop_assert!(enough, "{kept} of {keep}, {} bytes", pipeline.bytes());
                let chunk = (keep / LOG_CHUNKS_MIN).max(1);
                prop_assert!(kept < keep + 2 * chunk, "{kept} of {keep}");
                let chunk = keep * 64 / LOG_CHUNKS_MIN + 400;
                prop_assert!(pipeline.bytes() < keep * 64 + 2 * chunk);
            }
        }
    }
}
