//! Setting a run aside: it is not driven any more until somebody asks for it by name.

use ostler_kernel::event::Event;
use ostler_kernel::port::{JournalError, RunRow, Seq, StreamBatch, StreamId};

use crate::registry::READ_AT_ONCE;
use crate::services::Services;

pub(crate) fn park(services: &Services, row: &RunRow, reason: &str) -> Result<(), JournalError> {
    let stream = StreamId::run(&row.client, row.run);
    let mut expected = Seq(0);
    while let Some(last) = services.journal.read(stream, expected, READ_AT_ONCE)?.last() {
        expected = last.seq;
    }
    let events = vec![Event::Parked { reason: reason.to_owned() }];
    let at_ms = services.clock.now();
    services.journal.append(vec![StreamBatch { stream, expected, at_ms, events }])?;
    Ok(())
}
