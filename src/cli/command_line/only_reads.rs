//! Which commands change nothing, so that output that cannot be written loses no change.

use crate::cli::command_line::{Cli, Command};

impl Cli {
    /// True if the command only reads: lost output loses no change.
    pub(crate) fn only_reads(&self) -> bool {
        use Command as C;
        match &self.command {
            C::Check(_) | C::Ps(_) | C::Show(_) | C::Lineage(_) | C::Diff(_) | C::Explain(_) => true,
            C::Events(_) | C::Logs(_) | C::Artifact(_) | C::Top(_) | C::Audit(_) | C::Agents(_) => true,
            C::Simulate(_) | C::Complete(_) | C::Completions(_) | C::Help(_) => true,
            C::Run(_) | C::Ask(_) | C::Chat(_) | C::Resume(_) | C::Fork(_) | C::Experiment(_) => false,
            C::Approve(_) | C::Reject(_) | C::Answer(_) | C::Resolve(_) | C::Interject(_) => false,
            C::Skip(_) | C::Cancel(_) | C::Undo(_) | C::Checkpoint(_) | C::Release(_) => false,
            C::Client(_) | C::Spawn(_) => false,
            C::Approvals(args) => args.only_reads(),
            C::Credit(args) => args.only_reads(),
            C::Doctor(args) => args.only_reads(),
            C::Edit(args) => args.only_reads(),
            C::Evaluate(args) => args.only_reads(),
            C::Export(args) => args.only_reads(),
            C::Gc(args) => args.only_reads(),
            C::Lockdown(args) => args.only_reads(),
            C::Man(args) => args.only_reads(),
            C::Market(args) => args.only_reads(),
            C::Mcp(args) => args.only_reads(),
            C::Models(args) => args.only_reads(),
            C::Operator(args) => args.only_reads(),
            C::Pipeline(args) => args.only_reads(),
            C::Plans(args) => args.only_reads(),
            C::Policy(args) => args.only_reads(),
            C::Rerun(args) => args.only_reads(),
            C::Retract(args) => args.only_reads(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::FromArgMatches;
    use expect_test::expect;

    use crate::cli::command_line::{Cli, root_command};

    /// Words of a command line: blanks separate them, except within single quotes.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (Vec::new(), false);
        for (at, part) in line.split('\'').enumerate() {
            let parts = if at % 2 == 1 { vec![part] } else { part.split(' ').collect() };
            for (number, part) in parts.into_iter().enumerate() {
                let goes_on = number == 0 && (at % 2 == 1 || quoted);
                match words.last_mut() {
                    Some(last) if goes_on => *last = format!("{last}{part}"),
                    _ => words.push(part.to_owned()),
                }
            }
            quoted = at % 2 == 1;
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// Examples in the help of a command, and the command itself if it takes no argument.
    fn examples(command: &clap::Command, path: &str) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().filter_map(|line| {
            let line = &line[line.find("ostler ")?..];
            Some(line.split([')', '|', '>']).next()?.trim().to_owned())
        });
        lines.filter(|line| line.starts_with(path)).chain([path.to_owned()]).collect()
    }

    fn classify(command: &clap::Command, path: &str, found: &mut BTreeMap<String, Vec<&'static str>>) {
        for line in examples(command, path) {
            let Ok(matches) = root_command().try_get_matches_from(words(&line)) else { continue };
            let Ok(cli) = Cli::from_arg_matches(&matches) else { continue };
            let kinds = found.entry(path.to_owned()).or_default();
            let kind = if cli.only_reads() { "reads" } else { "changes" };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        for below in command.get_subcommands() {
            classify(below, &format!("{path} {}", below.get_name()), found);
        }
        let is_group = command.has_subcommands();
        assert!(is_group || found.contains_key(path), "{path}: no example that can be parsed");
    }

    #[test]
    fn each_command_is_known_to_read_or_to_change() {
        let mut found = BTreeMap::new();
        classify(&root_command(), "ostler", &mut found);
        let lines: Vec<String> =
            found.into_iter().map(|(path, kinds)| format!("{path}: {}\n", kinds.join(", "))).collect();
        expect![[r#"
            ostler agents: reads
            ostler answer: changes
            ostler approvals: reads, changes
            ostler approvals revoke: changes
            ostler approve: changes
            ostler artifact: reads
            ostler ask: changes
            ostler audit: reads
            ostler cancel: changes
            ostler chat: changes
            ostler check: reads
            ostler checkpoint: changes
            ostler client: changes
            ostler client add: changes
            ostler client remove: changes
            ostler complete: reads
            ostler completions: reads
            ostler credit: changes, reads
            ostler diff: reads
            ostler doctor: reads, changes
            ostler edit: changes, reads
            ostler evaluate: reads, changes
            ostler events: reads
            ostler experiment: changes
            ostler experiment agentdojo: changes
            ostler experiment lineage: changes
            ostler experiment modes: changes
            ostler explain: reads
            ostler export: reads, changes
            ostler fork: changes
            ostler gc: reads, changes
            ostler help: reads
            ostler interject: changes
            ostler lineage: reads
            ostler lockdown: changes, reads
            ostler logs: reads
            ostler man: reads, changes
            ostler market: changes, reads
            ostler market ls: reads
            ostler market offer: changes
            ostler market post: changes
            ostler mcp: reads, changes
            ostler mcp accept: changes
            ostler mcp login: changes
            ostler mcp logout: changes
            ostler mcp ls: reads
            ostler mcp probe: reads
            ostler mcp serve: changes
            ostler mcp tools: reads
            ostler models: reads, changes
            ostler models probe: changes
            ostler operator: reads
            ostler operator add: changes
            ostler operator key: reads
            ostler operator ls: reads
            ostler operator remove: changes
            ostler pipeline: changes, reads
            ostler pipeline catch-up: changes
            ostler pipeline create: changes
            ostler pipeline end: changes
            ostler pipeline events: reads
            ostler pipeline ps: reads
            ostler pipeline publish: changes
            ostler pipeline release: changes
            ostler pipeline remove: changes
            ostler plans: changes, reads
            ostler plans learn: changes
            ostler plans ls: reads
            ostler plans show: reads
            ostler policy: reads
            ostler policy accept: changes
            ostler policy check: reads
            ostler policy explain: reads
            ostler policy reload: changes
            ostler policy test: reads
            ostler ps: reads
            ostler reject: changes
            ostler release: changes
            ostler rerun: changes
            ostler resolve: changes
            ostler resume: changes
            ostler retract: reads, changes
            ostler run: changes
            ostler show: reads
            ostler simulate: reads
            ostler simulate gate: reads
            ostler simulate graph: reads
            ostler simulate lineage: reads
            ostler simulate model: reads
            ostler simulate modes: reads
            ostler simulate queue: reads
            ostler skip: changes
            ostler spawn: changes
            ostler top: reads
            ostler undo: changes
        "#]]
        .assert_eq(&lines.concat());
    }
}
