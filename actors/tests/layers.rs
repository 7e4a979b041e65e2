//! The modules of this crate form layers: a module uses modules of its own layer and of the layers below, and no chain of
//! imports leads back to where it began.
//!
//! The test reads `use` declarations and inline `crate::` and `super::` paths of the product code. Test modules are exempt.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The layers, the lowest first: the folder in `src`, and what it holds.
const LAYERS: [(&str, &str); 13] = [
    ("base", "keys, errors, limits, the clock, the status of the process"),
    ("messages", "message enums, the types they carry, and the mailboxes that deliver them"),
    ("metrics", "what is counted and timed"),
    ("storage", "access to the journal and to the artifact store"),
    ("state", "caches of the journal, and the tables of what runs in this process"),
    ("scheduler", "the run queue: grants slots, charges attempts"),
    ("attempts", "executes attempts; agents written as code"),
    ("devices", "keeps drivers running, such as servers of tools"),
    ("evaluator", "the actor that adds up scores"),
    ("pipelines", "logs of pipelines, and the actors of their stages"),
    ("run", "the actor that drives the runs of an agent"),
    ("registry", "the actor that knows all agents and starts their actors"),
    ("api", "the handle `System`, and the supervision tree"),
];

/// An import: the file and line that has it, and the path as written.
#[derive(Debug, Clone)]
struct Import {
    place: String,
    path: String,
}

type Graph = BTreeMap<String, BTreeMap<String, Import>>;

#[test]
fn imports_lead_down_the_layers() {
    let graph = graph();
    let rank = |module: &str| {
        let folder = module.split('/').next().unwrap_or_default();
        LAYERS.iter().position(|(layer, _)| *layer == folder)
    };
    let mut wrong = String::new();
    for (module, imports) in &graph {
        let from =
            rank(module).unwrap_or_else(|| panic!("{module} is in no layer: add its folder to LAYERS"));
        for (imported, Import { place, path }) in imports {
            if rank(imported).is_some_and(|to| to > from) {
                let _ = writeln!(wrong, "{place}: {path}: {module} is below {imported}");
            }
        }
    }
    assert!(wrong.is_empty(), "imports lead up:\n{wrong}");
}

#[test]
fn no_chain_of_imports_is_a_cycle() {
    let graph = graph();
    let mut done = BTreeSet::new();
    for module in graph.keys() {
        if let Some(cycle) = cycle_from(&graph, module, &mut Vec::new(), &mut done) {
            let links = cycle.iter().zip(cycle.iter().cycle().skip(1));
            let lines = links.map(|(from, to)| {
                let Import { place, path } = &graph[from][to];
                format!("{place}: {path}")
            });
            panic!("a chain of imports is a cycle:\n{}", lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The modules of a cycle that is reached from `module`, if there is one.
fn cycle_from(
    graph: &Graph,
    module: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = path.iter().position(|seen| seen == module) {
        return Some(path[at..].to_vec());
    }
    if !done.insert(module.to_owned()) {
        return None;
    }
    path.push(module.to_owned());
    let imports = graph.get(module).into_iter().flat_map(BTreeMap::keys);
    let cycle = imports.into_iter().find_map(|imported| cycle_from(graph, imported, path, done));
    path.pop();
    cycle
}

fn graph() -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    read(&root, &root, &mut files);
    let texts: BTreeMap<String, Vec<Token>> =
        files.iter().map(|(module, (_, text))| (module.clone(), product_tokens(text))).collect();
    let modules: BTreeSet<String> = product_modules(&texts);
    let mut graph = Graph::new();
    for module in &modules {
        let mut imports = BTreeMap::new();
        for (line, path) in paths(&texts[module]) {
            if let Some(imported) = resolve(&modules, module, &path).filter(|imported| imported != module) {
                let place = format!("src/{}:{line}", files[module].0);
                imports.entry(imported).or_insert(Import { place, path: path.join("::") });
            }
        }
        graph.insert(module.clone(), imports);
    }
    assert!(graph.len() > 50, "the sources are found");
    graph
}

/// Reads the files below `folder`, by the name of their module: `run/load` for `run/load.rs`, `run` for `run/mod.rs`.
fn read(root: &Path, folder: &Path, files: &mut BTreeMap<String, (String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            let module = name.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
            files.insert(module, (name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Modules that product code declares; those below `#[cfg(test)]` are left out.
fn product_modules(texts: &BTreeMap<String, Vec<Token>>) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    let mut open = vec!["lib".to_owned()];
    while let Some(parent) = open.pop() {
        let Some(tokens) = texts.get(&parent) else { continue };
        for declared in tokens.windows(3) {
            if declared[0].text == "mod" && declared[2].text == ";" {
                let name = &declared[1].text;
                let child = if parent == "lib" { name.clone() } else { format!("{parent}/{name}") };
                modules.insert(child.clone());
                open.push(child);
            }
        }
    }
    modules
}

/// The module that a path leads to, if that is one of this crate: its longest prefix that is a module.
fn resolve(modules: &BTreeSet<String>, from: &str, path: &[String]) -> Option<String> {
    let own: Vec<&str> = from.split('/').collect();
    let mut rest = path.iter().map(String::as_str).peekable();
    let mut found: Vec<&str> = match rest.peek()? {
        &"crate" => Vec::new(),
        &"super" | &"self" => own,
        // A path without a prefix leads to a child or out of the crate.
        child if modules.contains(&format!("{from}/{child}")) => own,
        _ => return None,
    };
    while let Some(&step) = rest.peek().filter(|step| matches!(**step, "crate" | "self" | "super")) {
        if step == "super" {
            found.pop();
        }
        rest.next();
    }
    found.extend(rest);
    while !found.is_empty() && !modules.contains(&found.join("/")) {
        found.pop();
    }
    (!found.is_empty()).then(|| found.join("/"))
}

/// Every path that is imported or begins with `crate` or `super`, and its line.
fn paths(tokens: &[Token]) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let (text, before) =
            (tokens[at].text.as_str(), at.checked_sub(1).map(|before| &*tokens[before].text));
        let is_path = tokens.get(at + 1).is_some_and(|next| next.text == "::") && before != Some("::");
        match text {
            "use" => at = use_tree(tokens, at + 1, &[], &mut found),
            // The path of a visibility imports nothing.
            "crate" | "super" if is_path && before != Some("in") => {
                let line = tokens[at].line;
                let mut path = vec![text.to_owned()];
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text == "::") && at + 1 < tokens.len() {
                    path.push(tokens[at + 1].text.clone());
                    at += 2;
                }
                found.push((line, path));
            }
            _ => at += 1,
        }
    }
    found
}

/// Reads one tree of a `use` declaration behind a prefix; gives the place behind it.
fn use_tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let mut path = prefix.to_vec();
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => {
                at += 1;
                while tokens[at].text != "}" {
                    at = use_tree(tokens, at, &path, found);
                    at += usize::from(tokens[at].text == ",");
                }
                return at + 1;
            }
            "," | "}" | ";" => break,
            "as" => at += 2,
            "::" => at += 1,
            name => {
                path.push(name.to_owned());
                at += 1;
            }
        }
    }
    found.push((tokens.get(at).map_or(0, |token| token.line), path));
    at
}

/// A word, `::`, or one character of punctuation.
#[derive(Debug, Clone)]
struct Token {
    line: usize,
    text: String,
}

/// The tokens of a source without its comments, its literals and the items below `#[cfg(test)]`.
fn product_tokens(text: &str) -> Vec<Token> {
    let tokens = tokens(text);
    let (mut product, mut at) = (Vec::new(), 0);
    let is_test = |at: usize| {
        let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
        tokens[at..].iter().map(|token| token.text.as_str()).take(attribute.len()).eq(attribute)
    };
    while at < tokens.len() {
        if is_test(at) {
            at = behind_item(&tokens, at + 7);
        } else {
            product.push(tokens[at].clone());
            at += 1;
        }
    }
    product
}

/// The place behind an item, a field or a statement: behind its braces, or its semicolon or comma outside of any.
fn behind_item(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0usize;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" if depth == 0 => return at,
            "}" => {
                depth -= 1;
                // The braces of a `use` tree end before its semicolon.
                let goes_on = tokens.get(at + 1).is_some_and(|next| next.text == ";");
                if depth == 0 && !goes_on {
                    return at + 1;
                }
            }
            ";" | "," if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while at < chars.len() {
        let (start, next) = (at, chars.get(at + 1).copied().unwrap_or(' '));
        at = match chars[at] {
            '/' if next == '/' => find(&chars, at, |at| chars[at] == '\n'),
            '"' => behind_string(&chars, at),
            // A lifetime has no second quote.
            '\'' if next == '\\' => find(&chars, at + 3, |at| chars[at] == '\'') + 1,
            '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
            'r' if next == '"' || (next == '#' && chars.get(at + 2) == Some(&'"')) => behind_raw(&chars, at),
            c if is_word(c) => find(&chars, at, |at| !is_word(chars[at])),
            ':' if next == ':' => at + 2,
            _ => at + 1,
        };
        let word: String = chars[start..at.min(chars.len())].iter().collect();
        let is_kept =
            !word.starts_with(['"', ' ', '\n', '\'']) && !word.starts_with("//") && !word.contains('"');
        if is_kept {
            tokens.push(Token { line, text: word.clone() });
        }
        line += word.matches('\n').count();
    }
    tokens
}

fn find(chars: &[char], from: usize, is_it: impl Fn(usize) -> bool) -> usize {
    (from..chars.len()).find(|at| is_it(*at)).unwrap_or(chars.len())
}

fn behind_string(chars: &[char], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn behind_raw(chars: &[char], start: usize) -> usize {
    let quote = find(chars, start, |at| chars[at] == '"');
    let hashes = quote - start - 1;
    let ends =
        |at: usize| chars[at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    find(chars, quote + 1, ends) + 1 + hashes
}
