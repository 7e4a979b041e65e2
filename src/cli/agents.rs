//! `ostler spawn`, `ostler release`, and the agents and the tree of `ostler ps`: who does the work, and what keeps them alive.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ostler_kernel::agent::{Oversight, Profile};
use ostler_kernel::json::parse_value;
use ostler_kernel::market::Offer;
use ostler_scheduler::WEIGHT_MAX;
use ostler_server::wire::{AgentLine, AgentList, AgentRef, OfferRequest, SpawnRequest, TreeLine, TreeView};
use serde_json::{Value, json};

use super::Globals;
use super::advice::{self, option, placed};
use super::cells::fit;
use super::client::{Refused, part};
use super::clients::NAME_MAX;
use super::exit::{Failure, code};
use super::market;
use super::number::{from_zero, within};
use super::ps::tagged;
use super::session::{Session, Want};
use super::table::{Cell, Column, Table};
use super::term::{Out, say};

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The agent, as `ostler ps --agents` lists it
    agent: String,
}

#[derive(Debug, Args)]
pub(crate) struct SpawnArgs {
    /// Its name
    agent: String,
    /// Who pays for what it does [default: local, or who does already]
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Its weight among the agents of its client, 1 to 1,000,000 [default: 100, or what it has already]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = weight)]
    weight: Option<u32>,
    /// Something it can do, by a name that jobs ask for; may be repeated
    #[arg(long = "can", value_name = "CAPABILITY")]
    capabilities: Vec<String>,
    /// What it is for, such as legal: the domain of plans that name none
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// How far people watch it
    #[arg(long, value_name = "MODE", value_parser = oversight())]
    oversight: Option<Oversight>,
    /// What it asks for a job, in credits
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true, value_parser = from_zero)]
    price: Option<u64>,
    /// File with the JSON Schema of what its runs are given: the parameters of the node that a plan begins with
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// File with the JSON Schema of what comes of its runs
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The words for it, which the scripts of shells offer too.
fn oversight() -> impl TypedValueParser<Value = Oversight> {
    let of = |word: String| Oversight::ALL.into_iter().find(|mode| mode.as_str() == word);
    PossibleValuesParser::new(Oversight::ALL.map(Oversight::as_str))
        .map(move |word| of(word).expect("these are its words"))
}

fn weight(text: &str) -> Result<u32, String> {
    let weight = within(text, 1..=WEIGHT_MAX.into())?;
    Ok(u32::try_from(weight).expect("a weight is at most WEIGHT_MAX"))
}

/// Makes an agent.
pub(crate) async fn spawn(globals: &Globals, args: SpawnArgs) -> Result<u8, Failure> {
    let SpawnArgs { agent, client, weight, capabilities, domain, oversight, price, input, output } = args;
    let input = input.as_deref().map(schema).transpose()?;
    let output = output.as_deref().map(schema).transpose()?;
    let profile = Profile { capabilities, domain, input, output, oversight, price };
    let request = SpawnRequest { agent, client, weight, profile };
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), Want::Begin).await?;
    let spawned: Result<AgentRef, Refused> = session.post_again("/v1/agents", &request).await;
    session.stop().await;
    let spawned = spawned?;
    if globals.json {
        out.json(&tagged("spawned", &spawned));
    } else {
        let run = advice::command("run PLAN", &[], &option("agent", spawned.agent.as_ref()));
        out.line(format!("{} is there; `{run}` gives it work", spawned.agent));
    }
    Ok(code::SUCCEEDED)
}

fn schema(file: &Path) -> Result<Value, Failure> {
    let told = |what: String| Failure::invalid(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    parse_value(&text).map_err(|error| told(error.to_string()))
}

/// What an agent says of itself, in a line.
fn says(profile: &Profile) -> Option<String> {
    let Profile { capabilities, domain, input: _, output: _, oversight, price } = profile;
    let can = (!capabilities.is_empty()).then(|| format!("can {}", capabilities.join(", ")));
    let parts = [
        domain.clone(),
        can,
        oversight.map(|mode| mode.to_string()),
        price.map(|price| format!("asks {price} credits")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

/// What an agent offers instead of what it says of itself, in a line.
fn offers(line: &AgentLine) -> Option<String> {
    let first = Offer::of(&line.profile).as_ref().map(OfferRequest::from);
    let offer = line.offer.as_ref().filter(|offer| first.as_ref() != Some(*offer))?;
    Some(format!("  offers {}", market::terms(offer)))
}

/// Lists all agents.
pub(crate) async fn list(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let list: AgentList = session.get("/v1/agents").await?;
    if globals.json {
        list.agents.iter().for_each(|line| out.json(&tagged("agent", line)));
        return Ok(());
    }
    if list.agents.is_empty() {
        say("there is no agent: a run without one gets an agent of its own, for as long as it is open");
        return Ok(());
    }
    let columns = out.columns();
    listed(&list.agents, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// What is told of an agent. The client is narrowed first, and goes first, then the weight, the number of runs and the state.
const COLUMNS: [Column; 5] = [
    Column::name("AGENT").at_least(36).narrows(2, 8),
    Column::name("CLIENT").at_least(12).at_most(NAME_MAX).narrows(1, 12).goes(1),
    Column::number("WEIGHT").at_least(7).goes(2),
    Column::text("STATE").at_least(11).goes(4),
    Column::text("RUNS").goes(3),
];

fn row(line: &AgentLine) -> [Cell; 5] {
    [
        line.agent.as_str().into(),
        line.client.as_str().into(),
        line.weight.to_string().into(),
        Cell::state(&line.state),
        line.runs_open.to_string().into(),
    ]
}

/// The agents as a table in so many columns; only commands are not cut.
fn listed(agents: &[AgentLine], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 5]> = agents.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    let mut lines = vec![table.head()];
    for (row, line) in rows.iter().zip(agents) {
        lines.push(table.row(row, out));
        lines.extend(says(&line.profile).map(|says| fit(&says, columns)));
        lines.extend(offers(line).map(|offers| fit(&offers, columns)));
        if let Some(reason) = &line.reason {
            lines.push(fit(&format!("  out of service: {reason}"), columns));
            lines.push(format!("    {}", advice::command("release", &[&line.agent], "")));
        }
    }
    lines
}

/// Puts an agent back into service.
pub(crate) async fn release(globals: &Globals, args: ReleaseArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), Want::Drive).await?;
    let path = format!("/v1/agents/{}/release", part(&args.agent));
    let released: Result<AgentRef, Refused> = session.post(&path, &json!({})).await;
    session.stop().await;
    let released = released?;
    if globals.json {
        out.json(&tagged("released", &released));
    } else {
        out.line(placed(&format!(
            "{} is back in service; `ostler ps` shows which of its runs were set aside, `ostler resume RUN` goes on with one",
            released.agent
        )));
    }
    Ok(code::SUCCEEDED)
}

/// Shows what supervises what. Only a process that stays has something to tell.
pub(crate) async fn tree(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    if !session.client.is_remote() {
        if !globals.json {
            say("nothing is supervised: no process holds the data folder");
        }
        return Ok(());
    }
    let view: TreeView = session.get("/v1/tree").await?;
    let mut lines = Vec::new();
    grow(&view.children, "/", "", &mut lines);
    if globals.json {
        lines.iter().filter_map(Line::told).for_each(|line| out.json(&line));
        return Ok(());
    }
    let columns = out.columns();
    drawn(&lines, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// What is told of a child of the tree. The generation goes first, then the last end, the restarts and the state.
const CHILD_COLUMNS: [Column; 5] = [
    Column::text("CHILD").narrows(2, 24),
    Column::text("STATE").at_least(10).goes(4),
    Column::number("GENERATION").goes(1),
    Column::number("RESTARTS").goes(3),
    Column::text("LAST END").narrows(1, 4).goes(2),
];

fn child_row(Line { name, child, .. }: &Line<'_>) -> [Cell; 5] {
    let Some(child) = child else { return [name.as_str(), "", "", "", ""].map(Cell::from) };
    [
        name.as_str().into(),
        Cell::state(&child.state),
        child.generation.to_string().into(),
        child.restarts.to_string().into(),
        Cell::known(child.last_exit.as_deref()),
    ]
}

/// The tree as a table in so many columns.
fn drawn(lines: &[Line<'_>], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 5]> = lines.iter().map(child_row).collect();
    let table = Table::new(CHILD_COLUMNS, &rows, columns);
    let told = rows.iter().map(|row| table.row(row, out));
    std::iter::once(table.head()).chain(told).collect()
}

/// A line of the tree.
struct Line<'a> {
    /// The branch that leads here, and the name.
    name: String,
    path: String,
    /// `None`: the line tells how many there are besides.
    child: Option<&'a TreeLine>,
}

impl Line<'_> {
    /// The line for programs.
    fn told(&self) -> Option<serde_json::Value> {
        let mut told = tagged("child", self.child?);
        if let Some(members) = told.as_object_mut() {
            members.remove("children");
            members.insert("path".to_owned(), json!(self.path));
        }
        Some(told)
    }
}

fn grow<'a>(children: &'a [TreeLine], path: &str, trunk: &str, lines: &mut Vec<Line<'a>>) {
    for (at, child) in children.iter().enumerate() {
        let is_last = at + 1 == children.len();
        // What stands at the root has no branch to hang on.
        let (branch, below) = match (path, is_last) {
            ("/", _) => ("", ""),
            (_, true) => ("└─ ", "   "),
            (_, false) => ("├─ ", "│  "),
        };
        let own = format!("{path}{}", child.name);
        let name = format!("{trunk}{branch}{}", child.name);
        lines.push(Line { name, path: own.clone(), child: Some(child) });
        let trunk = format!("{trunk}{below}");
        grow(&child.children, &format!("{own}/"), &trunk, lines);
        let more = child.width.saturating_sub(child.children.len());
        if more > 0 {
            lines.push(Line { name: format!("{trunk}… and {more} more"), path: own, child: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::no_line_is_longer;
    use super::*;

    fn agent(name: &str, client: &str) -> AgentLine {
        let line = json!({
            "agent": name, "client": client, "weight": 100, "state": "quarantined", "runs_open": 1,
            "profile": {"capabilities": ["contracts", "letters", "law of the sea"], "domain": "legal"},
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn agents_are_told_in_the_columns_that_there_are() {
        let agents = [agent("auditor", "acme")];
        let long = [agent("auditor", "a-client-with-a-name-that-is-quite-long")];
        for (columns, row) in [
            (usize::MAX, "auditor                               acme              100  quarantined  1"),
            (80, "auditor                               acme              100  quarantined  1"),
            (50, "auditor   acme              100  quarantined  1"),
            (40, "auditor           100  quarantined  1"),
            (30, "auditor      quarantined  1"),
            (20, "auditor         1"),
            (13, "auditor"),
            (5, "audi…"),
        ] {
            assert_eq!(listed(&agents, columns, &Out::new())[1], row, "{columns}");
        }
        for (columns, row) in [
            (
                usize::MAX,
                "auditor                               a-client-with-a-…t-is-quite-long      100  quarantined  1",
            ),
            (80, "auditor                               a-clien…e-long      100  quarantined  1"),
            (60, "auditor             a-clie…-long      100  quarantined  1"),
        ] {
            assert_eq!(listed(&long, columns, &Out::new())[1], row, "{columns}");
        }
    }

    #[test]
    fn no_line_about_agents_and_of_the_tree_is_longer_than_the_terminal() {
        let agents = [agent("auditor", "acme"), agent(&"a-very-long-name".repeat(4), &"a-client".repeat(8))];
        let child = |name: &str, children: Vec<Value>| {
            json!({"name": name, "kind": "worker", "state": "running", "generation": 1, "restarts": 0,
                   "last_exit": "it was killed, and nobody knows why", "children": children, "width": 5})
        };
        let leaf = child("a-very-long-name", Vec::new());
        let tree: TreeLine = serde_json::from_value(child("pool", vec![child("agent", vec![leaf])])).unwrap();
        let mut lines = Vec::new();
        grow(std::slice::from_ref(&tree), "/", "", &mut lines);
        no_line_is_longer(|columns| {
            [listed(&agents, columns, &Out::new()), drawn(&lines, columns, &Out::new())].concat()
        });
        let whole = drawn(&lines, usize::MAX, &Out::new());
        assert!(whole[1].ends_with("it was killed, and nobody knows why"), "{whole:?}");
    }
}
