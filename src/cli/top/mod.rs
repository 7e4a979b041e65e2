//! `ostler top`: the run queue as it moves.
//!
//! `shares` counts, `table` orders and chooses columns, `board` is what is known, and `draw` makes a picture of it, which
//! the screen of `live` brings to the terminal.

mod board;
mod draw;
mod shares;
mod table;

#[cfg(test)]
mod pictures;

use std::io::{IsTerminal, stdin};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use ostler_server::wire::QueueView;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Globals;
use super::client::{Client, Refused};
use super::exit::{Failure, code};
use super::live::{self, screen};
use super::number::from_one;
use super::session::{ANSWER, Session, Want, answering, no_folder, settings};
use super::signals::{GoesOn, Signals};
use super::term::{Out, Paint, now_ms, say};
use board::{Board, Found, Key};
use table::{Column, columns, plain};

/// How often the queue is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Keys that may have been pressed and not been looked at.
const KEYS_MAX: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Look so many times, once a second, and end [default: 1, but on a terminal until q]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = from_one)]
    looks: Option<NonZeroU64>,
}

pub(crate) async fn top(globals: &Globals, args: TopArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let (_, data) = settings(globals, Path::new("."))?;
    let nobody = |why: String| {
        if !globals.json {
            say(why);
        }
        Ok(code::SUCCEEDED)
    };
    let data = match (no_folder(data.as_deref())?, data) {
        (None, Some(data)) => data,
        (Some(nothing), _) => return nobody(nothing),
        (None, None) => return nobody("nothing runs".to_owned()),
    };
    let session = Session::open(globals, Path::new("."), Want::Look).await?;
    if !session.client.is_remote() {
        session.stop().await;
        return nobody(format!("nothing runs: no process holds the data folder {}", data.display()));
    }
    let mut looker = Looker { data, client: Some(session.client.clone()) };
    let looks = args.looks.map(NonZeroU64::get);
    if globals.json {
        listed(&mut looker, looks.unwrap_or(1), |board, _| {
            let totals = board.totals;
            out.json(&json!({
                "type": "queue",
                "at_ms": now_ms(),
                "slots": totals.slots,
                "running": totals.running,
                "queued": totals.queued,
                "marketplace_owed": totals.marketplace_owed,
                "clients": board.standings,
            }));
        })
        .await
    } else if out.is_screen() {
        watched(looker, looks, &mut out).await
    } else {
        listed(&mut looker, looks.unwrap_or(1), |board, first| tell(board, first, &mut out)).await
    }
}

/// Who looks at the queue, of whoever holds the data folder.
struct Looker {
    data: PathBuf,
    client: Option<Client>,
}

impl Looker {
    async fn look(&mut self) -> Found {
        if self.client.is_none() {
            self.client = answering(&self.data).await.map(|(client, _)| client);
        }
        let Some(client) = &self.client else { return Found::Nobody };
        match timeout(ANSWER, client.get::<QueueView>("/v1/queue")).await {
            Ok(Ok(view)) => Found::Queue(view),
            Ok(Err(Refused::Gone(_) | Refused::NotThere(_))) => {
                self.client = None;
                Found::Nobody
            }
            Ok(Err(Refused::Problem(problem))) => Found::Silent(problem.detail),
            Ok(Err(Refused::Failed(failure))) => Found::Silent(failure.what),
            Err(_) => Found::Silent("the process that holds the data folder does not answer".to_owned()),
        }
    }
}

/// Looks so many times, and tells each; `true` goes with the first.
async fn listed(looker: &mut Looker, looks: u64, mut tell: impl FnMut(&Board, bool)) -> Result<u8, Failure> {
    let mut board = Board::new(looker.data.display().to_string(), Column::All);
    let begun = Instant::now();
    let mut beat = interval(LOOK);
    for look in 0..looks {
        beat.tick().await;
        match looker.look().await {
            Found::Silent(why) => return Err(Failure::internal(why)),
            found => board.take(found, begun.elapsed()),
        }
        if let Some(stale) = &board.stale {
            say(stale);
            break;
        }
        tell(&board, look == 0);
    }
    Ok(code::SUCCEEDED)
}

/// A table for a pipe.
fn tell(board: &Board, first: bool, out: &mut Out) {
    if !first {
        out.line("");
    }
    let totals = &board.totals;
    out.line(format!("{} of {} slots, {}", totals.running, totals.slots, totals.told()));
    let columns = columns(&board.standings, usize::MAX);
    // There is nothing to compare the first look with.
    let columns: Vec<(Column, usize)> = columns
        .into_iter()
        .filter(|(column, _)| !(first && matches!(column, Column::Last | Column::Minute)))
        .collect();
    out.line(plain(&columns, |column| column.head().to_owned()));
    for standing in &board.standings {
        let row = plain(&columns, |column| column.cell(standing));
        out.line(if standing.line.parked { out.paint(Paint::Care, &row) } else { row });
    }
}

/// Takes the picture off the screen, however its time ends.
struct Shown;

impl Drop for Shown {
    fn drop(&mut self) {
        screen::close();
    }
}

/// Shows the queue until somebody has seen enough.
async fn watched(mut looker: Looker, looks: Option<u64>, out: &mut Out) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    signals.will_say("ended at once".to_owned());
    let mut goes_on = GoesOn::listen();
    let mut board = Board::new(looker.data.display().to_string(), Column::Minute);
    let begun = Instant::now();
    let (sender, mut found) = mpsc::channel(1);
    // A look may take its time; keys are not kept waiting for it.
    tokio::spawn(async move {
        let mut beat = interval(LOOK);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..looks.unwrap_or(u64::MAX) {
            beat.tick().await;
            if sender.send(looker.look().await).await.is_err() {
                return;
            }
        }
        // The last one can be seen for as long as the others.
        beat.tick().await;
    });
    live::begin();
    let _shown = Shown;
    let mut pressed = pressed_from_now();
    loop {
        tokio::select! {
            found = found.recv() => match found {
                Some(found) => board.take(found, begun.elapsed()),
                None => return Ok(code::SUCCEEDED),
            },
            event = next(&mut pressed) => {
                let ended = match event {
                    Some(Event::Key(key)) => meant(key).is_some_and(|key| !board.press(key)),
                    Some(_) => false,
                    None => true,
                };
                if ended {
                    return Ok(code::SUCCEEDED);
                }
            }
            () = goes_on.next() => {}
            code = signals.next() => return Ok(code),
        }
        let size = out.size();
        screen::show_whole(draw::lines(&mut board, size, out.has_colour()), size);
    }
}

/// The keys that are pressed from now on, and changes of the window; `None` where nobody can press any.
fn pressed_from_now() -> Option<mpsc::Receiver<Event>> {
    if !stdin().is_terminal() {
        return None;
    }
    let (sender, pressed) = mpsc::channel(KEYS_MAX);
    // Reading a terminal cannot be given up; a thread of its own ends with the process.
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

/// What a key means, if anything.
fn meant(key: KeyEvent) -> Option<Key> {
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
