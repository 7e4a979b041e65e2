//! `ostler top`.
//!
//! `shares` computes entitlements and charges, `table` chooses and sorts columns, `model` holds the state, and `draw` renders it.

mod draw;
mod model;
mod shares;
#[cfg(test)]
mod snapshots;
mod table;

use std::io::{IsTerminal, stdin};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use ostler_server::wire::QueueView;
use ratatui::crossterm::event;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::positive_integer;
use crate::cli::commands::top::model::{Key, Poll, QueueModel};
use crate::cli::commands::top::table::{Column, columns, plain};
use crate::cli::exit::{Failure, code};
use crate::cli::output::screen;
use crate::cli::output::terminal::{Out, Style, reader_gone, status_line};
use crate::cli::output::units::now_ms;
use crate::cli::session::api_client::{ApiError, Client};
use crate::cli::session::holder::{ANSWER_TIMEOUT, connect};
use crate::cli::session::settings::{load_settings, no_runs_text};
use crate::cli::session::signals::{ContinueSignal, Signals};
use crate::cli::session::{AccessMode, Session, signals};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

const KEYS_MAX: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Number of polls, one per second [default: 1; on a terminal, until q]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = positive_integer)]
    looks: Option<NonZeroU64>,
}

pub(crate) async fn top(globals: &Globals, args: TopArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let (_, data) = load_settings(globals, Path::new("."))?;
    let finish_idle = |why: String| {
        if !globals.json {
            status_line(why);
        }
        Ok(code::SUCCEEDED)
    };
    let data = match (no_runs_text(data.as_deref())?, data) {
        (None, Some(data)) => data,
        (Some(nothing), _) => return finish_idle(nothing),
        (None, None) => return finish_idle("no queue".to_owned()),
    };
    let session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    if !session.client.is_remote() {
        session.stop().await;
        return finish_idle(format!("no queue: no process holds the data folder {}", data.display()));
    }
    let mut poller = Poller { data, client: Some(session.client.clone()) };
    let looks = args.looks.map(NonZeroU64::get);
    if globals.json {
        print_polls(&mut poller, looks.unwrap_or(1), |model, _| {
            let totals = model.totals;
            out.json(&json!({
                "type": "queue",
                "at_ms": now_ms(),
                "slots": totals.slots,
                "running": totals.running,
                "queued": totals.queued,
                "rate_waits": totals.rate_waits,
                "marketplace_owed": totals.marketplace_owed,
                "clients": model.shares,
            }));
        })
        .await
    } else if out.is_screen() {
        run_screen(poller, looks, &mut out).await
    } else {
        print_polls(&mut poller, looks.unwrap_or(1), |model, first| print_table(model, first, &mut out)).await
    }
}

/// Polls the queue of the process that holds the data folder.
struct Poller {
    data: PathBuf,
    client: Option<Client>,
}

impl Poller {
    async fn poll(&mut self) -> Poll {
        if self.client.is_none() {
            self.client = connect(&self.data).await.map(|(client, _)| client);
        }
        let Some(client) = &self.client else { return Poll::NoProcess };
        match timeout(ANSWER_TIMEOUT, client.get::<QueueView>("/v1/queue")).await {
            Ok(Ok(view)) => Poll::Queue(view),
            Ok(Err(ApiError::ConnectionLost(_) | ApiError::NotSent(_))) => {
                self.client = None;
                Poll::NoProcess
            }
            Ok(Err(ApiError::Problem(problem))) => Poll::Unresponsive(problem.detail),
            Ok(Err(ApiError::Failed(failure))) => Poll::Unresponsive(failure.what),
            Err(_) => Poll::Unresponsive("the process that holds the data folder does not answer".to_owned()),
        }
    }
}

/// Polls and prints; the flag is true for the first poll.
async fn print_polls(
    poller: &mut Poller,
    looks: u64,
    mut print: impl FnMut(&QueueModel, bool),
) -> Result<u8, Failure> {
    let mut model = QueueModel::new(poller.data.display().to_string(), Column::All);
    let begun = Instant::now();
    let mut ticks = interval(POLL_INTERVAL);
    for look in 0..looks {
        tokio::select! {
            _ = ticks.tick() => {}
            () = reader_gone() => break,
        }
        match poller.poll().await {
            Poll::Unresponsive(why) => return Err(Failure::internal(why)),
            found => model.update(found, begun.elapsed()),
        }
        if let Some(stale) = &model.stale {
            status_line(stale);
            break;
        }
        print(&model, look == 0);
    }
    Ok(code::SUCCEEDED)
}

fn print_table(model: &QueueModel, first: bool, out: &mut Out) {
    if !first {
        out.line("");
    }
    let totals = &model.totals;
    out.line(format!("{} of {} slots, {}", totals.running, totals.slots, totals.text()));
    let columns = columns(&model.shares, usize::MAX);
    // The first poll has no earlier one to compare with.
    let columns: Vec<(Column, usize)> = columns
        .into_iter()
        .filter(|(column, _)| !(first && matches!(column, Column::Last | Column::Minute)))
        .collect();
    out.line(plain(&columns, |column| column.head().to_owned()));
    for share in &model.shares {
        let row = plain(&columns, |column| column.cell(share));
        out.line(if share.line.parked { out.styled(Style::Warning, &row) } else { row });
    }
}

struct ScreenGuard;

impl Drop for ScreenGuard {
    fn drop(&mut self) {
        screen::close();
    }
}

/// Shows the queue until a key or a signal ends the command.
async fn run_screen(mut poller: Poller, looks: Option<u64>, out: &mut Out) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    signals.set_exit_message("ended at once".to_owned());
    let mut resumed = ContinueSignal::listen();
    let mut model = QueueModel::new(poller.data.display().to_string(), Column::Minute);
    let begun = Instant::now();
    let (sender, mut found) = mpsc::channel(1);
    // Polls in a task of their own, so that a slow answer does not delay keys.
    tokio::spawn(async move {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..looks.unwrap_or(u64::MAX) {
            ticks.tick().await;
            if sender.send(poller.poll().await).await.is_err() {
                return;
            }
        }
        // The last poll stays visible as long as the others.
        ticks.tick().await;
    });
    signals::begin();
    let _shown = ScreenGuard;
    let mut pressed = read_keys();
    loop {
        tokio::select! {
            found = found.recv() => match found {
                Some(found) => model.update(found, begun.elapsed()),
                None => return Ok(code::SUCCEEDED),
            },
            event = next(&mut pressed) => {
                let ended = match event {
                    Some(Event::Key(key)) => key_of(key).is_some_and(|key| !model.press(key)),
                    Some(_) => false,
                    None => true,
                };
                if ended {
                    return Ok(code::SUCCEEDED);
                }
            }
            () = resumed.next() => {}
            code = signals.next() => return Ok(code),
        }
        let size = out.size();
        screen::show_whole(draw::lines(&mut model, size, out.has_colour()), size);
    }
}

/// Reads keys and window changes from now on; `None` without a terminal.
fn read_keys() -> Option<mpsc::Receiver<Event>> {
    if !stdin().is_terminal() {
        return None;
    }
    let (sender, pressed) = mpsc::channel(KEYS_MAX);
    // A blocking read of a terminal cannot be cancelled; the thread ends with the process.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    Some(pressed)
}

async fn next(pressed: &mut Option<mpsc::Receiver<Event>>) -> Option<Event> {
    match pressed {
        Some(pressed) => pressed.recv().await,
        None => std::future::pending().await,
    }
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if !key.is_press() {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Up | KeyCode::Char('k') => Key::Rows(-1),
        KeyCode::Down | KeyCode::Char('j') => Key::Rows(1),
        KeyCode::PageUp => Key::Pages(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Key::Pages(1),
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        _ => return None,
    })
}
