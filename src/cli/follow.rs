//! Watching a run: its records as they come, until nothing goes on in it.

use futures::StreamExt;
use hyper::Method;
use ostler_actors::CHECKPOINTED;
use ostler_server::wire::{ClientLine, EventLine, RunRef, Standing, Summary};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::advice;
use super::ask::{Asker, Came};
use super::client::{Client, Refused, WENT_AWAY, part};
use super::exit::{Failure, code};
use super::live::{Live, Plain, View};
use super::session::{RENEWALS_MAX, Session, Want, no_room};
use super::signals::Signals;
use super::summary;
use super::term::{Out, say};

/// Bytes of a line of records.
const LINE_BYTES_MAX: usize = 64 << 20;

/// What to watch.
pub(crate) struct Watch {
    pub(crate) run: String,
    /// How it stood before; `None`: it begins.
    pub(crate) before: Option<Before>,
    pub(crate) json: bool,
    /// Others are watched too: its lines tell which it is.
    pub(crate) among: bool,
}

/// How a run stood that goes on.
pub(crate) struct Before {
    /// Sequence number of the last record that is not told.
    pub(crate) seq: u64,
    /// Who pays.
    pub(crate) client: String,
    /// Nothing more of it started, because the credits of its client were used up.
    pub(crate) out_of_credit: bool,
    /// It was set aside.
    pub(crate) parked: bool,
}

impl Watch {
    /// Of a run that goes on.
    pub(crate) fn from(before: &Summary, json: bool) -> Watch {
        let Summary { run, seq, client, out_of_credit, reason, .. } = before;
        let (out_of_credit, parked) = (*out_of_credit, reason.is_some());
        let before = Before { seq: *seq, client: client.clone(), out_of_credit, parked };
        Watch { run: run.clone(), before: Some(before), json, among: false }
    }
}

/// Watches a run until nothing goes on in it, tells what came of it, and lets go of the data folder. Gives the
/// exit code.
pub(crate) async fn watch(
    mut session: Session,
    signals: &mut Signals,
    watch: Watch,
    out: &mut Out,
) -> Result<u8, Failure> {
    let run = watch.run.clone();
    match one(&mut session, signals, watch, out).await {
        Ok(Ended::Settled(code)) => {
            session.close(signals).await?;
            Ok(code)
        }
        Ok(Ended::Interrupted(code)) => {
            interrupted(session, signals, &run).await;
            Ok(code)
        }
        Err(failure) => {
            session.stop().await;
            Err(failure)
        }
    }
}

/// Lets go after ^C, and says what becomes of the run.
pub(crate) async fn interrupted(session: Session, signals: &Signals, run: &str) {
    if session.client.is_remote() {
        say(format!(
            "the run goes on in the process that holds the data folder; `{}` stops it",
            advice::command("cancel", &[run], "")
        ));
    } else {
        let resume = advice::resume(run);
        signals.will_kill(session.programs());
        say(
            "stopping: work that acts on the world is brought to its end; ^C again ends it, and this, at once",
        );
        signals.will_say(format!("ended at once, state is kept: `{resume}` goes on"));
        session.stop().await;
        say(format!("stopped, state is kept: `{resume}` goes on"));
    }
}

/// How watching one run ended.
pub(crate) enum Ended {
    Settled(u8),
    Interrupted(u8),
}

/// Watches one run and tells what came of it.
pub(crate) async fn one(
    session: &mut Session,
    signals: &mut Signals,
    watch: Watch,
    out: &mut Out,
) -> Result<Ended, Failure> {
    let Watch { run, before, json, among } = watch;
    let after = before.as_ref().map_or(0, |before| before.seq);
    let (mut view, after): (Box<dyn View + Send>, u64) = match (json, out.is_screen()) {
        (true, _) => (Box::new(Lines), after),
        // A tree shows how things stand, whatever led there.
        (false, true) => (Box::new(Live::new()), 0),
        (false, false) => {
            let plain = before.map_or_else(Plain::default, Plain::after);
            (Box::new(if among { plain.marked(&run) } else { plain }), after)
        }
    };
    let mut asker = if json { None } else { Asker::new(&run) };
    if let Some(asker) = asker.as_mut().filter(|_| after > 0) {
        asker.take_up(&session.summary(&run).await?);
    }
    let mut room = session.room();
    if let Some(room) = room.as_mut().filter(|room| room.borrow().is_some()) {
        // It may have been full before anybody watched.
        room.mark_changed();
    }
    let followed = {
        let followed = to_rest_asking(session, &run, after, &mut *view, asker.as_mut(), out);
        tokio::pin!(followed);
        loop {
            tokio::select! {
                followed = &mut followed => break Ok(followed),
                () = tell_room(&mut room) => {}
                code = signals.next() => break Err(code),
            }
        }
    };
    if !matches!(followed, Ok(Ok(()))) && asker.as_ref().is_some_and(Asker::is_asking) {
        // What is said next begins a line.
        say("");
    }
    view.end(out);
    match followed {
        Err(code) => return Ok(Ended::Interrupted(code)),
        Ok(Err(refused)) => return Err(lost(refused, &run)),
        Ok(Ok(())) => {}
    }
    let summary = session.summary(&run).await?;
    if json {
        out.json(&summary);
    } else {
        summary::tell(&session.client, &summary, view.has_told_nodes(), out).await;
    }
    Ok(Ended::Settled(code_of(&summary)))
}

/// Says it once when the disk that this process writes to is full, or has room again.
async fn tell_room(room: &mut Option<watch::Receiver<Option<String>>>) {
    let Some(changes) = room else { return std::future::pending().await };
    if changes.changed().await.is_err() {
        *room = None;
        return;
    }
    let why = changes.borrow_and_update().clone();
    say(match why {
        Some(why) => {
            let cost = "^C ends this; a step that has acted, and whose result waits, is in doubt then";
            format!("{}; {cost}", no_room(&why))
        }
        None => "there is room on the disk again".to_owned(),
    });
}

/// Gives every record after `after` to the view, until nothing goes on in the run; asks the person at the terminal,
/// if there is one, whatever the run asks.
async fn to_rest_asking(
    session: &mut Session,
    run: &str,
    mut after: u64,
    view: &mut (dyn View + Send),
    mut asker: Option<&mut Asker>,
    out: &mut Out,
) -> Result<(), Refused> {
    loop {
        // While somebody is asked, nothing else may go on, and yet it is not at rest.
        let asks = asker.as_ref().is_some_and(|asker| asker.has_open());
        let until = if asks { "closed" } else { "settled" };
        to_rest(session, run, &mut after, until, Part::Drives, view, asker.as_deref_mut(), out).await?;
        if !asks && asker.as_ref().is_none_or(|asker| !asker.has_open()) {
            return Ok(());
        }
    }
}

/// What somebody has to do with a run that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is to get on: if the process that drives it goes away, this one does.
    Drives,
    /// It is looked at, as long as there is something to see.
    Looks,
}

/// Gives every record after `after` to the view, until nothing goes on in the run (`settled`) or it is over
/// (`closed`), or nobody is asked any more by an asker who had something to ask.
/// The process that drives it may end right after the run does, with a request under way.
#[allow(clippy::too_many_arguments)] // what is followed, how far, for whom, and where it is told
pub(crate) async fn to_rest(
    session: &mut Session,
    run: &str,
    after: &mut u64,
    until: &str,
    part_in_it: Part,
    view: &mut (dyn View + Send),
    mut asker: Option<&mut Asker>,
    out: &mut Out,
) -> Result<(), Refused> {
    let path = format!("/v1/runs/{}", part(run));
    for _ in 0..RENEWALS_MAX {
        let lost = match follow(&session.client, &path, after, until, view, asker.as_deref_mut(), out).await {
            Ok(()) if part_in_it == Part::Drives && take_up(session, run).await? => continue,
            Ok(()) => return Ok(()),
            Err(Refused::Gone(what) | Refused::NotThere(what)) => what,
            Err(refused) => return Err(refused),
        };
        let want = if part_in_it == Part::Drives { Want::Drive } else { Want::Look };
        session.renew(want).await.map_err(|_| Refused::Gone(lost.clone()))?;
        match part_in_it {
            Part::Drives => {
                take_up(session, run).await?;
            }
            Part::Looks if session.client.is_remote() => {}
            Part::Looks => {
                let summary: Summary = session.client.get(&path).await?;
                return match summary.standing {
                    Standing::Open | Standing::Running => Err(Refused::Gone(lost)),
                    _ => follow(&session.client, &path, after, "now", view, None, out).await,
                };
            }
        }
    }
    follow(&session.client, &path, after, until, view, asker, out).await
}

/// Takes a run up that nobody drives: whoever holds the data folder by now may have come for something else. Whether it stood
/// still.
async fn take_up(session: &mut Session, run: &str) -> Result<bool, Refused> {
    let path = format!("/v1/runs/{}", part(run));
    if session.get::<Summary>(&path).await?.standing != Standing::Open {
        return Ok(false);
    }
    if !session.client.is_remote() {
        say("the process that held the data folder went away: the run goes on in this one");
    }
    match session.post::<RunRef>(&format!("{path}/resume"), &Value::Null).await {
        // Somebody else was quicker.
        Err(Refused::Problem(problem)) if problem.code == "invalid_state" => Ok(true),
        taken_up => taken_up.map(|_| true),
    }
}

/// What is said when the other process is gone.
pub(crate) fn lost(refused: Refused, run: &str) -> Failure {
    match refused {
        Refused::Gone(what) | Refused::NotThere(what) => {
            Failure::internal(format!("{what}; `{}` goes on", advice::resume(run)))
        }
        refused => refused.into(),
    }
}

/// The exit code of a run that is over or at rest.
pub(crate) fn code_of(summary: &Summary) -> u8 {
    match (summary.standing, summary.outcome.as_deref()) {
        (Standing::Closed, Some("succeeded" | "concluded")) => code::SUCCEEDED,
        (Standing::Closed, _) => code::FAILED,
        (Standing::Waiting, _) => code::WAITS,
        (Standing::Checkpointed, _) if summary.reason.as_deref() == Some(CHECKPOINTED) => code::WAITS,
        (Standing::Quarantined, _) => code::STORE,
        (Standing::Checkpointed | Standing::Running | Standing::Open, _) => code::INTERNAL,
    }
}

/// Gives every record after `after` to the view; `after` is then the last one.
pub(crate) async fn follow(
    client: &Client,
    path: &str,
    after: &mut u64,
    until: &str,
    view: &mut (dyn View + Send),
    mut asker: Option<&mut Asker>,
    out: &mut Out,
) -> Result<(), Refused> {
    let had_open = asker.as_ref().is_some_and(|asker| asker.has_open());
    let path = format!("{path}/events?after={after}&until={until}");
    let response = client.ask(Method::GET, &path, "application/x-ndjson", None).await?;
    let mut bytes = response.into_body().into_data_stream();
    tell_credits(client, view, out).await;
    let mut rest: Vec<u8> = Vec::new();
    let mut ticks = tokio::time::interval(super::live::REDRAW);
    // While a question stands nothing ticks; after it, what came meanwhile is drawn once, and at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let gone = |what: String| Refused::Gone(format!("{WENT_AWAY}: {what}"));
    loop {
        let mut asking = false;
        if let Some(asker) = &mut asker {
            asker.show(client, view).await?;
            if had_open && !asker.has_open() {
                return Ok(());
            }
            asking = asker.is_asking();
        }
        let chunk = tokio::select! {
            chunk = bytes.next() => chunk,
            _ = ticks.tick(), if view.moves() && !asking => {
                view.tick(out);
                continue;
            }
            came = asked(&mut asker), if asking => {
                if let Some(asker) = &mut asker {
                    asker.take(came, client, view, out).await?;
                }
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        rest.extend_from_slice(&chunk.map_err(|_| Refused::Gone(WENT_AWAY.to_owned()))?);
        let mut from = 0;
        while let Some(end) = rest[from..].iter().position(|&byte| byte == b'\n') {
            let line = &rest[from..from + end];
            let line: EventLine = serde_json::from_slice(line).map_err(|error| gone(error.to_string()))?;
            view.record(&line, out);
            tell_credits(client, view, out).await;
            if let Some(asker) = &mut asker {
                asker.record(&line);
            }
            *after = line.seq;
            from += end + 1;
        }
        rest.drain(..from);
        if rest.len() > LINE_BYTES_MAX {
            return Err(gone(format!("a record has more than {LINE_BYTES_MAX} bytes")));
        }
    }
    Ok(())
}

/// Asks how the client stands whose credits are used up, if the view has that to tell.
async fn tell_credits(client: &Client, view: &mut (dyn View + Send), out: &mut Out) {
    if let Some(whose) = view.out_of_credit() {
        let line = client.get::<ClientLine>(&format!("/v1/clients/{}", part(&whose))).await;
        view.credits(line.ok().as_ref(), out);
    }
}

async fn asked(asker: &mut Option<&mut Asker>) -> Came {
    match asker {
        Some(asker) => asker.next().await,
        None => std::future::pending().await,
    }
}

/// Records for machines.
pub(crate) struct Lines;

impl View for Lines {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        out.json(line);
    }

    fn has_told_nodes(&self) -> bool {
        true
    }
}
