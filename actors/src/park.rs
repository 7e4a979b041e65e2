//! Setting a run aside: it is not driven any more until somebody asks for it by name.

use ostler_kernel::event::Event;
use ostler_kernel::port::{JournalError, RunRow, StreamBatch, StreamId};

use crate::services::Services;
use crate::stream;

/// Writes down that a run is set aside. Nobody may drive it.
pub(crate) fn park(services: &Services, row: &RunRow, reason: String) -> Result<(), JournalError> {
    let stream = StreamId::run(&row.client, row.run);
    let expected = stream::last(&*services.journal, stream)?;
    let (at_ms, events) = (services.clock.now(), vec![Event::Parked { reason }]);
    services.journal.append(vec![StreamBatch { stream, expected, at_ms, events }])?;
    Ok(())
}
