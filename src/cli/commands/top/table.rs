//! The columns of the table of clients.

use std::cmp::{Ordering, Reverse};

use Column as C;

use crate::cli::commands::top::shares::{ClientShare, Share};
use crate::cli::output::cells::{fit_name, padded, width};
use crate::cli::output::labels::tier;
use crate::cli::output::table::{CLIENT_NAME_KEPT, CLIENT_NAME_MAX, Extent, GAP, layout};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Client,
    Tier,
    Weight,
    Entitled,
    Last,
    Minute,
    All,
    Running,
    Queued,
    Lag,
    Spent,
    Left,
    Parked,
}

const COLUMNS: [Column; 13] = [
    C::Client,
    C::Tier,
    C::Weight,
    C::Entitled,
    C::Last,
    C::Minute,
    C::All,
    C::Running,
    C::Queued,
    C::Lag,
    C::Spent,
    C::Left,
    C::Parked,
];

/// Columns hidden when room is short, in this order. The name and a share stay.
const LEFT_OUT: [Column; 10] =
    [C::All, C::Spent, C::Weight, C::Tier, C::Last, C::Lag, C::Left, C::Queued, C::Running, C::Parked];

impl Column {
    pub(super) fn head(self) -> &'static str {
        match self {
            C::Client => "CLIENT",
            C::Tier => "TIER",
            C::Weight => "WEIGHT",
            C::Entitled => "SHARE",
            C::Last => "GOT",
            C::Minute => "GOT/MIN",
            C::All => "GOT/ALL",
            C::Running => "RUN",
            C::Queued => "QUEUED",
            C::Lag => "LAG",
            C::Spent => "SPENT",
            C::Left => "LEFT",
            C::Parked => "",
        }
    }

    pub(super) fn is_number(self) -> bool {
        !matches!(self, C::Client | C::Tier | C::Parked)
    }

    pub(super) fn cell(self, share: &ClientShare) -> String {
        let line = &share.line;
        match self {
            C::Client => fit_name(line.client.as_str(), CLIENT_NAME_MAX),
            C::Tier => tier(line.tier).to_owned(),
            C::Weight => line.weight_served.to_string(),
            C::Entitled => optional(share.entitled),
            C::Last => optional(share.got_last),
            C::Minute => optional(share.got_minute),
            C::All => optional(share.got_all),
            C::Running => line.running.to_string(),
            C::Queued => line.queued.to_string(),
            C::Lag => line.lag.to_string(),
            C::Spent => line.spent.to_string(),
            C::Left => optional(line.left),
            C::Parked => if line.parked { "parked" } else { "" }.to_owned(),
        }
    }

    /// Sort order of a column: descending, except for names.
    fn compare(self, one: &ClientShare, other: &ClientShare) -> Ordering {
        let most = |of: fn(&ClientShare) -> Option<i128>| of(other).cmp(&of(one));
        match self {
            C::Client => one.line.client.cmp(&other.line.client),
            C::Tier => tier(one.line.tier).cmp(tier(other.line.tier)),
            C::Weight => most(|share| Some(share.line.weight_served.into())),
            C::Entitled => other.entitled.cmp(&one.entitled),
            C::Last => other.got_last.cmp(&one.got_last),
            C::Minute => other.got_minute.cmp(&one.got_minute),
            C::All => other.got_all.cmp(&one.got_all),
            C::Running => most(|share| Some(share.line.running.into())),
            C::Queued => most(|share| Some(share.line.queued.into())),
            C::Lag => most(|share| Some(share.line.lag.into())),
            C::Spent => most(|share| Some(share.line.spent.into())),
            C::Left => most(|share| share.line.left.map(i128::from)),
            C::Parked => Reverse(one.line.parked).cmp(&Reverse(other.line.parked)),
        }
    }

    pub(super) fn next(self, shown: &[Column]) -> Column {
        let sortable: Vec<Column> = shown.iter().copied().filter(|column| *column != C::Parked).collect();
        let at = sortable.iter().position(|column| *column == self);
        sortable.get(at.map_or(0, |at| at + 1)).or(sortable.first()).copied().unwrap_or(self)
    }
}

fn optional(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// Sorts clients by a column; ties by shares, then by name.
pub(crate) fn sort(shares: &mut [ClientShare], by: Column) {
    let standing_by = |share: &ClientShare| -> ([Option<Share>; 3], u32) {
        ([share.got_minute, share.entitled, share.got_all], share.line.weight_served)
    };
    shares.sort_by(|one, other| {
        let equal = || {
            standing_by(other).cmp(&standing_by(one)).then_with(|| one.line.client.cmp(&other.line.client))
        };
        by.compare(one, other).then_with(equal)
    });
}

pub(crate) fn columns(shares: &[ClientShare], room: usize) -> Vec<(Column, usize)> {
    let extents = COLUMNS.map(|column| {
        let cells = shares.iter().map(|share| width(&column.cell(share)));
        // Reserves a cell for the sort symbol.
        let head = width(column.head()) + usize::from(column != C::Parked);
        let preferred = cells.max().unwrap_or(0).max(head);
        let min_width = if column == C::Client { preferred.min(CLIENT_NAME_KEPT) } else { preferred };
        Extent {
            preferred,
            min_width,
            narrow_rank: 0,
            hide_rank: LEFT_OUT.iter().position(|out| *out == column),
        }
    });
    let widths = layout(&extents, room);
    COLUMNS.into_iter().zip(widths).filter_map(|(column, wide)| Some((column, wide?))).collect()
}

pub(crate) fn plain(columns: &[(Column, usize)], cell: impl Fn(Column) -> String) -> String {
    let cells: Vec<String> = columns
        .iter()
        .map(|&(column, wide)| match column.is_number() {
            true => format!("{:>wide$}", cell(column)),
            false => padded(&cell(column), wide),
        })
        .collect();
    cells.join(&" ".repeat(GAP)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::cli::commands::top::shares::ShareHistory;
    use crate::cli::commands::top::shares::tests::client;

    #[test]
    fn the_one_with_the_most_stands_first() {
        let mut clients = vec![client("a", 300, 2, 10), client("b", 100, 1, 50), client("c", 200, 3, 50)];
        clients[0].left = Some(-5);
        clients[2].left = Some(7);
        clients[1].parked = true;
        let mut looks = ShareHistory::default();
        looks.shares(clients.clone(), Duration::ZERO);
        clients[0].charged += 1;
        let mut shares = looks.shares(clients, Duration::from_secs(1));
        for (by, expected) in [
            (C::Client, "abc"),
            (C::Tier, "acb"),
            (C::Weight, "acb"),
            (C::Entitled, "acb"),
            (C::Last, "acb"),
            (C::Minute, "acb"),
            (C::All, "cba"),
            (C::Running, "cab"),
            (C::Spent, "cba"),
            (C::Left, "cab"),
            (C::Parked, "bac"),
        ] {
            sort(&mut shares, by);
            let names: String = shares.iter().map(|share| share.line.client.as_str()).collect();
            assert_eq!(names, expected, "{by:?}");
        }
    }

    #[test]
    fn each_column_can_be_sorted_by_and_none_that_is_not_shown() {
        let shown: Vec<Column> = COLUMNS.into_iter().filter(|column| *column != C::All).collect();
        let mut at = C::Minute;
        let mut passed = Vec::new();
        while !passed.contains(&at) {
            passed.push(at);
            at = at.next(&shown);
        }
        assert_eq!((passed.len(), at), (shown.len() - 1, C::Minute));
        assert_eq!(C::All.next(&shown), C::Client, "what is no longer shown");
        assert_eq!(C::Minute.next(&[C::Client, C::Minute]), C::Client);
    }
}
