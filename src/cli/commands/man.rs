//! `ostler man`.

use std::io::Write;
use std::path::PathBuf;
use std::{fs, io};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::arguments::Globals;
use crate::cli::commands::help::{ENVIRONMENT, EXIT_CODES};
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for one page per command, created if missing; without it, ostler(1) is printed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.out.is_none()
    }
}

pub(crate) fn man(globals: &Globals, args: &ManArgs, mut root: Command) -> Result<u8, Failure> {
    globals.text_only("man")?;
    root.build();
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        render(&root, &mut page).expect("a page is written to memory");
        Out::new().raw(&page);
        return Ok(code::SUCCEEDED);
    };
    let failed = |error: io::Error| Failure::internal(format!("{}: cannot write: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    for command in pages(&root) {
        let mut page = Vec::new();
        render(command, &mut page).expect("a page is written to memory");
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        fs::write(folder.join(format!("{name}.1")), page).map_err(failed)?;
    }
    Ok(code::SUCCEEDED)
}

fn pages(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    std::iter::once(command).chain(below.flat_map(pages)).collect()
}

fn synopsis(command: &Command) -> Roff {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let rest = usage.strip_prefix(name).unwrap_or_default().trim_end();
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).text([bold(name), roman(rest)]);
    synopsis
}

fn render(command: &Command, to: &mut dyn Write) -> io::Result<()> {
    let is_root = command.get_name() == "ostler";
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone().disable_help_subcommand(true)).source(format!("ostler {version}"));
    man.render_title(to)?;
    man.render_name_section(to)?;
    synopsis(command).to_writer(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if command.has_subcommands() {
        man.render_subcommands_section(to)?;
    }
    let mut rest = Roff::new();
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let examples: Vec<&str> = after.lines().filter_map(|line| line.strip_prefix("  ostler")).collect();
    if !examples.is_empty() {
        rest.control("SH", ["EXAMPLES"]).control("nf", []);
        examples.iter().for_each(|example| {
            rest.text([roman(format!("ostler{example}"))]);
        });
        rest.control("fi", []);
    }
    for (heading, lines) in [("ENVIRONMENT", &ENVIRONMENT[..]), ("EXIT STATUS", &EXIT_CODES[..])] {
        rest.control("SH", [heading]);
        for (name, what) in lines {
            rest.control("TP", []).text([bold(*name)]).text([roman(*what)]);
        }
    }
    if !is_root {
        rest.control("SH", ["SEE ALSO"]).text([bold("ostler"), roman("(1)")]);
    }
    rest.to_writer(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line::root_command;

    #[test]
    fn a_page_begins_with_the_usage_line_of_the_help() {
        let mut root = root_command();
        root.build();
        for (name, expected) in [
            ("ostler", "ostler [OPTIONS] <COMMAND>"),
            ("ostler-run", "ostler run [OPTIONS] <PLAN>"),
            ("ostler-ps", "ostler ps [OPTIONS]"),
            ("ostler-client", "ostler client [OPTIONS] <COMMAND>"),
            ("ostler-client-add", "ostler client add [OPTIONS] <CLIENT>"),
            ("ostler-resolve", "ostler resolve [OPTIONS] <--done <FILE>|--redo|--fail|--gone> <RUN> <NODE>"),
            ("ostler-help", "ostler help [OPTIONS] [COMMAND|CODE|TOPIC]..."),
        ] {
            let is_it = |page: &&Command| page.get_display_name().unwrap_or_else(|| page.get_name()) == name;
            let mut page = Vec::new();
            render(pages(&root).into_iter().find(is_it).unwrap(), &mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            let line = page.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1).unwrap();
            let usage = line.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
            assert_eq!(usage, expected);
        }
    }
}
