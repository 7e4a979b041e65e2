//! `ostler complete`: the candidates for a word that names a run, a node, an agent, a client, a pipeline, a stage or a help topic.
//!
//! The script of `ostler completions bash` calls it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, Args, Command};
use ostler_server::wire::{AgentList, ClientList, PipelineList, PipelineRow, RunList, Summary};

use crate::cli::arguments::Globals;
use crate::cli::commands::help;
use crate::cli::exit::{Failure, code};
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::{Client, path_segment};
use crate::cli::session::{AccessMode, Session};

/// Timeout: the user is waiting for a key press to take effect.
const TIMEOUT: Duration = Duration::from_secs(1);

const RUNS_OFFERED_MAX: usize = 100;

const NAMES_OFFERED_MAX: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// Words of the line after the command's name; the last one is being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Prints one name per line, and nothing on errors. Exit code 1 means that the word is no name of ours, so
/// the shell may complete it by itself.
pub(crate) async fn complete(
    globals: &Globals,
    args: CompleteArgs,
    mut root: Command,
) -> Result<u8, Failure> {
    root.build();
    let Some(asked) = Word::of(&root, &args.words) else { return Ok(code::FAILED) };
    let named = Globals { data: asked.data.clone().or_else(|| globals.data.clone()), ..globals.clone() };
    let names = tokio::time::timeout(TIMEOUT, asked.names(&named)).await;
    let names = names.ok().and_then(Result::ok).unwrap_or_default();
    let begun = names.iter().filter(|name| name.starts_with(asked.word));
    let mut out = Out::new();
    begun.take(NAMES_OFFERED_MAX).for_each(|name| out.line(format!("{}{name}", asked.option)));
    Ok(code::SUCCEEDED)
}

#[derive(Debug, PartialEq, Eq)]
enum NameKind<'a> {
    Run,
    /// A node of this run.
    Node(&'a str),
    /// RUN/NODE.
    Result,
    Agent,
    Client,
    Pipeline,
    /// A stage of this pipeline.
    Stage(&'a str),
    /// A topic of `ostler help`.
    Topic,
}

impl<'a> NameKind<'a> {
    /// Kind of a positional argument, given the names before it.
    fn of(id: &str, names: &[&'a str]) -> Option<NameKind<'a>> {
        Some(match id {
            "run" => NameKind::Run,
            "node" => NameKind::Node(names.first()?),
            "name" => NameKind::Result,
            "asked" => NameKind::Topic,
            "pipeline" => NameKind::Pipeline,
            "stage" => NameKind::Stage(names.first()?),
            "agent" => NameKind::Agent,
            "client" => NameKind::Client,
            _ => return None,
        })
    }

    fn of_option(id: &str) -> Option<NameKind<'a>> {
        match id {
            "agent" | "like" => Some(NameKind::Agent),
            "client" => Some(NameKind::Client),
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Word<'a> {
    command: &'a str,
    what: NameKind<'a>,
    word: &'a str,
    /// The option joined to the word with `=`, or an empty text.
    option: &'a str,
    data: Option<PathBuf>,
}

impl<'a> Word<'a> {
    /// Returns `None` if the word stands for no name.
    fn of(root: &Command, words: &'a [String]) -> Option<Word<'a>> {
        let (word, before) = words.split_last()?;
        let (mut called, mut command, mut names, mut data) = (root, "", Vec::new(), None);
        let mut before = before.iter();
        while let Some(given) = before.next() {
            if let Some((option, value)) = option(called, given) {
                let value = match value {
                    None if option.get_action().takes_values() => match before.next() {
                        Some(value) => Some(value.as_str()),
                        None => {
                            let what = NameKind::of_option(option.get_id().as_str())?;
                            return Some(Word { command, what, word, option: "", data });
                        }
                    },
                    value => value,
                };
                if option.get_id() == "data" {
                    data = value.map(PathBuf::from);
                }
            } else if given.starts_with('-') {
                continue;
            } else if called.has_subcommands() {
                (called, command) = (called.find_subcommand(given)?, given.as_str());
            } else {
                names.push(given.as_str());
            }
        }
        if let Some((option, Some(value))) = option(called, word) {
            let what = NameKind::of_option(option.get_id().as_str())?;
            let option = &word[..word.len() - value.len()];
            return Some(Word { command, what, word: value, option, data });
        }
        if word.starts_with('-') {
            return None;
        }
        let what = NameKind::of(called.get_positionals().nth(names.len())?.get_id().as_str(), &names)?;
        Some(Word { command, what, word, option: "", data })
    }

    async fn names(&self, globals: &Globals) -> Result<Vec<String>, Failure> {
        if self.what == NameKind::Topic {
            return Ok(help::explained().map(str::to_owned).collect());
        }
        let session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
        let names = match (&self.what, self.word.split_once('/')) {
            (NameKind::Node(run), _) => self.nodes(&session, run).await,
            (NameKind::Result, Some((run, _))) => {
                let nodes = self.nodes(&session, run).await;
                nodes.map(|nodes| nodes.into_iter().map(|node| format!("{run}/{node}")).collect())
            }
            (NameKind::Agent, _) => self.agents(&session.client).await,
            (NameKind::Client, _) => clients(&session.client).await,
            (NameKind::Pipeline, _) => pipelines(&session.client).await,
            (NameKind::Stage(pipeline), _) => self.stages(&session.client, pipeline).await,
            (NameKind::Run | NameKind::Result | NameKind::Topic, _) => self.runs(&session.client).await,
        };
        session.stop().await;
        names
    }

    async fn runs(&self, client: &Client) -> Result<Vec<String>, Failure> {
        let open = self.command == "resume";
        let list: RunList = client.get(&format!("/v1/runs?limit={RUNS_OFFERED_MAX}&open={open}")).await?;
        let mut names = vec!["@last".to_owned()];
        names.extend(list.runs.iter().map(|line| short_id(&line.run).to_owned()));
        // Ids opened at similar times begin alike, so whole ids are offered only for a non-empty prefix.
        if !self.word.is_empty() {
            names.extend(list.runs.into_iter().map(|line| line.run));
        }
        Ok(names)
    }

    async fn agents(&self, client: &Client) -> Result<Vec<String>, Failure> {
        let list: AgentList = client.get("/v1/agents").await?;
        let fits = |state: &str| self.command != "release" || state == "quarantined";
        Ok(list
            .agents
            .into_iter()
            .filter(|line| fits(&line.state))
            .map(|line| line.agent.to_string())
            .collect())
    }

    async fn stages(&self, client: &Client, pipeline: &str) -> Result<Vec<String>, Failure> {
        let line: PipelineRow = client.get(&format!("/v1/pipelines/{}", path_segment(pipeline))).await?;
        let fits = |state: &str| match self.command {
            "release" => matches!(state, "stopped" | "down"),
            "end" | "publish" => state != "ended",
            _ => true,
        };
        Ok(line
            .stages
            .into_iter()
            .filter(|stage| fits(&stage.state))
            .map(|stage| stage.stage.to_string())
            .collect())
    }

    async fn nodes(&self, session: &Session, run: &str) -> Result<Vec<String>, Failure> {
        let summary: Summary = session.client.get(&format!("/v1/runs/{}", path_segment(run))).await?;
        Ok(match self.command {
            "approve" | "reject" | "resolve" => {
                let in_doubt = self.command == "resolve";
                let asks = summary.waiting.into_iter().filter(|waiting| waiting.id.is_none() == in_doubt);
                asks.map(|waiting| waiting.node).collect()
            }
            "artifact" => {
                let done = summary.nodes.into_iter().filter(|(_, state)| state == "executed");
                done.map(|(node, _)| node.to_string()).collect()
            }
            _ => summary.nodes.into_keys().map(|node| node.to_string()).collect(),
        })
    }
}

/// Parses an option, and the value joined to it.
fn option<'c, 'w>(called: &'c Command, word: &'w str) -> Option<(&'c Arg, Option<&'w str>)> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let is_it = |known: &&Arg| match (name.strip_prefix("--"), name.strip_prefix('-')) {
        (Some(long), _) => known.get_long() == Some(long),
        (None, Some(short)) => known.get_short().is_some_and(|known| short.chars().eq([known])),
        (None, None) => false,
    };
    Some((called.get_arguments().find(is_it)?, value))
}

async fn clients(client: &Client) -> Result<Vec<String>, Failure> {
    let list: ClientList = client.get("/v1/clients").await?;
    Ok(list.clients.into_iter().map(|line| line.client.to_string()).collect())
}

async fn pipelines(client: &Client) -> Result<Vec<String>, Failure> {
    let list: PipelineList = client.get("/v1/pipelines").await?;
    Ok(list.pipelines.into_iter().map(|line| line.pipeline.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line::root_command;
    use std::collections::BTreeSet;

    use ostler::{Ostler, Submission};
    use serde_json::json;

    #[tokio::test]
    async fn the_newest_runs_are_offered_up_to_the_limit() {
        let os = Ostler::builder().memory().start().await.unwrap();
        let client = Client::InProcess(ostler_server::router(os.system().clone(), os.operators().clone()));
        let nodes = json!([{"id": "n", "tool": "time.sleep", "params": {"ms": 3_600_000}}]);
        let plan = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let plan = os.plan(plan).unwrap();
        let mut opened = Vec::new();
        for _ in 0..=RUNS_OFFERED_MAX {
            opened.push(os.submit(Submission::plan(plan.clone())).await.unwrap().id().to_string());
        }
        opened.sort();
        let asked = Word { command: "show", what: NameKind::Run, word: "0", option: "", data: None };
        let offered = asked.runs(&client).await.map_err(|_| "refused").unwrap();
        let whole: BTreeSet<&String> = offered.iter().filter(|name| opened.contains(name)).collect();
        assert_eq!(whole, opened[1..].iter().collect(), "all but the oldest");
        assert_eq!(offered.len(), 1 + 2 * RUNS_OFFERED_MAX, "@last, and each by its end and as a whole");
        os.shutdown().await;
    }

    #[test]
    fn the_place_of_a_word_tells_what_it_names() {
        for (line, expected) in [
            ("show ", Some(("show", NameKind::Run, "", None))),
            ("show --at 3 @la", Some(("show", NameKind::Run, "@la", None))),
            ("--data d events 01", Some(("events", NameKind::Run, "01", Some("d")))),
            ("approve @last --data=d pu", Some(("approve", NameKind::Node("@last"), "pu", Some("d")))),
            ("artifact @last/re", Some(("artifact", NameKind::Result, "@last/re", None))),
            ("run p.yaml --agent ", Some(("run", NameKind::Agent, "", None))),
            ("run --agent cl", Some(("run", NameKind::Agent, "cl", None))),
            ("run --data d --client a", Some(("run", NameKind::Client, "a", Some("d")))),
            ("agents --like j", Some(("agents", NameKind::Agent, "j", None))),
            ("release a", Some(("release", NameKind::Agent, "a", None))),
            ("spawn ", Some(("spawn", NameKind::Agent, "", None))),
            ("credit ", Some(("credit", NameKind::Client, "", None))),
            ("client remove ac", Some(("remove", NameKind::Client, "ac", None))),
            ("client add ac", Some(("add", NameKind::Client, "ac", None))),
            ("market offer ", Some(("offer", NameKind::Agent, "", None))),
            ("market offer jurist --client ", Some(("offer", NameKind::Client, "", None))),
            ("pipeline ps ", Some(("ps", NameKind::Pipeline, "", None))),
            ("pipeline --json events we", Some(("events", NameKind::Pipeline, "we", None))),
            ("pipeline catch-up web ", Some(("catch-up", NameKind::Stage("web"), "", None))),
            ("pipeline remove we", Some(("remove", NameKind::Pipeline, "we", None))),
            ("pipeline publish web recon ", None),
            ("pipeline create ", None),
            ("pipeline ", None),
            ("market post ", None),
            ("credit acme ", None),
            ("ps -n ", None),
            ("ps -n 5 ", None),
            ("run --param ", None),
            ("run --param agent=c", None),
            ("show --at ", None),
            ("show -", None),
            ("show @last ", None),
            ("run pl", None),
            ("sho", None),
            ("nothing ", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let mut root = root_command();
            root.build();
            let expected = expected.map(|(command, what, word, data)| Word {
                command,
                what,
                word,
                option: "",
                data: data.map(PathBuf::from),
            });
            assert_eq!(Word::of(&root, &words), expected, "{line}");
        }
        let mut root = root_command();
        root.build();
        let words = ["run", "p.yaml", "--agent=cl"].map(str::to_owned);
        let asked =
            Word { command: "run", what: NameKind::Agent, word: "cl", option: "--agent=", data: None };
        assert_eq!(Word::of(&root, &words), Some(asked));
    }
}
