//! The queue as polled, and the view on it: sort column and scroll position.

use std::time::Duration;

use ostler_server::wire::{QueueRow, QueueView};

use crate::cli::commands::top::shares::{ClientShare, ShareHistory};
use crate::cli::commands::top::table::{Column, sort};

#[derive(Debug)]
pub(crate) enum Poll {
    Queue(QueueView),
    NoProcess,
    /// The process did not answer, for this reason.
    Unresponsive(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) slots: u32,
    pub(super) running: u32,
    pub(super) queued: u64,
    pub(super) rate_waits: u64,
    pub(super) marketplace_owed: i64,
}

impl Totals {
    /// Describes the backlog, and the balance of the marketplace.
    pub(super) fn text(&self) -> String {
        let owed = match self.marketplace_owed {
            0 => "marketplace balanced".to_owned(),
            owed @ 1.. => format!("marketplace {owed} credits behind"),
            ahead => format!("marketplace {} credits ahead", ahead.unsigned_abs()),
        };
        let rate = match self.rate_waits {
            0 => String::new(),
            calls => format!(" ({calls} for the rate of a model)"),
        };
        format!("{} queued{rate}, {owed}", self.queued)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Quit,
    Sort,
    /// Rows down, or up if negative.
    Rows(isize),
    /// Pages down, or up if negative.
    Pages(isize),
    First,
    Last,
}

#[derive(Debug)]
pub(crate) struct QueueModel {
    pub(super) place: String,
    pub(super) totals: Totals,
    pub(super) shares: Vec<ClientShare>,
    pub(super) stale: Option<String>,
    pub(super) sorted: Column,
    pub(super) top: usize,
    pub(super) page: usize,
    pub(super) shown: Vec<Column>,
    history: ShareHistory,
}

impl QueueModel {
    pub(super) fn new(place: String, sorted: Column) -> QueueModel {
        QueueModel {
            place,
            totals: Totals::default(),
            shares: Vec::new(),
            stale: None,
            sorted,
            top: 0,
            page: 1,
            shown: Vec::new(),
            history: ShareHistory::default(),
        }
    }

    /// Stores result of a poll; `at`: time since the first poll.
    pub(super) fn update(&mut self, found: Poll, at: Duration) {
        match found {
            Poll::Queue(QueueView { queue, clients }) => {
                let QueueRow { slots, running, queued, rate_waits, marketplace_owed } = queue;
                self.stale = None;
                self.totals = Totals { slots, running, queued, rate_waits, marketplace_owed };
                self.shares = self.history.shares(clients, at);
                sort(&mut self.shares, self.sorted);
            }
            Poll::NoProcess => {
                self.stale = Some("no queue: no process holds the data folder now".to_owned());
                // The next process counts charges from 0.
                self.history = ShareHistory::default();
                self.totals = Totals { slots: self.totals.slots, ..Totals::default() };
                self.shares.clear();
            }
            Poll::Unresponsive(why) => self.stale = Some(why),
        }
    }

    /// Handles a key; returns false to quit.
    pub(super) fn press(&mut self, key: Key) -> bool {
        let page = self.page.max(1) as isize;
        match key {
            Key::Quit => return false,
            Key::Sort => {
                self.sorted = self.sorted.next(&self.shown);
                sort(&mut self.shares, self.sorted);
            }
            Key::Rows(rows) => self.top = self.top.saturating_add_signed(rows),
            Key::Pages(pages) => self.top = self.top.saturating_add_signed(pages * page),
            Key::First => self.top = 0,
            Key::Last => self.top = usize::MAX,
        }
        self.fit();
        true
    }

    /// Limits the scroll position.
    pub(super) fn fit(&mut self) {
        self.top = self.top.min(self.shares.len().saturating_sub(self.page));
    }
}
