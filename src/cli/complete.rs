//! What a shell offers for a word that names a run, a node, or what `ostler help` explains: asked by the script of `ostler completions bash`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Command};
use ostler_server::wire::{RunList, Summary};

use super::client::{Client, part};
use super::exit::{Failure, code};
use super::session::{Session, Want};
use super::summary::ending;
use super::term::Out;
use super::{Globals, command, help};

/// How long somebody who has pressed a key waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs that are offered, the newest.
const RUNS_OFFERED_MAX: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words of the line after the command's name; the last is being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Prints a name a line. Where nothing can be said, nothing is: somebody is typing.
pub(crate) async fn complete(globals: &Globals, args: CompleteArgs) -> Result<u8, Failure> {
    let root = command();
    if let Some(asked) = Asked::of(&root, &args.words) {
        let named = Globals { data: asked.data.clone().or_else(|| globals.data.clone()), ..globals.clone() };
        let names = tokio::time::timeout(PATIENCE, asked.names(&named)).await;
        let mut out = Out::new();
        let names = names.ok().and_then(Result::ok).unwrap_or_default();
        names.iter().filter(|name| name.starts_with(asked.word)).for_each(|name| out.line(name));
    }
    Ok(code::SUCCEEDED)
}

/// What the word that is being typed names.
#[derive(Debug, PartialEq, Eq)]
enum What<'a> {
    Run,
    /// A node of this run.
    Node(&'a str),
    /// RUN/NODE.
    Result,
    /// What `ostler help` explains.
    Topic,
}

#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    command: &'a str,
    what: What<'a>,
    word: &'a str,
    data: Option<PathBuf>,
}

impl<'a> Asked<'a> {
    /// `None` if the word names none of them.
    fn of(root: &Command, words: &'a [String]) -> Option<Asked<'a>> {
        let (word, before) = words.split_last()?;
        let (mut called, mut names, mut data) = (None::<&Command>, Vec::new(), None);
        let mut before = before.iter();
        while let Some(word) = before.next() {
            if let Some(option) = word.strip_prefix("--") {
                let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
                let known = called.into_iter().chain([root]).flat_map(Command::get_arguments);
                let takes = known
                    .filter(|known| known.get_long() == Some(name))
                    .any(|known| known.get_action().takes_values());
                let value = match value {
                    None if takes => Some(before.next()?.as_str()),
                    value => value,
                };
                if name == "data" {
                    data = value.map(PathBuf::from);
                }
            } else if word.starts_with('-') {
                continue;
            } else if called.is_none() {
                called = Some(root.find_subcommand(word)?);
            } else {
                names.push(word.as_str());
            }
        }
        let called = called.filter(|_| !word.starts_with('-'))?;
        let what = match called.get_positionals().nth(names.len())?.get_id().as_str() {
            "run" => What::Run,
            "node" => What::Node(names.first()?),
            "name" => What::Result,
            "asked" => What::Topic,
            _ => return None,
        };
        let command = words.iter().find(|word| *word == called.get_name())?;
        Some(Asked { command, what, word, data })
    }

    async fn names(&self, globals: &Globals) -> Result<Vec<String>, Failure> {
        if self.what == What::Topic {
            return Ok(help::explained().map(str::to_owned).collect());
        }
        let session = Session::open(globals, Path::new("."), Want::Look).await?;
        let names = match (&self.what, self.word.split_once('/')) {
            (What::Node(run), _) => self.nodes(&session, run).await,
            (What::Result, Some((run, _))) => {
                let nodes = self.nodes(&session, run).await;
                nodes.map(|nodes| nodes.into_iter().map(|node| format!("{run}/{node}")).collect())
            }
            (What::Run | What::Result | What::Topic, _) => self.runs(&session.client).await,
        };
        session.stop().await;
        names
    }

    async fn runs(&self, client: &Client) -> Result<Vec<String>, Failure> {
        let open = self.command == "resume";
        let list: RunList = client.get(&format!("/v1/runs?limit={RUNS_OFFERED_MAX}&open={open}")).await?;
        let mut names = vec!["@last".to_owned()];
        names.extend(list.runs.iter().map(|line| ending(&line.run).to_owned()));
        // All ids of a time begin alike: whole ones are offered to who has begun to type one.
        if !self.word.is_empty() {
            names.extend(list.runs.into_iter().map(|line| line.run));
        }
        Ok(names)
    }

    /// The nodes that the command can do something about.
    async fn nodes(&self, session: &Session, run: &str) -> Result<Vec<String>, Failure> {
        let summary: Summary = session.client.get(&format!("/v1/runs/{}", part(run))).await?;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ostler::{Ostler, Submission};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_newest_runs_are_offered_up_to_the_limit() {
        let os = Ostler::builder().memory().start().await.unwrap();
        let client = Client::Here(ostler_server::router(os.system().clone()));
        let nodes = json!([{"id": "n", "tool": "time.sleep", "params": {"ms": 3_600_000}}]);
        let plan = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let plan = os.plan(plan).unwrap();
        let mut opened = Vec::new();
        for _ in 0..=RUNS_OFFERED_MAX {
            opened.push(os.submit(Submission::plan(plan.clone())).await.unwrap().id().to_string());
        }
        opened.sort();
        let asked = Asked { command: "show", what: What::Run, word: "0", data: None };
        let offered = asked.runs(&client).await.map_err(|_| "refused").unwrap();
        let whole: BTreeSet<&String> = offered.iter().filter(|name| opened.contains(name)).collect();
        assert_eq!(whole, opened[1..].iter().collect(), "all but the oldest");
        assert_eq!(offered.len(), 1 + 2 * RUNS_OFFERED_MAX, "@last, and each by its end and as a whole");
        os.shutdown().await;
    }

    #[test]
    fn the_place_of_a_word_tells_what_it_names() {
        for (line, expected) in [
            ("show ", Some(("show", What::Run, "", None))),
            ("show --at 3 @la", Some(("show", What::Run, "@la", None))),
            ("--data d events 01", Some(("events", What::Run, "01", Some("d")))),
            ("approve @last --data=d pu", Some(("approve", What::Node("@last"), "pu", Some("d")))),
            ("artifact @last/re", Some(("artifact", What::Result, "@last/re", None))),
            ("show --at ", None),
            ("show -", None),
            ("show @last ", None),
            ("run pl", None),
            ("sho", None),
            ("nothing ", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let mut root = command();
            root.build();
            let expected = expected.map(|(command, what, word, data)| Asked {
                command,
                what,
                word,
                data: data.map(PathBuf::from),
            });
            assert_eq!(Asked::of(&root, &words), expected, "{line}");
        }
    }
}
