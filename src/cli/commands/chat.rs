//! `ostler chat`.

mod input;

use clap::Args;
use ostler_kernel::policy::EARLIER_RUNS_MAX;
use ostler_server::wire::Summary;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::commands::ask::{GoalOpening, GoalOptions};
use crate::cli::commands::chat::input::{Input, Said};
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::cancel_run::cancel_run;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Turn, Watch, WatchEnd, report_interrupt, watch_one};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Run to continue from: a turn of an earlier chat, or any other; repeatable, the oldest first
    #[arg(long, value_name = "RUN", value_parser = run_name)]
    on: Vec<String>,
    #[command(flatten)]
    options: GoalOptions,
}

/// How a turn ended.
enum TurnEnd {
    /// The run is over, with the exit code that `ask` would have.
    Over(u8),
    /// The turn was cancelled.
    Cancelled,
    /// The chat ends with this exit code; the run goes on later.
    Left(u8),
}

/// The runs of a chat that a turn may use, the oldest first.
#[derive(Debug, Default)]
struct Thread(Vec<String>);

impl Thread {
    /// Adds a run behind those that it was opened on itself.
    fn continue_from(&mut self, summary: &Summary) {
        summary.on.iter().chain([&summary.run]).for_each(|run| self.add(run));
    }

    /// Adds the latest run. The oldest ones leave beyond [`EARLIER_RUNS_MAX`].
    fn add(&mut self, run: &str) {
        self.0.retain(|known| known != run);
        self.0.push(run.to_owned());
        self.0.drain(..self.0.len().saturating_sub(EARLIER_RUNS_MAX));
    }
}

pub(crate) async fn chat(globals: &Globals, args: ChatArgs) -> Result<u8, Failure> {
    let opening = args.options.open(globals)?;
    let mut signals = Signals::listen()?.of_turns();
    let mut session = Session::open(&opening.globals, &opening.workspace, AccessMode::Create).await?;
    let mut thread = Thread::default();
    for name in &args.on {
        match session.summary(name).await {
            Ok(summary) => thread.continue_from(&summary),
            Err(failure) => {
                let what = format!("--on {name}: {failure}; `ostler ps` lists the runs");
                return session.stop_with(Failure { what, ..failure }).await;
            }
        }
    }
    let mut chat = Chat { opening, options: args.options, thread, input: Input::open() };
    match chat.turns(&mut session, &mut signals).await {
        Ok(Left::Ended(code)) => session.close(&mut signals).await.map(|()| code),
        Ok(Left::Interrupted { code, run: Some(run) }) => {
            report_interrupt(session, &signals, &run).await;
            Ok(code)
        }
        Ok(Left::Interrupted { code, run: None }) => {
            session.stop().await;
            Ok(code)
        }
        Err(failure) => session.stop_with(failure).await,
    }
}

/// How a chat ended.
enum Left {
    Ended(u8),
    /// By a signal; `run`: the turn in progress.
    Interrupted {
        code: u8,
        run: Option<String>,
    },
}

struct Chat {
    opening: GoalOpening,
    options: GoalOptions,
    thread: Thread,
    input: Input,
}

impl Chat {
    async fn turns(&mut self, session: &mut Session, signals: &mut Signals) -> Result<Left, Failure> {
        let mut out = Out::new();
        let mut ended = code::SUCCEEDED;
        if self.input.is_terminal() {
            status_line("each line is a turn; ^C cancels a turn, /quit or ^D ends");
        }
        loop {
            let goal = match self.input.next(signals).await? {
                Said::Goal(goal) => goal,
                Said::End => return Ok(Left::Ended(ended)),
                Said::Signal(code) => return Ok(Left::Interrupted { code, run: None }),
            };
            let on = self.thread.0.clone();
            let run = match self.opening.submit(session, goal, on).await.map_err(Failure::from) {
                Ok(run) => run,
                // At a terminal, the next line may be better.
                Err(refused) if self.input.is_terminal() && refused.code == code::INVALID => {
                    status_line(format!("error: {refused}"));
                    continue;
                }
                Err(refused) => return Err(refused),
            };
            match self.turn(&run, session, signals, &mut out).await? {
                TurnEnd::Over(code::WAITS) => {
                    let (approvals, yes) = (hints::command("approvals", &[], ""), "--yes");
                    status_line(format!(
                        "turn {} waits for a person: `{approvals}` shows the question; {yes} starts plans without one",
                        short_id(&run)
                    ));
                    return Ok(Left::Ended(code::WAITS));
                }
                TurnEnd::Over(code) => {
                    self.thread.add(&run);
                    // A script learns that a turn failed; a person has seen it.
                    ended = if ended == code::SUCCEEDED && !self.input.is_terminal() { code } else { ended };
                }
                TurnEnd::Cancelled => {
                    self.thread.add(&run);
                    status_line(format!("turn {} cancelled", short_id(&run)));
                }
                TurnEnd::Left(code) => return Ok(Left::Interrupted { code, run: Some(run) }),
            }
        }
    }

    async fn turn(
        &mut self,
        run: &str,
        session: &mut Session,
        signals: &mut Signals,
        out: &mut Out,
    ) -> Result<TurnEnd, Failure> {
        let watch = Watch {
            run: run.to_owned(),
            before: None,
            json: self.opening.globals.json,
            options: self.options.watch,
            labelled: false,
            quiet: false,
            turn: Some(Turn { lines_typed: self.input.lines_typed() }),
        };
        match watch_one(session, signals, watch, out).await? {
            WatchEnd::Settled(code) => Ok(TurnEnd::Over(code)),
            WatchEnd::Interrupted(INTERRUPTED) => cancel(run, session, signals, out).await,
            WatchEnd::Interrupted(code) => Ok(TurnEnd::Left(code)),
        }
    }
}

/// Exit code of ^C.
const INTERRUPTED: u8 = 130;

/// Cancels the turn in progress, and waits until attempts that act on the world have ended.
async fn cancel(
    run: &str,
    session: &mut Session,
    signals: &mut Signals,
    out: &mut Out,
) -> Result<TurnEnd, Failure> {
    match signals.during(cancel_run(session, run, out)).await {
        Ok(cancelled) => cancelled.map(|()| TurnEnd::Cancelled),
        Err(code) => Ok(TurnEnd::Left(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_uses_the_latest_runs_and_each_once() {
        let mut thread = Thread::default();
        (0..EARLIER_RUNS_MAX + 2).for_each(|number| thread.add(&number.to_string()));
        assert_eq!(thread.0.len(), EARLIER_RUNS_MAX);
        assert_eq!(thread.0[0], "2");
        thread.add("2");
        assert_eq!((thread.0[0].as_str(), thread.0[EARLIER_RUNS_MAX - 1].as_str()), ("3", "2"));
    }
}
