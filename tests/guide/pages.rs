//! Every page, and every block in it.

use ostler::job_file::JobFile;
use ostler::plan_file::Format;

use super::compare::same;
use super::page::{Block, Page, Step, rewritten, root, steps};
use super::shell::{Deed, Done, Place};

/// Lists the pages that are doc tests.
const LIBRARY: &str = include_str!("../../src/lib.rs");

/// Note of a block in which numbers vary.
const FIGURES_VARY: &str = "figures vary";

/// File name of a block, if its first line is a comment such as `# plan.yaml`.
fn file_name<'a>(page: &'a Page, block: &Block) -> Option<&'a str> {
    let name = page.content(block).lines().next()?.strip_prefix("# ")?;
    let is_name = name.split_once('.').is_some_and(|(_, kind)| kind == block.language)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    is_name.then_some(name)
}

/// A whole plan from a block, which may be a list of nodes.
fn as_plan(content: &str) -> String {
    if content.lines().any(|line| line.starts_with("nodes:")) {
        return content.to_owned();
    }
    let indented: String = content.lines().map(|line| format!("  {line}\n")).collect();
    format!("id: page\nnodes:\n{indented}")
}

/// The `console` blocks of a page, and their commands.
fn consoles(page: &Page) -> Vec<(&Block, Vec<Step>)> {
    let consoles = page.blocks.iter().filter(|block| block.language == "console");
    let read = consoles.map(|block| (block, steps(page.content(block))));
    read.map(|(block, steps)| (block, steps.unwrap_or_else(|what| panic!("{}: {what}", page.place(block)))))
        .collect()
}

/// Files and commands of a page, in order.
fn deeds<'a>(page: &'a Page, consoles: &'a [(&'a Block, Vec<Step>)]) -> Vec<Deed<'a>> {
    let mut deeds = Vec::new();
    for block in &page.blocks {
        if let Some(name) = file_name(page, block) {
            deeds.push(Deed::Write { name, content: page.content(block) });
        }
        if let Some((_, steps)) = consoles.iter().find(|(console, _)| *console == block) {
            deeds.extend(steps.iter().map(|step| Deed::Type(&step.command)));
        }
    }
    deeds
}

/// Compares a block with actual output and exit codes. Returns the problems, and the corrected block.
fn judge(page: &Page, block: &Block, steps: &[Step], came: &[Done]) -> (Vec<String>, Option<String>) {
    let fits = |step: &Step, done: &Done| same(&step.prints, &done.printed, block.note == FIGURES_VARY);
    let (mut wrong, mut now, mut printed) = (Vec::new(), None, Vec::new());
    for (at, (step, done)) in steps.iter().zip(came).enumerate() {
        let is_told = steps.get(at + 1).is_some_and(|next| next.command == "echo $?");
        if done.status != 0 && !is_told {
            wrong.push(format!("{}: `{}` ends with {}", page.place(block), step.command, done.status));
        }
        printed.push(if fits(step, done) { step.prints.clone() } else { done.printed.clone() });
    }
    if steps.iter().zip(&printed).any(|(step, printed)| step.prints != *printed) {
        let block_now = rewritten(steps, &printed);
        wrong.push(format!("{}: what is printed now:\n{block_now}", page.place(block)));
        now = Some(block_now);
    }
    (wrong, now)
}

/// Runs the commands of a page, and compares the output.
fn check(path: &str, place: &Place) {
    let page = Page::read(path);
    let consoles = consoles(&page);
    let done = place.run(&deeds(&page, &consoles));
    let mut rest = done.as_slice();
    let mut wrong = Vec::new();
    let mut rewrites = Vec::new();
    for (block, steps) in &consoles {
        assert!(rest.len() >= steps.len(), "{}: the shell ended early", page.place(block));
        let (came, others) = rest.split_at(steps.len());
        rest = others;
        let (faults, now) = judge(&page, block, steps, came);
        wrong.extend(faults);
        rewrites.extend(now.map(|now| (block.place.clone(), now)));
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() && !rewrites.is_empty() {
        let mut text = page.text.clone();
        // Backwards, so that earlier positions stay valid.
        rewrites.into_iter().rev().for_each(|(place, now)| text.replace_range(place, &now));
        std::fs::write(&page.path, text).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites the page", wrong.join("\n"));
}

/// Returns whether the page itself checks a plan, for example to show its faults, or declares a pipeline.
fn is_checked_by_hand(page: &Page, name: &str) -> bool {
    let typed = [format!("$ ostler check {name}"), format!("$ ostler pipeline create {name}")];
    let is_typed = |line: &str| typed.iter().any(|typed| line.starts_with(typed));
    page.blocks.iter().any(|block| page.content(block).lines().any(is_typed))
}

/// Names of the guide's pages.
pub(crate) fn guide() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("docs/guide")).unwrap();
    let mut names: Vec<String> = folder
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    names.into_iter().map(|name| format!("docs/guide/{name}")).collect()
}

fn everything() -> Vec<String> {
    let mut pages = guide();
    pages.push("README.md".to_owned());
    pages
}

macro_rules! pages {
    ($($test:ident: $path:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check($path, &Place::of_page($path));
            }
        )*

        #[test]
        fn every_page_is_typed() {
            let typed = [$($path),*];
            let guide = guide();
            assert_eq!(guide, typed, "a page has no test");
        }
    };
}

pages! {
    the_index: "docs/guide/README.md",
    agents_in_rust: "docs/guide/agents-in-rust.md",
    agents: "docs/guide/agents.md",
    api: "docs/guide/api.md",
    approvals: "docs/guide/approvals.md",
    ask: "docs/guide/ask.md",
    cage: "docs/guide/cage.md",
    clients: "docs/guide/clients.md",
    contracts: "docs/guide/contracts.md",
    dynamic_plans: "docs/guide/dynamic-plans.md",
    embedding: "docs/guide/embedding.md",
    evaluation: "docs/guide/evaluation.md",
    first_plan: "docs/guide/first-plan.md",
    gate: "docs/guide/gate.md",
    install: "docs/guide/install.md",
    lineage: "docs/guide/lineage.md",
    market: "docs/guide/market.md",
    mcp: "docs/guide/mcp.md",
    models: "docs/guide/models.md",
    modes: "docs/guide/modes.md",
    operating: "docs/guide/operating.md",
    pipelines: "docs/guide/pipelines.md",
    plan_reference: "docs/guide/plan-reference.md",
    recovery: "docs/guide/recovery.md",
}

/// Every request that the server answers is on the page, and no other.
#[test]
fn the_api_has_these_requests() {
    let page = std::fs::read_to_string(root().join("docs/guide/api.md")).unwrap();
    let routes = std::fs::read_to_string(root().join("server/src/routes.rs")).unwrap();
    let mut served = Vec::new();
    for line in routes.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
        let (path, methods) = line.split_once("\", ").unwrap();
        for (method, call) in [("GET", "get("), ("POST", "post(")] {
            if methods.contains(call) && !path.starts_with("/v1/pipelines") {
                served.push(format!("{method} {path}"));
            }
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).flat_map(|line| line.split('`'));
    let mut named: Vec<String> = rows
        .filter(|part| part.starts_with("GET ") || part.starts_with("POST "))
        .map(str::to_owned)
        .collect();
    served.sort();
    named.sort();
    assert_eq!(named, served);
}

#[test]
fn the_readme() {
    check("README.md", &Place::clone());
}

#[test]
fn the_plans_are_valid() {
    for path in everything() {
        let page = Page::read(&path);
        let plans: Vec<(String, String)> = page
            .blocks
            .iter()
            .filter(|block| block.language == "yaml" && !is_job(page.content(block)))
            .filter(|block| !file_name(&page, block).is_some_and(|name| is_checked_by_hand(&page, name)))
            .map(|block| (format!("line-{}.yaml", block.line), as_plan(page.content(block))))
            .collect();
        let check =
            |(name, content): &(String, String)| format!("ostler check {name}{}", parameters(content));
        let commands: Vec<String> = plans.iter().map(check).collect();
        let mut deeds: Vec<Deed<'_>> =
            plans.iter().map(|(name, content)| Deed::Write { name, content }).collect();
        deeds.extend(commands.iter().map(|command| Deed::Type(command)));
        for (done, command) in Place::empty().run(&deeds).iter().zip(&commands) {
            assert_eq!(done.status, 0, "{path}: {command}:\n{}", done.printed.join("\n"));
        }
    }
}

/// Returns whether a block is a market job.
fn is_job(content: &str) -> bool {
    content.lines().any(|line| line.starts_with("budget:"))
}

#[test]
fn the_jobs_are_valid() {
    let mut found = 0;
    for path in everything() {
        let page = Page::read(&path);
        for block in page.blocks.iter().filter(|block| is_job(page.content(block))) {
            let (place, content) = (page.place(block), page.content(block));
            let parsed = JobFile::parse(&place, Format::Yaml, content);
            assert!(parsed.is_ok(), "{place}: {}", parsed.unwrap_err());
            found += 1;
        }
    }
    assert!(found > 0, "the page of the market shows one");
}

#[test]
fn the_keys_of_a_job_have_their_rows() {
    let page = Page::read("docs/guide/market.md");
    let unknown = JobFile::parse("job.json", Format::Json, r#"{"?": 0}"#).unwrap_err().to_string();
    let nothing = JobFile::parse("job.json", Format::Json, "{}").unwrap_err().to_string();
    for key in
        ["title", "client", "capabilities", "domain", "budget", "deadline", "oversight", "plan", "params"]
    {
        assert!(unknown.contains(key), "{unknown}");
        let row = page.text.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("{key} has no row"));
        let is_needed = nothing.contains(&format!("the key {key:?} is missing"));
        assert_eq!(row.ends_with("| required |"), is_needed, "{row}");
    }
}

/// Options with a value for every parameter of a plan.
fn parameters(content: &str) -> String {
    let mut names: Vec<&str> =
        content.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| format!(" --param {name}=x")).collect()
}

#[test]
fn the_configurations_are_valid() {
    for path in everything() {
        let page = Page::read(&path);
        for block in page.blocks.iter().filter(|block| block.language == "toml") {
            let parsed = ostler::config::Config::parse(&page.place(block), page.content(block));
            assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
        }
    }
}

#[test]
fn every_block_is_of_a_kind_that_is_tested() {
    for path in everything() {
        let page = Page::read(&path);
        for block in &page.blocks {
            let known = ["console", "yaml", "toml", "rust", "rust,no_run"].contains(&block.language.as_str());
            // Commands of the page run it.
            let known = known || (block.language == "py" && file_name(&page, block).is_some());
            assert!(known, "{}: nobody tests a block of {:?}", page.place(block), block.language);
            let is_doctest = LIBRARY.contains(&format!("{path}\")"));
            assert!(is_doctest || !block.language.starts_with("rust"), "{}: no doctest", page.place(block));
        }
    }
}

#[test]
fn links_lead_somewhere() {
    for path in everything() {
        let page = Page::read(&path);
        let folder = page.path.parent().unwrap();
        for (at, _) in page.text.match_indices("](") {
            let target = page.text[at + 2..].split_once(')').expect("a link ends").0;
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            if file.starts_with("https://") {
                continue;
            }
            let file = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            assert!(file.exists(), "{path}: no {target}");
            if !section.is_empty() {
                let text = std::fs::read_to_string(&file).unwrap();
                assert!(headings(&text).any(|heading| heading == section), "{path}: no section {target}");
            }
        }
    }
}

/// Anchors of the sections of a page.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}
