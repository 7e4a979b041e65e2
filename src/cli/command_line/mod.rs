//! The declaration of all commands, their help texts, and the dispatch to them.

pub(crate) mod typo;

use clap::builder::Resettable;
use clap::{CommandFactory, Parser, Subcommand};
use ostler_server::wire::Decision;

use crate::cli::arguments::Globals;
use crate::cli::commands::{
    agents, approvals, approve, artifact, cancel, check, checkpoint, client, complete, completions, credit,
    doctor, evaluate, events, gc, help, interject, man, market, pipeline, ps, release, resolve, resume, run,
    show, simulate, skip, spawn, top,
};
use crate::cli::exit::Failure;

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
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
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
    Resume(resume::ResumeArgs),
    /// Let a run come to rest, to go on with it later
    ///
    /// Nothing more of it starts. What is under way goes on to its end; then the run is set aside, holds nothing, and its agent is
    /// free for the next one.
    #[command(after_help = "Example:\n  ostler checkpoint @last")]
    Checkpoint(checkpoint::CheckpointArgs),
    /// Hold a run, and ask a person whether it may go on
    ///
    /// Nothing more of it starts; what is under way goes on to its end. A yes (`ostler approve`) lets the run go on, a no (`ostler
    /// reject`) cancels it, and so does silence.
    #[command(
        after_help = "Examples:\n  ostler interject @last 'the customer has called: go on?'\n  ostler interject @last 'wait for the audit' --within 2d"
    )]
    Interject(interject::InterjectArgs),
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
    Events(events::EventsArgs),
    /// Print the result of a node
    #[command(
        after_help = "Examples:\n  ostler artifact @last/report\n  ostler artifact @last/report --path text > report.md"
    )]
    Artifact(artifact::ArtifactArgs),
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
    Client(client::ClientArgs),
    /// Deposit credits for a client, take some back, or show what is left
    ///
    /// A credit is a millisecond of a slot. The first deposit makes a client metered, for good: when its credits are used up,
    /// nothing more of it starts until there are more.
    #[command(
        after_help = "Examples:\n  ostler credit acme +1000\n  ostler credit acme -200\n  ostler credit acme"
    )]
    Credit(credit::CreditArgs),
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
    Cancel(cancel::CancelArgs),
    /// Do without a node of a run
    ///
    /// It counts as not needed. What depends on its success is lost with it, as if it had been cancelled.
    #[command(after_help = "Example:\n  ostler skip @last notify")]
    Skip(skip::SkipArgs),
    /// Settle an attempt whose result was lost, and go on
    ///
    /// A step was started, the process died, and nobody can know whether it took effect. Look at the world, then say what is so.
    #[command(
        after_help = "Examples:\n  ostler resolve @last notify --redo\n  ostler resolve @last notify --done result.json"
    )]
    Resolve(resolve::ResolveArgs),
    /// Make an agent with a name of its own, or find it
    ///
    /// It runs plans one after the other, with `ostler run --agent NAME`. What it says of itself never changes.
    #[command(
        after_help = "Examples:\n  ostler spawn auditor\n  ostler spawn lawyer --client acme --domain legal --oversight supervised --can review"
    )]
    Spawn(spawn::SpawnArgs),
    /// Put an agent that is quarantined back into service
    ///
    /// An agent whose actor fails too often is taken out of service, and its runs are set aside; `ostler ps --agents` says why. A
    /// released agent takes runs again. Those that were set aside go on with `ostler resume RUN`.
    #[command(after_help = "Example:\n  ostler release auditor")]
    Release(release::ReleaseArgs),
    /// Declare pipelines, look at them, and steer their stages
    ///
    /// A pipeline is a list of stages that publish events and subscribe to those of stages before them. Its events are kept in order,
    /// and each stage has a place in them that survives whatever happens: nothing is skipped untold, and nothing comes out of turn.
    /// The code of a stage is part of a program that uses the library, or reads and acknowledges over the API.
    #[command(
        after_help = "Examples:\n  ostler pipeline create examples/pipelines/web_testing.yaml\n  ostler pipeline ps\n  ostler pipeline events web_testing --follow\n  ostler pipeline catch-up web_testing synthesis --from 1"
    )]
    Pipeline(pipeline::PipelineArgs),
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
    Agents(agents::AgentsArgs),
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
pub(crate) fn command() -> clap::Command {
    let command = text_only_without_json(Cli::command());
    let template = help::template(&command);
    command.help_template(template).after_long_help(help::after_all())
}

/// Commands that print text only.
pub(crate) const TEXT_ONLY: [&str; 3] = ["completions", "man", "help"];

/// Offers no `--json` where it is refused.
fn text_only_without_json(command: clap::Command) -> clap::Command {
    let Some(json) = command.get_arguments().find(|argument| argument.get_id() == "json").cloned() else {
        return command;
    };
    TEXT_ONLY
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |it| it.arg(json.clone().hide(true))))
}

/// The same, without the variables of the environment that are set to nothing: that is as if they were not set.
pub(crate) fn without_empty_variables(mut command: clap::Command) -> clap::Command {
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

pub(crate) async fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    match command {
        Command::Run(args) => run::run(&globals, args).await,
        Command::Check(args) => check::check(&globals, args),
        Command::Resume(args) => resume::resume(&globals, args).await,
        Command::Ps(args) => ps::ps(&globals, args).await,
        Command::Show(args) => show::show(&globals, args).await,
        Command::Events(args) => events::events(&globals, args).await,
        Command::Artifact(args) => artifact::artifact(&globals, args).await,
        Command::Approvals => approvals::approvals(&globals).await,
        Command::Approve(args) => approve::answer(&globals, args, Decision::Approve).await,
        Command::Reject(args) => approve::answer(&globals, args, Decision::Reject).await,
        Command::Client(args) => client::client(&globals, args).await,
        Command::Credit(args) => credit::credit(&globals, args).await,
        Command::Top(args) => top::top(&globals, args).await,
        Command::Skip(args) => skip::skip(&globals, args).await,
        Command::Cancel(args) => cancel::cancel(&globals, args).await,
        Command::Resolve(args) => resolve::resolve(&globals, args).await,
        Command::Checkpoint(args) => checkpoint::checkpoint(&globals, args).await,
        Command::Interject(args) => interject::interject(&globals, args).await,
        Command::Spawn(args) => spawn::spawn(&globals, args).await,
        Command::Release(args) => release::release(&globals, args).await,
        Command::Pipeline(args) => pipeline::pipeline(&globals, args).await,
        Command::Evaluate(args) => evaluate::evaluate(&globals, args).await,
        Command::Agents(args) => agents::agents(&globals, args).await,
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
