//! How an index differs from what it should be: from one that was built of the same records just now.

use ostler_kernel::port::{AccountRow, RunRow, StreamId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::entry::is_over;
use super::{ACCOUNTS, ALL, Broken, HEADS, Index, ROWS, Table, broken};
use crate::codec;
use crate::journal::rows;
use crate::journal::segments::stream_from;

/// Differences that are told one by one; of more, how many.
const DIFFERENCES_TOLD_MAX: usize = 10;

/// Places of frames that are compared at once.
const FRAMES_AT_ONCE: usize = 1024;

/// What an index says otherwise than the records that it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexDifferences {
    /// The first of them, in plain words.
    pub told: Vec<String>,
    /// All of them.
    pub count: u64,
}

impl IndexDifferences {
    pub(crate) fn add(&mut self, what: String) {
        self.count += 1;
        if self.told.len() < DIFFERENCES_TOLD_MAX {
            self.told.push(what);
        }
    }
}

/// How an entry is not what it should be.
enum Fault<R> {
    Missing(R),
    Needless(R),
    Wrong { found: R, right: R },
}

impl Fault<&[u8]> {
    fn decoded<R: DeserializeOwned>(self) -> Result<Fault<R>, Broken> {
        let row = |bytes: &[u8]| codec::decode_row::<R>(bytes).map_err(broken);
        Ok(match self {
            Fault::Missing(right) => Fault::Missing(row(right)?),
            Fault::Needless(found) => Fault::Needless(row(found)?),
            Fault::Wrong { found, right } => Fault::Wrong { found: row(found)?, right: row(right)? },
        })
    }
}

impl Index {
    /// What it says otherwise than `right`, which was built of the same records.
    pub(crate) fn differences(&self, right: &Index) -> IndexDifferences {
        let mut found = IndexDifferences::default();
        if let Err(broken) = self.compare_all(right, &mut found) {
            found.add(broken.to_string());
        }
        found
    }

    fn compare_all(&self, right: &Index, found: &mut IndexDifferences) -> Result<(), Broken> {
        self.compare(right, HEADS, of_head, found)?;
        self.compare_frames(right, found)?;
        self.compare(right, ROWS, of_run, found)?;
        self.compare(right, ACCOUNTS, of_account, found)
    }

    fn compare(
        &self,
        right: &Index,
        table: Table,
        told: impl Fn(&[u8], Fault<&[u8]>) -> Result<String, Broken>,
        differences: &mut IndexDifferences,
    ) -> Result<(), Broken> {
        right.range(table, ALL, |key, right| {
            match self.get(table, key)?.as_deref() {
                None => differences.add(told(key, Fault::Missing(right))?),
                Some(found) if found != right => {
                    differences.add(told(key, Fault::Wrong { found, right })?);
                }
                Some(_) => {}
            }
            Ok(true)
        })?;
        self.range(table, ALL, |key, found| {
            if right.get(table, key)?.is_none() {
                differences.add(told(key, Fault::Needless(found))?);
            }
            Ok(true)
        })
    }

    /// Whether it leads to the same records of each stream. How many of their places stand in an entry depends on when they got there.
    fn compare_frames(&self, right: &Index, differences: &mut IndexDifferences) -> Result<(), Broken> {
        for (stream, _) in right.heads()? {
            if let Some(seq) = self.astray(right, &stream)? {
                let name = rows::name_of(&stream);
                differences.add(format!("{name}: its records from {seq} on are not where it says"));
            }
        }
        Ok(())
    }

    /// The first record of a stream that the two find in different places.
    fn astray(&self, right: &Index, stream: &StreamId) -> Result<Option<u64>, Broken> {
        let mut from = 1;
        loop {
            let found = self.frames(stream, from, u64::MAX, FRAMES_AT_ONCE)?;
            let right = right.frames(stream, from, u64::MAX, FRAMES_AT_ONCE)?;
            if found != right {
                let same = found.iter().zip(&right).take_while(|(found, right)| found == right).count();
                let differs = right.get(same).or(found.get(same));
                return Ok(Some(differs.map_or(from, |frame| frame.first)));
            }
            match right.last() {
                Some(last) if right.len() == FRAMES_AT_ONCE => from = last.first,
                _ => return Ok(None),
            }
        }
    }
}

fn of_head(key: &[u8], fault: Fault<&[u8]>) -> Result<String, Broken> {
    let name = rows::name_of(&stream_from(key).ok_or_else(|| broken("not a stream"))?);
    Ok(match fault {
        Fault::Missing(_) => format!("{name}: it knows of no records"),
        Fault::Needless(_) => format!("{name}: it knows of records, and there are none"),
        Fault::Wrong { .. } => format!("{name}: the last record that it knows of is not the last"),
    })
}

fn of_run(key: &[u8], fault: Fault<&[u8]>) -> Result<String, Broken> {
    let list = if is_over(key) { "over or set aside" } else { "open" };
    Ok(match fault.decoded::<RunRow>()? {
        Fault::Missing(row) => format!("run {} is not listed as {list}", row.run),
        Fault::Needless(row) => format!("run {} is listed as {list}, and by its records is not", row.run),
        Fault::Wrong { found, right } => format!("run {}: {}", right.run, fields(&found, &right)),
    })
}

fn of_account(_: &[u8], fault: Fault<&[u8]>) -> Result<String, Broken> {
    let account = |row: &AccountRow| match &row.agent {
        Some(agent) => format!("the account of agent {agent} of client {}", row.client),
        None => format!("the account of client {}", row.client),
    };
    Ok(match fault.decoded::<AccountRow>()? {
        Fault::Missing(row) => format!("{} is missing", account(&row)),
        Fault::Needless(row) => format!("{} is there, and no record is about it", account(&row)),
        Fault::Wrong { found, right } => format!("{}: {}", account(&right), fields(&found, &right)),
    })
}

/// The fields in which two lines differ.
fn fields<R: Serialize>(found: &R, right: &R) -> String {
    let written = |row: &R| serde_json::to_value(row).unwrap_or_default();
    let (found, right) = (written(found), written(right));
    let all = right.as_object().into_iter().flatten();
    let told: Vec<String> = all
        .map(|(field, right)| (field, found.get(field).unwrap_or(&Value::Null), right))
        .filter(|(_, found, right)| found != right)
        .map(|(field, found, right)| format!("{field} is {found}, by the records {right}"))
        .collect();
    if told.is_empty() { "it differs".to_owned() } else { told.join("; ") }
}
