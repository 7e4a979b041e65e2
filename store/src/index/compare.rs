//! Comparing an index with a fresh one built from the same records.

use ostler_kernel::event::RecordPlace;
use ostler_kernel::port::{AccountRow, RunRow, StreamId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::entry::{is_over, place_of};
use super::{ACCOUNTS, ALL, HEADS, Index, IndexError, RECORDS, RUNS, RUNS_BY_AGE, Table, index_error};
use crate::format::codec;
use crate::format::stream::{describe, stream_from_key};

const DESCRIBED_MAX: usize = 10;

const FRAMES_AT_ONCE: usize = 1024;

/// Differences between an index and the records it was built from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexDifferences {
    /// Descriptions of the first differences.
    pub described: Vec<String>,
    /// Number of all differences.
    pub count: u64,
}

impl IndexDifferences {
    pub(crate) fn add(&mut self, what: String) {
        self.count += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(what);
        }
    }
}

enum Difference<R> {
    Missing(R),
    Extra(R),
    Wrong { found: R, expected: R },
}

impl Difference<&[u8]> {
    fn decoded<R: DeserializeOwned>(self) -> Result<Difference<R>, IndexError> {
        let row = |bytes: &[u8]| codec::decode_row::<R>(bytes).map_err(index_error);
        Ok(match self {
            Difference::Missing(expected) => Difference::Missing(row(expected)?),
            Difference::Extra(found) => Difference::Extra(row(found)?),
            Difference::Wrong { found, expected } => {
                Difference::Wrong { found: row(found)?, expected: row(expected)? }
            }
        })
    }
}

impl Index {
    pub(crate) fn differences(&self, expected: &Index) -> IndexDifferences {
        let mut differences = IndexDifferences::default();
        if let Err(error) = self.compare_all(expected, &mut differences) {
            differences.add(error.to_string());
        }
        differences
    }

    fn compare_all(&self, expected: &Index, differences: &mut IndexDifferences) -> Result<(), IndexError> {
        self.compare(expected, HEADS, describe_head, differences)?;
        self.compare_frames(expected, differences)?;
        self.compare(expected, RUNS, describe_run, differences)?;
        self.compare(expected, RUNS_BY_AGE, describe_age, differences)?;
        self.compare(expected, ACCOUNTS, describe_account, differences)?;
        self.compare(expected, RECORDS, describe_record, differences)
    }

    fn compare(
        &self,
        expected: &Index,
        table: Table,
        described: impl Fn(&[u8], Difference<&[u8]>) -> Result<String, IndexError>,
        differences: &mut IndexDifferences,
    ) -> Result<(), IndexError> {
        expected.range(table, ALL, |key, expected| {
            match self.get(table, key)?.as_deref() {
                None => differences.add(described(key, Difference::Missing(expected))?),
                Some(found) if found != expected => {
                    differences.add(described(key, Difference::Wrong { found, expected })?);
                }
                Some(_) => {}
            }
            Ok(true)
        })?;
        self.range(table, ALL, |key, found| {
            if expected.get(table, key)?.is_none() {
                differences.add(described(key, Difference::Extra(found))?);
            }
            Ok(true)
        })
    }

    /// Compares frame addresses one by one: how many of them share an entry depends on when the index caught up.
    fn compare_frames(&self, expected: &Index, differences: &mut IndexDifferences) -> Result<(), IndexError> {
        for (stream, _) in expected.heads()? {
            if let Some(seq) = self.first_wrong_address(expected, &stream)? {
                let name = describe(&stream);
                differences.add(format!("{name}: wrong addresses for the records from {seq} on"));
            }
        }
        Ok(())
    }

    fn first_wrong_address(&self, expected: &Index, stream: &StreamId) -> Result<Option<u64>, IndexError> {
        let mut from = 1;
        loop {
            let found = self.frames(stream, from, u64::MAX, FRAMES_AT_ONCE)?;
            let expected = expected.frames(stream, from, u64::MAX, FRAMES_AT_ONCE)?;
            if found != expected {
                let same =
                    found.iter().zip(&expected).take_while(|(found, expected)| found == expected).count();
                let differs = expected.get(same).or(found.get(same));
                return Ok(Some(differs.map_or(from, |frame| frame.first)));
            }
            match expected.last() {
                Some(last) if expected.len() == FRAMES_AT_ONCE => from = last.first,
                _ => return Ok(None),
            }
        }
    }
}

fn describe_head(key: &[u8], difference: Difference<&[u8]>) -> Result<String, IndexError> {
    let name = describe(&stream_from_key(key).ok_or_else(|| index_error("an invalid stream key"))?);
    Ok(match difference {
        Difference::Missing(_) => format!("{name}: missing in the index"),
        Difference::Extra(_) => format!("{name}: in the index, and the journal has no record"),
        Difference::Wrong { .. } => format!("{name}: wrong last record in the index"),
    })
}

fn describe_run(key: &[u8], difference: Difference<&[u8]>) -> Result<String, IndexError> {
    let list = if is_over(key) { "ended or suspended" } else { "open" };
    Ok(match difference.decoded::<RunRow>()? {
        Difference::Missing(row) => format!("run {}: not listed as {list}", row.run),
        Difference::Extra(row) => format!("run {}: listed as {list}; by the records the run is not", row.run),
        Difference::Wrong { found, expected } => {
            format!("run {}: {}", expected.run, differing_fields(&found, &expected))
        }
    })
}

fn describe_age(key: &[u8], difference: Difference<&[u8]>) -> Result<String, IndexError> {
    let (_, run) = place_of(key)?;
    Ok(match difference {
        Difference::Extra(_) => format!("run {run}: listed by age where the records do not place the run"),
        Difference::Missing(_) | Difference::Wrong { .. } => format!("run {run}: not listed by age"),
    })
}

fn describe_account(_: &[u8], difference: Difference<&[u8]>) -> Result<String, IndexError> {
    let account = |row: &AccountRow| match &row.agent {
        Some(agent) => format!("account of agent {agent} of client {}", row.client),
        None => format!("account of client {}", row.client),
    };
    Ok(match difference.decoded::<AccountRow>()? {
        Difference::Missing(row) => format!("{}: missing in the index", account(&row)),
        Difference::Extra(row) => format!("{}: in the index, and the journal has no record", account(&row)),
        Difference::Wrong { found, expected } => {
            format!("{}: {}", account(&expected), differing_fields(&found, &expected))
        }
    })
}

fn describe_record(_: &[u8], difference: Difference<&[u8]>) -> Result<String, IndexError> {
    Ok(match difference.decoded::<RecordPlace>()? {
        Difference::Missing(place) => {
            format!("recorded result {} of run {}: missing in the index", place.seq, place.run)
        }
        Difference::Extra(place) => format!(
            "recorded result {} of run {}: in the index, and not in the journal",
            place.seq, place.run
        ),
        Difference::Wrong { found, expected } => {
            format!("recorded result of run {}: {}", expected.run, differing_fields(&found, &expected))
        }
    })
}

fn differing_fields<R: Serialize>(found: &R, expected: &R) -> String {
    let to_value = |row: &R| serde_json::to_value(row).unwrap_or_default();
    let (found, expected) = (to_value(found), to_value(expected));
    let all = expected.as_object().into_iter().flatten();
    let described: Vec<String> = all
        .map(|(field, expected)| (field, found.get(field).unwrap_or(&Value::Null), expected))
        .filter(|(_, found, expected)| found != expected)
        .map(|(field, found, expected)| format!("{field} is {found}, by the records {expected}"))
        .collect();
    if described.is_empty() { "different bytes".to_owned() } else { described.join("; ") }
}
