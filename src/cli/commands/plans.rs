//! `ostler plans`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ostler::plan_file::{Format, PlanFile};
use ostler::plan_folder::{PlanFolder, PlanFolderError, StoredTemplate, is_template_name, plan_text};
use ostler_kernel::policy::{TemplateRecord, UNREVIEWED_MARK};
use ostler_server::wire::{LearntPlan, TemplateRecords};
use serde_json::json;

use crate::cli::arguments::values::run_name;
use crate::cli::arguments::{Globals, plan};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;
use crate::cli::output::{findings, hints};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::settings::{data_folder_exists, load_settings};
use crate::cli::session::{AccessMode, Session, open_existing};

#[derive(Debug, Args)]
pub(crate) struct PlansArgs {
    #[command(subcommand)]
    what: What,
    /// Folder of the templates [default: plans in the data folder]
    #[arg(long = "in", global = true, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl PlansArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.what, What::Ls | What::Show { .. })
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the templates with the record of their runs
    #[command(after_help = "Example:\n  ostler plans ls")]
    Ls,
    /// Print a template
    #[command(after_help = "Example:\n  ostler plans show count-notes")]
    Show {
        /// Name of the template
        name: String,
    },
    /// Make a template of a run that succeeded
    ///
    /// The steps stay, and the nodes that planned and judged go. What the goal said word for word becomes a parameter, with the value of
    /// this run as the default; what a model took from exactly one result becomes a reference to it.
    #[command(
        after_help = "Examples:\n  ostler plans learn @last\n  ostler plans learn @last --name count-notes --in plans"
    )]
    Learn {
        /// The run: its id, a part of it, or @last
        #[arg(value_parser = run_name)]
        run: String,
        /// Name of the template [default: words of the goal]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
}

pub(crate) async fn plans(globals: &Globals, args: PlansArgs) -> Result<u8, Failure> {
    let folder = folder(globals, args.folder)?;
    match args.what {
        What::Ls => list(globals, &folder).await,
        What::Show { name } => show(globals, &folder, &name),
        What::Learn { run, name } => learn(globals, &folder, &run, name).await,
    }
}

fn folder(globals: &Globals, named: Option<PathBuf>) -> Result<PlanFolder, Failure> {
    if let Some(folder) = named {
        return Ok(PlanFolder::new(folder));
    }
    let (_, data) = load_settings(globals, Path::new("."))?;
    let data = data.ok_or_else(|| {
        Failure::invalid(
            "the data are kept in memory, so templates have no place; name a folder with --in DIR",
        )
    })?;
    Ok(PlanFolder::of_data(&data))
}

fn refused(error: PlanFolderError) -> Failure {
    match error {
        PlanFolderError::Io { .. } => Failure::store(error.to_string()),
        PlanFolderError::Name(_) | PlanFolderError::Unknown { .. } | PlanFolderError::Taken(_) => {
            Failure::invalid(error.to_string())
        }
    }
}

async fn list(globals: &Globals, folder: &PlanFolder) -> Result<u8, Failure> {
    let stored = folder.list().map_err(refused)?;
    let names: Vec<&str> = stored.iter().map(|stored| stored.name.as_str()).collect();
    let records = records(globals, &names).await?;
    let mut out = Out::new();
    if globals.json {
        for template in &stored {
            let record = records.get(&template.name).copied().unwrap_or_default();
            let (title, damage) = match &template.content {
                Ok(content) => (Some(&content.title), None),
                Err(damage) => (None, Some(damage)),
            };
            out.json(&json!({
                "type": "template", "name": template.name, "title": title, "path": template.path, "damage": damage,
                "runs": record.runs, "succeeded": record.succeeded, "credits": record.credits, "tokens": record.tokens,
            }));
        }
    } else if stored.is_empty() {
        let folder = harmless_line(&folder.path().display().to_string());
        status_line(format!(
            "no template in {folder}: `ostler plans learn RUN` makes one of a run that succeeded"
        ));
    } else {
        let rows: Vec<[Cell; 6]> = stored.iter().map(|stored| row(stored, &records)).collect();
        let table = Table::new(COLUMNS, &rows, out.columns());
        out.line(table.head());
        rows.iter().for_each(|row| out.line(table.row(row, &Out::new())));
        let damage = stored.iter().filter_map(|stored| stored.content.as_ref().err());
        damage.for_each(|damage| status_line(harmless_line(damage)));
    }
    Ok(code::SUCCEEDED)
}

const COLUMNS: [Column; 6] = [
    Column::name("NAME").at_least(8),
    Column::number("RUNS").at_least(4).hide_rank(4),
    Column::number("SUCCEEDED").at_least(9).hide_rank(3),
    Column::number("CREDITS/RUN").at_least(11).hide_rank(2),
    Column::number("TOKENS/RUN").at_least(10).hide_rank(1),
    Column::text("TITLE").at_least(10),
];

fn row(stored: &StoredTemplate, records: &BTreeMap<String, TemplateRecord>) -> [Cell; 6] {
    let record = records.get(&stored.name).copied().unwrap_or_default();
    let by_run = |sum: u64| match sum.checked_div(record.runs) {
        Some(mean) => mean.to_string(),
        None => "-".to_owned(),
    };
    let title = stored.content.as_ref().map_or("(damaged)", |content| content.title.as_str());
    [
        stored.name.as_str().into(),
        record.runs.to_string().into(),
        record.succeeded.to_string().into(),
        by_run(record.credits).into(),
        by_run(record.tokens).into(),
        title.into(),
    ]
}

/// The records of templates; none without a data folder.
async fn records(globals: &Globals, names: &[&str]) -> Result<BTreeMap<String, TemplateRecord>, Failure> {
    let (_, data) = load_settings(globals, Path::new("."))?;
    let has_runs = data.map(|data| data_folder_exists(&data)).transpose()?.unwrap_or(false);
    if names.is_empty() || !has_runs {
        return Ok(BTreeMap::new());
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let found = session.get::<TemplateRecords>(&format!("/v1/templates?names={}", names.join(","))).await;
    session.stop().await;
    Ok(found?.records)
}

fn show(globals: &Globals, folder: &PlanFolder, name: &str) -> Result<u8, Failure> {
    let stored = folder.find(name).map_err(refused)?;
    let template = stored.content.map_err(Failure::invalid)?;
    let mut out = Out::new();
    if globals.json {
        let (path, text) = (stored.path, template.text);
        out.json(
            &json!({"type": "template", "name": name, "title": template.title, "path": path, "text": text}),
        );
    } else {
        template.text.lines().for_each(|line| out.line(harmless_line(line)));
    }
    Ok(code::SUCCEEDED)
}

async fn learn(
    globals: &Globals,
    folder: &PlanFolder,
    run: &str,
    name: Option<String>,
) -> Result<u8, Failure> {
    if let Some(name) = name.as_ref().filter(|name| !is_template_name(name)) {
        return Err(refused(PlanFolderError::Name(name.clone())));
    }
    let mut session = open_existing("run", globals, AccessMode::Read).await?;
    let learnt = async {
        let name = match name {
            Some(name) => name,
            None => free_name(folder, session.summary(run).await?.goal.as_deref().unwrap_or_default()),
        };
        let path = format!("/v1/runs/{}/learnt?name={name}", path_segment(run));
        let learnt = session.get::<LearntPlan>(&path).await;
        learnt.map(|learnt| (name, learnt)).map_err(Failure::from)
    };
    let learnt = learnt.await;
    session.stop().await;
    let (name, learnt) = learnt?;
    let mut head = vec![format!("learnt from run {}", learnt.run)];
    head.extend(learnt.tainted.then(|| UNREVIEWED_MARK.trim_start_matches("# ").to_owned()));
    let text = plan_text(&head, &learnt.plan, &learnt.params);
    let mut out = Out::new();
    check(globals, &name, &text, &mut out)?;
    let path = folder.save(&name, &text).map_err(refused)?;
    if globals.json {
        let (run, params, tainted) = (&learnt.run, &learnt.params, learnt.tainted);
        out.json(&json!({
            "type": "template", "name": name, "path": path, "run": run, "params": params, "tainted": tainted,
        }));
        return Ok(code::SUCCEEDED);
    }
    let steps = learnt.plan["nodes"].as_array().map_or(0, Vec::len);
    let shown = harmless_line(&path.display().to_string());
    out.line(format!("{shown}: {}, {}", plural(steps, "node"), params_text(&learnt.params)));
    if learnt.tainted {
        status_line(
            "texts of strangers may have steered its steps: read it, then remove the line that says so",
        );
    }
    status_line(format!("`{}` runs it", hints::command("run", &[&shown], "")));
    Ok(code::SUCCEEDED)
}

/// Refuses a plan that would not run: tools or models may have gone since the run.
fn check(globals: &Globals, name: &str, text: &str, out: &mut Out) -> Result<(), Failure> {
    let (config, _) = load_settings(globals, Path::new("."))?;
    let file = PlanFile::parse(&format!("{name}.yaml"), Format::Yaml, text, &BTreeMap::new());
    match plan::judge(&file, &config) {
        Ok(_) => Ok(()),
        Err(found) => {
            status_line("the run cannot be repeated as it is, so nothing was stored:");
            Err(findings::report_plan(&file, &found, globals.json, out))
        }
    }
}

fn params_text(params: &BTreeMap<String, String>) -> String {
    match params.len() {
        0 => "no parameters".to_owned(),
        _ => format!("parameters {}", params.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
    }
}

/// Words of a goal in the name of a template.
const NAME_WORDS_MAX: usize = 4;

/// A name made of the first words of a goal that no template has yet.
fn free_name(folder: &PlanFolder, goal: &str) -> String {
    let words =
        goal.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| (2..=12).contains(&word.len()));
    let words: Vec<String> = words.take(NAME_WORDS_MAX).map(str::to_ascii_lowercase).collect();
    let base = if words.is_empty() { "plan".to_owned() } else { words.join("-") };
    let numbered = (2..).map(|number: u32| format!("{base}-{number}"));
    let is_free = |name: &String| folder.find(name).is_err();
    std::iter::once(base.clone()).chain(numbered).find(is_free).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_the_goal_and_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let folder = PlanFolder::new(folder.path());
        assert_eq!(free_name(&folder, "What's in ../notes/Today.md, please?"), "what-in-notes-today");
        assert_eq!(free_name(&folder, "東京?"), "plan");
        folder.save("plan", "id: a").unwrap();
        assert_eq!(free_name(&folder, ""), "plan-2");
        assert!(folder.save("plan", "id: b").is_err(), "nothing is overwritten");
    }
}
