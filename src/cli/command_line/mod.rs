//! The declaration of all commands, their help texts, and the dispatch to them.

mod only_reads;
pub(crate) mod typo;

use std::ffi::OsStr;
use std::io::{IsTerminal, stdout};

use clap::builder::Resettable;
use clap::error::ContextKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::cli::arguments::Globals;
use crate::cli::commands::{
    agents, answer, approvals, approve, artifact, ask, audit, cancel, chat, check, checkpoint, client,
    complete, completions, credit, diff, doctor, edit, evaluate, events, experiment, explain, export, fork,
    gc, help, interject, lineage, lockdown, logs, man, market, mcp, models, operator, pipeline, plans,
    policy, ps, release, rerun, resolve, resume, retract, run, show, simulate, skip, spawn, top, undo,
};
use crate::cli::exit::Failure;
use crate::cli::output::screen::size_of_stdout;

/// Run plans: graphs of work that are gated, journaled, and survive a kill
///
/// A plan is a file that names nodes and their dependencies. Ostler runs a node when its dependencies are
/// complete, checks every tool call at a gate, and appends each result to a journal before reporting it.
/// After a crash, the run resumes where it stopped.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    bin_name = "ostler",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan to completion
    ///
    /// Validates the plan, opens a run, shows its progress, and exits when no work is left. Every step is
    /// appended to the journal: if this command stops, `ostler resume` continues the run.
    #[command(
        after_help = "Examples:\n  ostler run plan.yaml\n  ostler run examples/plans/audit.yaml --workspace ../project\n  ostler run plan.yaml --param version=1.2.0 --intent 2\n  ostler run plan.yaml --metrics 9464\n  generate | ostler run -"
    )]
    Run(run::RunArgs),
    /// Validate a plan: report every fault, or its statistics
    ///
    /// Runs nothing. Each fault is reported with its place in the file and a fix; a plan without faults is
    /// described by statistics. Exits with 2 if there is a fault. Advice does not change the exit code.
    #[command(
        after_help = "Examples:\n  ostler check plan.yaml\n  ostler check plan.yaml --param version=1.2.0"
    )]
    Check(check::CheckArgs),
    /// Reach a goal: models write the plan, judge results, and answer
    ///
    /// The goal becomes a run. A model writes its steps; the first ones are shown and start after your yes.
    /// Each is a call of a tool that passes the gate, within --intent and the scope. Models judge results and ask for more steps, as the
    /// mode says, and the answer names the results on which it rests. If this command stops, `ostler
    /// resume` continues the run without asking a model twice for an answer that is recorded.
    #[command(
        after_help = "Examples:\n  ostler ask 'which files under docs mention the journal?'\n  ostler ask 'summarise README.md' --mode react --yes\n  ostler ask 'check the links in docs' --plan-only\n  ostler ask 'count the words' --model scripted:examples/models/demo.yaml --yes"
    )]
    Ask(ask::AskArgs),
    /// Talk with a model that plans and uses tools: each line is a turn
    ///
    /// Each turn is a run, like one of `ostler ask`, which may use the answers and results of the turns before. Lines come from the
    /// terminal, or from a pipe, one turn a line. ^C cancels the turn in progress; /quit and the end of the input end the chat. The
    /// line below an answer names its run: --on RUN continues from there another time.
    #[command(
        after_help = "Examples:\n  ostler chat\n  ostler chat --mode react --yes\n  ostler chat --on @last\n  printf 'which files are here?\\nand the largest?\\n' | ostler chat --yes"
    )]
    Chat(chat::ChatArgs),
    /// List the configured models
    ///
    /// The list says for each model whether its key is set, its price per million tokens and its roles. With
    /// `probe`, four tiny calls to one of them tell what works: text, a stream, a schema, a tool.
    ///
    /// A model is a table [models.NAME] of ostler.toml. The name `default` serves all roles that [roles] gives no other.
    #[command(
        after_help = "Keys of [models.NAME]:\n  provider           openai, anthropic, scripted or cassette\n  model, base_url    the provider's name of the model; another address\n  api_key_env        environment variable with the key\n  max_output_tokens, context_tokens, timeout, idle_timeout, price, fallback,\n  requests_per_minute, tokens_per_minute, profile\n  file, mode         a script or a cassette\n\nAn ostler.toml:\n  [models.default]\n  provider = \"openai\"\n  model = \"gpt-4o-mini\"\n  api_key_env = \"OPENAI_API_KEY\"\n\nExamples:\n  ostler models\n  ostler models probe default"
    )]
    Models(models::ModelsArgs),
    /// MCP servers: list them and their tools, try one, accept changes
    ///
    /// A server of the Model Context Protocol in [mcp.NAME] of the configuration offers tools, which plans and models call as
    /// mcp.NAME.TOOL. The definitions of its tools are accepted once; a tool that changes afterwards, or is added, is held until
    /// `accept` has shown the difference and you agree.
    #[command(
        after_help = "Examples:\n  ostler mcp ls\n  ostler mcp tools git\n  ostler mcp probe git\n  ostler mcp accept git"
    )]
    Mcp(mcp::McpArgs),
    /// Learn plans from runs, and list them
    ///
    /// A run that succeeded becomes a plan file with parameters: explore once, then run a fixed plan, without a model that plans. The
    /// templates are in the folder `plans` of the data folder, where planners of `ostler ask` are shown the best three for a goal.
    #[command(
        after_help = "Examples:\n  ostler plans learn @last --name count-notes\n  ostler plans ls\n  ostler plans show count-notes"
    )]
    Plans(plans::PlansArgs),
    /// Resume a run, or all open runs
    ///
    /// Completed nodes are not repeated. An interrupted attempt is repeated if that is harmless, or sent
    /// again under the same idempotency key; otherwise the attempt is in doubt, and `ostler resolve`
    /// settles it.
    #[command(
        after_help = "Examples:\n  ostler resume\n  ostler resume @last\n  ostler resume --metrics 9464"
    )]
    Resume(resume::ResumeArgs),
    /// Suspend a run, to be resumed later
    ///
    /// No further node starts. Attempts in progress run to their end; then the run is suspended, holds no
    /// resources, and its agent is free for the next run.
    #[command(after_help = "Example:\n  ostler checkpoint @last")]
    Checkpoint(checkpoint::CheckpointArgs),
    /// Hold a run until a person approves that it continues
    ///
    /// No further node starts; attempts in progress run to their end. `ostler approve` continues the run;
    /// `ostler reject` and an expired deadline cancel it. In a goal run, a model considers the text instead,
    /// as a wish of yours: it goes on, concludes, or asks for other work. With --answer you decide in its
    /// place, with --hold a person is asked there too.
    #[command(
        after_help = "Examples:\n  ostler interject @last 'the customer has called: go on?'\n  ostler interject @last 'wait for the audit' --within 2d\n  ostler interject @last 'the log says enough' --answer conclude"
    )]
    Interject(interject::InterjectArgs),
    /// List runs, newest first; or agents, clients, the supervision tree
    #[command(
        after_help = "Examples:\n  ostler ps\n  ostler ps -n 5\n  ostler ps --all --json\n  ostler ps --clients\n  ostler ps --tree"
    )]
    Ps(ps::PsArgs),
    /// Show the state of a run, now or at an earlier record
    ///
    /// The formats json, dot and mermaid are for programs: json is the summary that ends the output of `run
    /// --json`, dot and mermaid draw the graph.
    #[command(
        after_help = "Examples:\n  ostler show @last\n  ostler show @last --at 12\n  ostler show @last --format mermaid > graph.mmd"
    )]
    Show(show::ShowArgs),
    /// Print the records of a run
    ///
    /// Prints all records in order. They are numbered from 1; `ostler show RUN --at NUMBER` shows the run
    /// at one of them.
    #[command(after_help = "Examples:\n  ostler events @last\n  ostler events @last --follow --json")]
    Events(events::EventsArgs),
    /// Export a run for other programs
    ///
    /// `--format prov-json` and `--format openlineage` print who did what, and what each result was made from: names,
    /// digests, sizes and times, no contents. A run that has ended gives the same bytes each time.
    ///
    /// A cassette holds the run's calls of models, each with its answer: `--model cassette:FILE` answers the same questions again,
    /// without network or key. What the records do not hold is left out and named on standard error. Prompts and
    /// answers are exported as they are; keys and cookies are in no record.
    #[command(
        after_help = "Examples:\n  ostler export @last --format prov-json > run.prov.json\n  ostler export @last --format openlineage\n  ostler export @last --cassette tape.jsonl"
    )]
    Export(export::ExportArgs),
    /// Print what the programs of a run printed
    ///
    /// Standard output and standard error of every attempt, of failed ones too, in the order of their lines.
    /// Of each attempt the first 1 MiB and the last 256 KiB are kept, at most 64 MiB for a run. With a node,
    /// only its lines are printed, as the program wrote them.
    #[command(
        after_help = "Examples:\n  ostler logs @last\n  ostler logs @last build --attempt 2\n  ostler logs @last build --follow"
    )]
    Logs(logs::LogsArgs),
    /// Run the plan of a run again
    ///
    /// The new run has the plan, the client and the terms of the old one. Recorded results stand in for
    /// executions; --from executes a node and everything below it.
    #[command(after_help = "Examples:\n  ostler rerun @last\n  ostler rerun @last --from memo")]
    Rerun(rerun::RerunArgs),
    /// Put an artifact of your own in the place of a node's result
    ///
    /// Opens a run of the same plan in which the node ends with your artifact. What depends on it is
    /// executed; every other node keeps its result. Edits stay in further reruns. --dry-run prints what
    /// would be executed, and changes nothing.
    #[command(
        after_help = "Examples:\n  ostler edit @last criteria --file criteria.json\n  ostler edit @last criteria --file criteria.txt --text --dry-run"
    )]
    Edit(edit::EditArgs),
    /// Continue a run from one of its earlier records, in a new run
    ///
    /// The new run has the plan as it was then. What was executed by then keeps its result and is not executed
    /// again; attempts that were changing the world are in doubt, and wait for `ostler resolve`; everything
    /// later is executed anew. --set gives other parameters to nodes that had not started.
    #[command(
        after_help = "Examples:\n  ostler fork @last --at 12\n  ostler fork @last --at 12 --set memo.prompt='Be brief.'"
    )]
    Fork(fork::ForkArgs),
    /// Explain why nodes were reused, executed again, or did not run
    ///
    /// For each node: its state, and the first difference to the last time, the record that stood in, or the
    /// reason for which it did not run. Changes that explain others are listed once as root causes. --against
    /// compares what the nodes worked with in another run.
    #[command(
        after_help = "Examples:\n  ostler explain @last\n  ostler explain @last memo\n  ostler explain @last --against 0198f3c2"
    )]
    Explain(explain::ExplainArgs),
    /// Show the nodes behind a result, or the nodes that used a result
    ///
    /// A tree of nodes with their results, and the run in which each result was made. --down also looks
    /// through other runs that reused the result.
    #[command(
        after_help = "Examples:\n  ostler lineage @last memo --up\n  ostler lineage @last criteria --down"
    )]
    Lineage(lineage::LineageArgs),
    /// Withdraw results, and void what rests on them
    ///
    /// A withdrawn result never stands in for an execution again. All nodes that rest on it are found, in all
    /// runs, with the effects that they made. In open runs, nodes with an approval that rests on it are
    /// cancelled, and grants that approved such nodes are revoked. Nothing is executed: the printed
    /// commands compute the results anew. Models and tools are withdrawn for all clients, until
    /// the retraction is lifted.
    #[command(
        after_help = "Examples:\n  ostler retract @last criteria --dry-run\n  ostler retract --tool mcp.crm.find --version 3\n  ostler retract --model default\n  ostler retract --lift w1"
    )]
    Retract(retract::RetractArgs),
    /// Compare two runs: states, work and results of their nodes
    #[command(after_help = "Example:\n  ostler diff 0198f3c2 @last")]
    Diff(diff::DiffArgs),
    /// Print the result of a node
    ///
    /// Outputs that the contract or a person refused, and late ones, are kept as candidates. Nothing uses them;
    /// --candidates lists them.
    #[command(
        after_help = "Examples:\n  ostler artifact @last/report\n  ostler artifact @last/report --path text > report.md\n  ostler artifact @last/report --candidates"
    )]
    Artifact(artifact::ArtifactArgs),
    /// List the approvals that wait for a person, in all runs
    ///
    /// Each approval is listed with its content, its deadline, and the commands that answer it.
    /// With --grants: the grants in force, which `ostler approve --also` makes.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  ostler approvals\n  ostler approvals --grants\n  ostler approvals revoke g1"
    )]
    Approvals(approvals::ApprovalsArgs),
    /// Approve a node, and continue the run
    ///
    /// The approval holds for exactly the content shown: if the content changes, the node asks again. At a
    /// terminal, this command shows the content and prompts; elsewhere, --digest names the content, as
    /// `ostler approvals` lists it.
    #[command(
        after_help = "Examples:\n  ostler approve @last publish\n  ostler approve @last publish --note 'looks good' --digest b3:0123456789abcdef0123456789abcdef"
    )]
    Approve(approve::ApproveArgs),
    /// Reject a node, and continue the run
    ///
    /// Rejecting an action cancels the node. A rejected result may be produced again, if the plan allows
    /// patches.
    #[command(after_help = "Example:\n  ostler reject @last publish --note 'too early'")]
    Reject(approve::AnswerArgs),
    /// Add a client that pays for runs, change its terms, or remove them
    #[command(after_help = "Examples:\n  ostler client add acme --credit 5000\n  ostler client remove acme")]
    Client(client::ClientArgs),
    /// Deposit or withdraw credits of a client, or show its balance
    ///
    /// A credit is a millisecond of a slot. The first deposit makes a client metered: when its credits are
    /// used up, none of its attempts start until credits are deposited. `ostler client remove` ends that.
    #[command(
        after_help = "Examples:\n  ostler credit acme +1000\n  ostler credit acme -200\n  ostler credit acme"
    )]
    Credit(credit::CreditArgs),
    /// Show the run queue: shares and charges of each client
    ///
    /// On a terminal, a table of clients that is redrawn every second until q or Esc. s sorts by the next
    /// column; the arrow keys, PgUp and PgDn scroll. Elsewhere, the table is printed once. Shares are
    /// relative to the client's tier: SHARE is its weight among the clients that have work; GOT, GOT/MIN
    /// and GOT/ALL are its part of the charges since the last poll, in the last minute, and since the
    /// scheduler started. LAG is the credits by which the client is behind its share. A parked client has
    /// used up its credits.
    #[command(after_help = "Examples:\n  ostler top\n  ostler top | head\n  ostler top --json -n 10")]
    Top(top::TopArgs),
    /// Cancel a run, or one of its nodes
    ///
    /// Attempts that change the world run to their end; all others are stopped at once. A cancelled run
    /// cannot be resumed.
    #[command(after_help = "Examples:\n  ostler cancel @last\n  ostler cancel @last notify")]
    Cancel(cancel::CancelArgs),
    /// Skip a node of a run
    ///
    /// The node counts as not needed. Nodes that depend on its success are cancelled.
    #[command(after_help = "Example:\n  ostler skip @last notify")]
    Skip(skip::SkipArgs),
    /// Answer a node that waits for a value from outside
    ///
    /// The value becomes the result of a node of kind wait, if it passes the contract of the node. An answer
    /// that comes before the node waits is kept until then. A refused answer never harms the run.
    #[command(
        after_help = "Example:\n  ostler answer @last payment --value '{\"status\": \"paid\"}' --id event-17"
    )]
    Answer(answer::AnswerArgs),
    /// Resolve an attempt that is in doubt, and continue the run
    ///
    /// The process died while the attempt ran, so its effect is unknown. Check the world, then report the
    /// outcome.
    #[command(
        after_help = "Examples:\n  ostler resolve @last notify --redo\n  ostler resolve @last notify --done result.json"
    )]
    Resolve(resolve::ResolveArgs),
    /// Undo what a closed run did to the world
    ///
    /// Runs the `undo` of each executed node that has one, the newest effect first. The outcome of the run
    /// stays; `ostler show` says what is undone and what is not. Asked again, it tries what failed.
    #[command(after_help = "Example:\n  ostler undo @last")]
    Undo(undo::UndoArgs),
    /// Create an agent with a name, or find an existing one
    ///
    /// The agent runs plans one after another, with `ostler run --agent NAME`. Its profile never changes.
    #[command(
        after_help = "Examples:\n  ostler spawn auditor\n  ostler spawn lawyer --client acme --domain legal --oversight supervised --can review"
    )]
    Spawn(spawn::SpawnArgs),
    /// Show the verdicts of the gate, or verify their integrity
    ///
    /// One line for each call of a tool: allowed, denied, or held for a person. The verdicts of a run are a
    /// chain of hashes; --verify checks every chain, and exits with 4 if one is broken.
    #[command(
        after_help = "Examples:\n  ostler audit @last\n  ostler audit --follow\n  ostler audit --verify"
    )]
    Audit(audit::AuditArgs),
    /// Stop all new calls of tools, or permit them again
    ///
    /// A lockdown holds until `ostler lockdown off`, also after a restart. Calls that run already end as usual; nodes
    /// whose call is stopped fail, and `ostler rerun RUN` repeats what failed. `ostler checkpoint` only suspends a run.
    #[command(after_help = "Examples:\n  ostler lockdown on\n  ostler lockdown off")]
    Lockdown(lockdown::LockdownArgs),
    /// Check, explain and test the policy of the gate
    #[command(
        after_help = "Examples:\n  ostler policy check\n  ostler policy explain fs.read '{\"path\": \"README.md\"}'"
    )]
    Policy(policy::PolicyArgs),
    /// Release a quarantined agent
    ///
    /// An agent is quarantined after too many failures of its actor, and its runs are suspended; `ostler ps
    /// --agents` shows the reason. A released agent accepts runs again. `ostler resume RUN` continues a
    /// suspended run.
    #[command(after_help = "Example:\n  ostler release auditor")]
    Release(release::ReleaseArgs),
    /// Declare and inspect pipelines, and control their stages
    ///
    /// A pipeline is a list of stages that publish events and subscribe to those of earlier stages. Events
    /// are kept in order, and each stage has a durable cursor: it receives every event once in order, or is
    /// told of a gap. The code of a stage is part of a program that uses the library, or consumes and
    /// acknowledges events over the API.
    #[command(
        after_help = "Examples:\n  ostler pipeline create examples/pipelines/web_testing.yaml\n  ostler pipeline ps\n  ostler pipeline events web_testing --follow\n  ostler pipeline catch-up web_testing synthesis --from 1"
    )]
    Pipeline(pipeline::PipelineArgs),
    /// Show the evaluation of a run, or add a verdict
    ///
    /// Six scores from 0 to 1, and a composite by the weights of the domain. --quality and --adherence add
    /// your verdict on a closed run: it counts as one more score of its agent.
    #[command(
        after_help = "Examples:\n  ostler evaluate @last\n  ostler evaluate @last --quality 0.9 --note 'complete, and easy to read'"
    )]
    Evaluate(evaluate::EvaluateArgs),
    /// List agents by reputation, scores and autonomy
    ///
    /// Covers the runs that are kept. Unnamed agents are listed together, one row per client.
    #[command(
        after_help = "Examples:\n  ostler agents\n  ostler agents --like jurist\n  ostler agents --json"
    )]
    Agents(agents::AgentsArgs),
    /// Show your operator key, and the keys that the data folder accepts
    ///
    /// Approvals, resolutions, changes of clients, interjections and intents above 1 are an operator's: the
    /// command proves them with the secret key in ~/.config/ostler/ostler-operator.key, which it creates at the
    /// first use. A data folder accepts the key of its maker, and those that an operator adds.
    #[command(after_help = "Examples:\n  ostler operator ls\n  ostler operator key")]
    Operator(operator::OperatorArgs),
    /// Post jobs for which agents compete
    #[command(
        after_help = "Examples:\n  ostler market offer jurist --can contracts --price 400\n  ostler market post job.yaml\n  ostler market ls"
    )]
    Market(market::MarketArgs),
    /// Simulate cases in virtual time
    #[command(
        after_help = "Examples:\n  ostler simulate graph cases.jsonl\n  ostler simulate queue trace.jsonl --check"
    )]
    Simulate(simulate::SimulateArgs),
    /// Repeat an experiment on the engine's own decisions
    #[command(after_help = "Example:\n  ostler experiment modes")]
    Experiment(experiment::ExperimentArgs),
    /// Verify the data folder, and report problems
    ///
    /// Checks the configuration, the disk, every record and every result. Changes no record, except with
    /// --repair. Each line names a check and its result; if action is needed, the next line names it. Exits
    /// with 4 if anything is broken.
    ///
    /// With --repair, runs that lost records or results are quarantined, and nothing else changes: `ostler
    /// ps` lists them, and they never continue.
    #[command(
        after_help = "Examples:\n  ostler doctor\n  ostler doctor --repair\n  ostler doctor --data /var/lib/ostler"
    )]
    Doctor(doctor::DoctorArgs),
    /// List runs past their retention, or remove them
    ///
    /// Closed runs and their results are removed at the age given by `keep` in [retention] of the
    /// configuration, or --older-than. Charges to clients are kept. Open and suspended runs are kept.
    /// Pipeline events over the quota are removed.
    #[command(
        after_help = "Examples:\n  ostler gc\n  ostler gc --apply\n  ostler gc --older-than 7d --apply"
    )]
    Gc(gc::GcArgs),
    /// Print a shell completion script
    ///
    /// In bash, the script also completes names from the data folder: runs, nodes, agents, clients,
    /// pipelines and stages.
    ///
    /// For bash, add this line to ~/.bashrc: source <(ostler completions bash). For zsh, store the script
    /// as _ostler in a folder of $fpath. For fish, store it as ~/.config/fish/completions/ostler.fish.
    #[command(
        after_help = "Examples:\n  ostler completions bash > ostler.bash\n  ostler completions fish > ~/.config/fish/completions/ostler.fish"
    )]
    Completions(completions::CompletionsArgs),
    /// Print the completions of the last of these words
    ///
    /// Exits with 1 if the word names nothing of a data folder and no help topic.
    #[command(hide = true, after_help = "Example:\n  ostler complete -- show @")]
    Complete(complete::CompleteArgs),
    /// Print the manual page, or write one per command
    ///
    /// The pages contain the same text as this help. Store them in the folder man1 of a folder of $MANPATH.
    #[command(after_help = "Examples:\n  ostler man | man -l -\n  ostler man --out ~/.local/share/man/man1")]
    Man(man::ManArgs),
    /// Explain a command, a code such as V04, or a topic such as tools
    #[command(
        after_help = "Examples:\n  ostler help run\n  ostler help V04\n  ostler help tools\n  ostler help states"
    )]
    Help(help::HelpArgs),
}

pub(crate) fn root_command() -> clap::Command {
    let command = hide_json_where_rejected(Cli::command());
    let template = help::template(&command);
    command.term_width(help_width()).help_template(template).after_long_help(help::after_all())
}

/// Width of help texts: that of the terminal, up to a limit. Elsewhere `COLUMNS` would break the lines of a text that
/// programs read.
fn help_width() -> usize {
    let terminal = stdout().is_terminal().then(|| size_of_stdout().0);
    terminal.map_or(HELP_COLUMNS_MAX, |columns| columns.min(HELP_COLUMNS_MAX))
}

const HELP_COLUMNS_MAX: usize = 100;

/// Commands that reject `--json`.
pub(crate) const TEXT_ONLY: [&str; 3] = ["completions", "man", "help"];

/// Hides `--json` in the help of commands that reject it.
fn hide_json_where_rejected(command: clap::Command) -> clap::Command {
    let Some(json) = command.get_arguments().find(|argument| argument.get_id() == "json").cloned() else {
        return command;
    };
    TEXT_ONLY
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |it| it.arg(json.clone().hide(true))))
}

/// Parses the command line.
///
/// # Errors
///
/// Help, the version, or a usage error. Its usage line does not name the options whose values come from the
/// environment, which clap takes for part of the command line.
pub(crate) fn parse() -> Result<clap::ArgMatches, clap::Error> {
    without_empty_variables(root_command()).try_get_matches().map_err(|error| {
        if error.get(ContextKind::Usage).is_none() {
            return error;
        }
        without_variables(root_command(), |_| true).try_get_matches().err().unwrap_or(error)
    })
}

/// Ignores environment variables that are set to the empty string.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    without_variables(command, |value| value.is_empty())
}

fn without_variables(mut command: clap::Command, ignores: impl Fn(&OsStr) -> bool) -> clap::Command {
    let ignored = |argument: &&clap::Arg| {
        argument.get_env().and_then(std::env::var_os).is_some_and(|value| ignores(&value))
    };
    let ignored: Vec<clap::Id> =
        command.get_arguments().filter(ignored).map(|argument| argument.get_id().clone()).collect();
    for id in ignored {
        command = command.mut_arg(id, |argument| argument.env(Resettable::Reset));
    }
    command
}

pub(crate) async fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    match command {
        Command::Run(args) => run::run(&globals, args).await,
        Command::Check(args) => check::check(&globals, args),
        Command::Ask(args) => ask::ask(&globals, args).await,
        Command::Chat(args) => chat::chat(&globals, args).await,
        Command::Models(args) => models::models(&globals, args).await,
        Command::Mcp(args) => mcp::mcp(&globals, args).await,
        Command::Plans(args) => plans::plans(&globals, args).await,
        Command::Resume(args) => resume::resume(&globals, args).await,
        Command::Ps(args) => ps::ps(&globals, args).await,
        Command::Show(args) => show::show(&globals, args).await,
        Command::Rerun(args) => rerun::rerun(&globals, args).await,
        Command::Edit(args) => edit::edit(&globals, args).await,
        Command::Fork(args) => fork::fork(&globals, args).await,
        Command::Lineage(args) => lineage::lineage(&globals, args).await,
        Command::Retract(args) => retract::retract(&globals, args).await,
        Command::Diff(args) => diff::diff(&globals, args).await,
        Command::Explain(args) => explain::explain(&globals, args).await,
        Command::Events(args) => events::events(&globals, args).await,
        Command::Export(args) => export::export(&globals, args).await,
        Command::Logs(args) => logs::logs(&globals, args).await,
        Command::Artifact(args) => artifact::artifact(&globals, args).await,
        Command::Approvals(args) => approvals::approvals(&globals, args).await,
        Command::Approve(args) => approve::approve(&globals, args).await,
        Command::Reject(args) => approve::reject(&globals, args).await,
        Command::Client(args) => client::client(&globals, args).await,
        Command::Credit(args) => credit::credit(&globals, args).await,
        Command::Top(args) => top::top(&globals, args).await,
        Command::Skip(args) => skip::skip(&globals, args).await,
        Command::Cancel(args) => cancel::cancel(&globals, args).await,
        Command::Operator(args) => operator::operator(&globals, args).await,
        Command::Answer(args) => answer::answer(&globals, args).await,
        Command::Undo(args) => undo::undo(&globals, args).await,
        Command::Resolve(args) => resolve::resolve(&globals, args).await,
        Command::Checkpoint(args) => checkpoint::checkpoint(&globals, args).await,
        Command::Interject(args) => interject::interject(&globals, args).await,
        Command::Spawn(args) => spawn::spawn(&globals, args).await,
        Command::Audit(args) => audit::audit(&globals, args).await,
        Command::Lockdown(args) => lockdown::lockdown(&globals, args).await,
        Command::Policy(args) => policy::policy(&globals, args).await,
        Command::Release(args) => release::release(&globals, args).await,
        Command::Pipeline(args) => pipeline::pipeline(&globals, args).await,
        Command::Evaluate(args) => evaluate::evaluate(&globals, args).await,
        Command::Agents(args) => agents::agents(&globals, args).await,
        Command::Market(args) => market::market(&globals, args).await,
        Command::Simulate(args) => simulate::simulate(&globals, args),
        Command::Experiment(args) => experiment::experiment(&globals, args).await,
        Command::Doctor(args) => doctor::doctor(&globals, args).await,
        Command::Gc(args) => gc::gc(&globals, args),
        Command::Complete(args) => complete::complete(&globals, args, root_command()).await,
        Command::Completions(args) => completions::completions(&globals, &args, &root_command()),
        Command::Man(args) => man::man(&globals, &args, root_command()),
        Command::Help(args) => help::help(&globals, &args, root_command()),
    }
}
