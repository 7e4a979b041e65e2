//! The `ostler` command: what it takes, and which file does it.
//!
//! Every command that concerns runs speaks the /v1 API, whoever holds the data folder: `session` finds the way,
//! `client` asks, `follow` watches a run and `summary` tells what came of it.

mod advice;
mod agents;
mod approve;
mod ask;
mod bounds;
mod cells;
mod check;
mod client;
mod clients;
mod complete;
mod completions;
mod doctor;
mod evaluate;
mod exit;
mod findings;
mod follow;
mod foresee;
mod gc;
mod help;
mod live;
mod look;
mod man;
mod market;
mod measured;
mod number;
mod pages;
mod pipelines;
mod ps;
mod run;
mod session;
mod show;
mod signals;
mod simulate;
mod steer;
mod summary;
mod table;
mod term;
mod top;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use exit::Failure;
use live::screen::Aside;
use ostler_kernel::plan::nearest;
use ostler_server::wire::Decision;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use term::say;
use tracing_subscriber::EnvFilter;

/// Pairs of letters that are compared to find out which command was meant.
const LETTERS_COMPARED_MAX: usize = 100_000;

/// Run plans: graphs of work that are gated, journaled, and survive a kill
///
/// A plan is a file that names steps and what each of them needs. Ostler runs a step when what it needs is there, asks a gate
/// before every call of a tool, and writes down what happened before anybody sees it. After a crash it goes on where it was.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Globals {
    /// Folder that holds everything: journal, artifacts, control.sock [default: .ostler]
    #[arg(long, global = true, env = "OSTLER_DATA", hide_env_values = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Configuration [default: ostler.toml of the data folder, else of the workspace]
    #[arg(long, global = true, env = "OSTLER_CONFIG", hide_env_values = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
}

impl Globals {
    /// Refuses `--json` where there is nothing to tell a machine.
    fn text_only(&self, command: &str) -> Result<(), Failure> {
        if self.json {
            return Err(Failure::invalid(format!("`ostler {command}` prints text only: leave --json out")));
        }
        Ok(())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan to its end
    ///
    /// Checks the plan, opens a run, shows what happens, and ends when nothing is left to do. The run is written down as it goes:
    /// whatever stops this command, `ostler resume` goes on with the run.
    #[command(
        after_help = "Examples:\n  ostler run plan.yaml\n  ostler run examples/plans/audit.yaml --workspace ../project\n  ostler run plan.yaml --param version=1.2.0 --intent 2\n  ostler run plan.yaml --metrics 9464\n  generate | ostler run -"
    )]
    Run(run::RunArgs),
    /// Show every fault of a plan, or what it amounts to
    ///
    /// Starts nothing. Each fault is shown with its place in the file and what would mend it; a plan without faults is told in
    /// numbers. Exits with 2 if there is a fault; advice refuses nothing.
    #[command(
        after_help = "Examples:\n  ostler check plan.yaml\n  ostler check plan.yaml --param version=1.2.0"
    )]
    Check(check::CheckArgs),
    /// Go on with a run, or with all that are open
    ///
    /// What was finished is not done again. What was under way is done again if that is harmless, or sent again under the same
    /// key; else it is in doubt, and `ostler resolve` settles it.
    #[command(
        after_help = "Examples:\n  ostler resume\n  ostler resume @last\n  ostler resume --metrics 9464"
    )]
    Resume(steer::ResumeArgs),
    /// Let a run come to rest, to go on with it later
    ///
    /// Nothing more of it starts. What is under way goes on to its end; then the run is set aside, holds nothing, and its agent is
    /// free for the next one.
    #[command(after_help = "Example:\n  ostler checkpoint @last")]
    Checkpoint(steer::CheckpointArgs),
    /// Hold a run, and ask a person whether it may go on
    ///
    /// Nothing more of it starts; what is under way goes on to its end. A yes (`ostler approve`) lets the run go on, a no (`ostler
    /// reject`) cancels it, and so does silence.
    #[command(
        after_help = "Examples:\n  ostler interject @last 'the customer has called: go on?'\n  ostler interject @last 'wait for the audit' --within 2d"
    )]
    Interject(steer::InterjectArgs),
    /// List runs, the newest first; or agents, clients, actors
    #[command(
        after_help = "Examples:\n  ostler ps\n  ostler ps -n 5\n  ostler ps --all --json\n  ostler ps --clients\n  ostler ps --tree"
    )]
    Ps(ps::PsArgs),
    /// Show where a run stands, now or at an earlier record
    ///
    /// Formats other than text are for programs: json is the summary that `run --json` ends with, dot and mermaid draw the graph.
    #[command(
        after_help = "Examples:\n  ostler show @last\n  ostler show @last --at 12\n  ostler show @last --format mermaid > graph.mmd"
    )]
    Show(show::ShowArgs),
    /// Print the records of a run
    ///
    /// Everything that ever happened in it, in order. The records are numbered from 1; `ostler show RUN --at NUMBER` shows the run
    /// as it stood then.
    #[command(after_help = "Examples:\n  ostler events @last\n  ostler events @last --follow --json")]
    Events(look::EventsArgs),
    /// Print the result of a node
    #[command(
        after_help = "Examples:\n  ostler artifact @last/report\n  ostler artifact @last/report --path text > report.md"
    )]
    Artifact(look::ArtifactArgs),
    /// List what waits for a person's approval, in all runs
    ///
    /// Each question with all that it shows, how long it stays open, and the commands that answer it.
    #[command(after_help = "Examples:\n  ostler approvals\n  ostler approvals --json")]
    Approvals,
    /// Say yes to what a node asks, and let the run go on
    ///
    /// The yes is for what was shown, and for nothing else: what runs then is exactly that, or it is asked anew. At a terminal
    /// it is shown here, and asked for; elsewhere --digest says what was looked at, as `ostler approvals` shows it.
    #[command(
        after_help = "Examples:\n  ostler approve @last publish\n  ostler approve @last publish --note 'looks good' --digest b3:0123456789abcdef"
    )]
    Approve(approve::AnswerArgs),
    /// Say no to what a node asks, and let the run go on
    ///
    /// Before an action that cancels the node. A result that is refused may be made again, if the plan allows for patches.
    #[command(after_help = "Example:\n  ostler reject @last publish --note 'too early'")]
    Reject(approve::AnswerArgs),
    /// Add a client that pays for runs, or change its terms
    #[command(after_help = "Example:\n  ostler client add acme --credit 5000")]
    Client(clients::ClientArgs),
    /// Deposit credits for a client, take some back, or show what is left
    ///
    /// A credit is a millisecond of a slot. The first deposit makes a client metered, for good: when its credits are used up,
    /// nothing more of it starts until there are more.
    #[command(
        after_help = "Examples:\n  ostler credit acme +1000\n  ostler credit acme -200\n  ostler credit acme"
    )]
    Credit(clients::CreditArgs),
    /// Watch the run queue: who is entitled to what, and who gets it
    ///
    /// On a terminal, a table of clients that is drawn anew every second, until q or Esc. s sorts it by the next column; the arrow
    /// keys, PgUp and PgDn scroll. Elsewhere, the table once. The shares are those of a client's tier: SHARE is its weight among the
    /// clients that have work; GOT, GOT/MIN and GOT/ALL are what it got of what was charged since the look before, over the last
    /// minute, and since the scheduler started. LAG is what it is behind by, in credits. A parked client has used up its credits.
    #[command(after_help = "Examples:\n  ostler top\n  ostler top | head\n  ostler top --json -n 10")]
    Top(top::TopArgs),
    /// Stop a run for good, or one node of it
    ///
    /// Steps that act on the world are let end; the rest is stopped at once. A cancelled run cannot be resumed.
    #[command(after_help = "Examples:\n  ostler cancel @last\n  ostler cancel @last notify")]
    Cancel(steer::CancelArgs),
    /// Do without a node of a run
    ///
    /// It counts as not needed. What depends on its success is lost with it, as if it had been cancelled.
    #[command(after_help = "Example:\n  ostler skip @last notify")]
    Skip(steer::SkipArgs),
    /// Settle an attempt whose result was lost, and go on
    ///
    /// A step was started, the process died, and nobody can know whether it took effect. Look at the world, then say what is so.
    #[command(
        after_help = "Examples:\n  ostler resolve @last notify --redo\n  ostler resolve @last notify --done result.json"
    )]
    Resolve(steer::ResolveArgs),
    /// Make an agent with a name of its own, or find it
    ///
    /// It runs plans one after the other, with `ostler run --agent NAME`. What it says of itself never changes.
    #[command(
        after_help = "Examples:\n  ostler spawn auditor\n  ostler spawn lawyer --client acme --domain legal --oversight supervised --can review"
    )]
    Spawn(agents::SpawnArgs),
    /// Put an agent that is quarantined back into service
    ///
    /// An agent whose actor fails too often is taken out of service, and its runs are set aside; `ostler ps --agents` says why. A
    /// released agent takes runs again. Those that were set aside go on with `ostler resume RUN`.
    #[command(after_help = "Example:\n  ostler release auditor")]
    Release(agents::ReleaseArgs),
    /// Declare pipelines, look at them, and steer their stages
    ///
    /// A pipeline is a list of stages that publish events and subscribe to those of stages before them. Its events are kept in order,
    /// and each stage has a place in them that survives whatever happens: nothing is skipped untold, and nothing comes out of turn.
    /// The code of a stage is part of a program that uses the library, or reads and acknowledges over the API.
    #[command(
        after_help = "Examples:\n  ostler pipeline create examples/pipelines/web_testing.yaml\n  ostler pipeline ps\n  ostler pipeline events web_testing --follow\n  ostler pipeline catch-up web_testing synthesis --from 1"
    )]
    Pipeline(pipelines::PipelineArgs),
    /// Show how well a run was done, or say so yourself
    ///
    /// Six scores from 0 to 1, and one for all of them, by the weights of what the work is about. --quality and --adherence are your
    /// verdict on a run that is over: it counts as one more score of its agent.
    #[command(
        after_help = "Examples:\n  ostler evaluate @last\n  ostler evaluate @last --quality 0.9 --note 'complete, and easy to read'"
    )]
    Evaluate(evaluate::EvaluateArgs),
    /// List how well agents do: reputation, scores, runs without help
    ///
    /// As far as their runs are kept. Those without a name of their own are told together, for each client.
    #[command(
        after_help = "Examples:\n  ostler agents\n  ostler agents --like jurist\n  ostler agents --json"
    )]
    Agents(evaluate::AgentsArgs),
    /// Post jobs that agents compete for
    #[command(
        after_help = "Examples:\n  ostler market offer jurist --can contracts --price 400\n  ostler market post job.yaml\n  ostler market ls"
    )]
    Market(market::MarketArgs),
    /// Live through cases in virtual time
    #[command(
        after_help = "Examples:\n  ostler simulate graph cases.jsonl\n  ostler simulate queue trace.jsonl --check"
    )]
    Simulate(simulate::SimulateArgs),
    /// Verify the data folder, and say what is missing
    ///
    /// Looks at the configuration, the disk, every record and every result. Changes no record, unless told to repair. Each line says
    /// what was looked at and what was found; where something is to be done, the line below says what. Exits with 4 if anything is
    /// broken.
    ///
    /// With --repair, runs that lost something are set aside, and nothing else: `ostler ps` lists them, and they never go on.
    #[command(
        after_help = "Examples:\n  ostler doctor\n  ostler doctor --repair\n  ostler doctor --data /var/lib/ostler"
    )]
    Doctor(doctor::DoctorArgs),
    /// Tell what is no longer to be kept, or remove it
    ///
    /// Runs that are over go once they are as old as `keep` in [retention] of the configuration says, or --older-than; with them
    /// their results. What clients were charged for them stays. Runs that are open or set aside stay. Of pipelines, events over the
    /// quota go.
    #[command(
        after_help = "Examples:\n  ostler gc\n  ostler gc --apply\n  ostler gc --older-than 7d --apply"
    )]
    Gc(gc::GcArgs),
    /// Print a script that completes commands and options in a shell
    ///
    /// In bash it completes names too, as they are in the data folder: of runs, nodes, agents, clients, pipelines and stages.
    ///
    /// For bash, a line for ~/.bashrc: source <(ostler completions bash). For zsh, put the script into a folder of $fpath, as _ostler.
    /// For fish, into ~/.config/fish/completions, as ostler.fish.
    #[command(
        after_help = "Examples:\n  ostler completions bash > ostler.bash\n  ostler completions fish > ~/.config/fish/completions/ostler.fish"
    )]
    Completions(completions::CompletionsArgs),
    /// Print what a shell offers for the last of these words
    ///
    /// Exits with 1 if that names nothing of a data folder, and no topic of the help.
    #[command(hide = true, after_help = "Example:\n  ostler complete -- show @")]
    Complete(complete::CompleteArgs),
    /// Print the manual page, or write one for every command
    ///
    /// The pages are made from the same words as this help. Put them where `man` looks: in the folder man1 of a folder of $MANPATH.
    #[command(after_help = "Examples:\n  ostler man | man -l -\n  ostler man --out ~/.local/share/man/man1")]
    Man(man::ManArgs),
    /// Explain a command, a code such as V04, or exit-codes, environment, runs
    #[command(after_help = "Examples:\n  ostler help run\n  ostler help V04\n  ostler help exit-codes")]
    Help(help::HelpArgs),
}

/// Everything the command line takes.
fn command() -> clap::Command {
    let command = text_only_without_json(Cli::command());
    let template = help::template(&command);
    command.help_template(template).after_long_help(help::after_all())
}

/// Commands that print text only.
const TEXT_ONLY: [&str; 3] = ["completions", "man", "help"];

/// Offers no `--json` where it is refused.
fn text_only_without_json(command: clap::Command) -> clap::Command {
    let Some(json) = command.get_arguments().find(|argument| argument.get_id() == "json").cloned() else {
        return command;
    };
    TEXT_ONLY
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |it| it.arg(json.clone().hide(true))))
}

/// What is looked for below `client`, and where it stands.
const CLIENTS_TOLD: [&str; 4] = ["ls", "list", "ps", "show"];
const CLIENTS_TOLD_BY: &str = "`ostler ps --clients` lists clients, `ostler credit CLIENT` tells of one";

/// Adds the command that was meant by one that is not there. Clap itself takes neighbours that changed places for
/// two wrong letters, which is too many in a short word.
fn with_meant(mut error: clap::Error) -> clap::Error {
    let name = match (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    {
        (Some(ContextValue::String(name)), None) => name.clone(),
        _ => return error,
    };
    let root = command();
    // Among its siblings.
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let at = words.iter().position(|word| *word == name).unwrap_or(0);
    let mut before = words[..at].iter().skip(1).filter_map(|word| root.find_subcommand(word));
    let among = before.find(|before| before.has_subcommands()).unwrap_or(&root);
    let known = among.get_subcommands().filter(|known| !known.is_hide_set());
    let meant = nearest(&name, known.map(clap::Command::get_name), &mut LETTERS_COMPARED_MAX.clone());
    if among.get_name() == "client" && CLIENTS_TOLD.contains(&name.as_str()) {
        let told = ContextValue::StyledStrs(vec![StyledStr::from(CLIENTS_TOLD_BY)]);
        error.insert(ContextKind::Suggested, told);
    } else if let Some(meant) = meant {
        let meant = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
    error
}

/// How to show a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Dot,
    Mermaid,
}

/// The same, without the variables of the environment that are set to nothing: that is as if they were not set.
fn without_empty_variables(mut command: clap::Command) -> clap::Command {
    let empty = |argument: &&clap::Arg| {
        argument.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    let empty: Vec<clap::Id> =
        command.get_arguments().filter(empty).map(|argument| argument.get_id().clone()).collect();
    for id in empty {
        command = command.mut_arg(id, |argument| argument.env(Resettable::Reset));
    }
    command
}

/// Words of `OSTLER_LOG`.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What is logged: errors, unless `OSTLER_LOG` says otherwise. A word that is no level would be taken for the name of a
/// part that there is not, of which nothing is ever logged.
fn logged() -> EnvFilter {
    let wanted = std::env::var("OSTLER_LOG").unwrap_or_default();
    let wanted = wanted.trim();
    let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(wanted));
    let filter = Some(wanted).filter(|wanted| is_level || wanted.contains('=')).map(EnvFilter::try_new);
    if let Some(Ok(filter)) = filter {
        return filter;
    }
    if !wanted.is_empty() {
        say(format!("note: OSTLER_LOG is {wanted:?}, and none of {}: errors are logged", LEVELS.join(", ")));
    }
    EnvFilter::new("error")
}

/// Prints help or the version, if that was asked for, or what is wrong with the command line. Gives the exit code.
fn not_dispatched(error: &clap::Error) -> u8 {
    let printed = error.print();
    if error.use_stderr() {
        return exit::code::INVALID;
    }
    term::wrote(printed);
    exit::code::SUCCEEDED
}

/// How long a process that is through waits for its threads.
const LEAVING: Duration = Duration::from_secs(2);

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(format!("error: no threads to run in: {error}"));
            return exit::code::INTERNAL.into();
        }
    };
    {
        let _within = runtime.enter();
        signals::outlive_long_files();
    }
    let parsed = without_empty_variables(command())
        .try_get_matches()
        .inspect(advice::keep)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let ended = match parsed {
        Ok(cli) => {
            tracing_subscriber::fmt().with_env_filter(logged()).with_writer(|| Aside).init();
            allow_more_files();
            runtime.block_on(dispatch(cli))
        }
        Err(error) => Ok(not_dispatched(&with_meant(error))),
    };
    // What is dropped last closes the journal; what still blocks in a thread of its own has been given up.
    runtime.shutdown_timeout(LEAVING);
    let ended = match (ended, term::lost()) {
        (Ok(_), Some(error)) => Err(Failure::internal(format!(
            "standard output could not be written ({error}), and what was told is lost; what was to be changed is changed: look \
             before you ask again"
        ))),
        (ended, _) => ended,
    };
    match ended {
        Ok(code) => code.into(),
        Err(Failure { code, what }) => {
            if !what.is_empty() {
                say(format!("error: {}", cells::harmless_lines(&what)));
            }
            code.into()
        }
    }
}

/// Open files that the process asks to be allowed. No more, even where more are: programs that steps start inherit it, and some close
/// whatever they might have open, one by one.
const OPEN_FILES: u64 = 65_536;

/// Lets the process have more open files than shells allow, if it may. Where it may not, it does with what it has.
fn allow_more_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
    {
        tracing::debug!(%error, "the limit on open files stays");
    }
}

async fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    match command {
        Command::Run(args) => run::run(&globals, args).await,
        Command::Check(args) => check::check(&globals, args),
        Command::Resume(args) => steer::resume(&globals, args).await,
        Command::Ps(args) => ps::ps(&globals, args).await,
        Command::Show(args) => show::show(&globals, args).await,
        Command::Events(args) => look::events(&globals, args).await,
        Command::Artifact(args) => look::artifact(&globals, args).await,
        Command::Approvals => approve::approvals(&globals).await,
        Command::Approve(args) => approve::answer(&globals, args, Decision::Approve).await,
        Command::Reject(args) => approve::answer(&globals, args, Decision::Reject).await,
        Command::Client(args) => clients::client(&globals, args).await,
        Command::Credit(args) => clients::credit(&globals, args).await,
        Command::Top(args) => top::top(&globals, args).await,
        Command::Skip(args) => steer::skip(&globals, args).await,
        Command::Cancel(args) => steer::cancel(&globals, args).await,
        Command::Resolve(args) => steer::resolve(&globals, args).await,
        Command::Checkpoint(args) => steer::checkpoint(&globals, args).await,
        Command::Interject(args) => steer::interject(&globals, args).await,
        Command::Spawn(args) => agents::spawn(&globals, args).await,
        Command::Release(args) => agents::release(&globals, args).await,
        Command::Pipeline(args) => pipelines::pipeline(&globals, args).await,
        Command::Evaluate(args) => evaluate::evaluate(&globals, args).await,
        Command::Agents(args) => evaluate::agents(&globals, args).await,
        Command::Market(args) => market::market(&globals, args).await,
        Command::Simulate(args) => simulate::simulate(&globals, args),
        Command::Doctor(args) => doctor::doctor(&globals, args).await,
        Command::Gc(args) => gc::gc(&globals, args),
        Command::Complete(args) => complete::complete(&globals, args).await,
        Command::Completions(args) => completions::completions(&globals, &args),
        Command::Man(args) => man::man(&globals, &args),
        Command::Help(args) => help::help(&globals, &args),
    }
}
