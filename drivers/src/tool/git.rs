//! Keeps read-only git calls from starting programs. A repository's settings can name programs that git starts to show a diff or
//! compare a file. [`OBSERVING_ENVIRONMENT`](ostler_kernel::gate::OBSERVING_ENVIRONMENT) overrides those with fixed names;
//! those with arbitrary names are looked up in the settings and overridden here.

use std::collections::BTreeSet;

/// Lists the names of all effective settings. Starts no program.
pub(super) const LIST_SETTINGS: [&str; 5] = ["git", "config", "--null", "--name-only", "--list"];

/// True if the program is git.
pub(super) fn is_git(argv: &[String]) -> bool {
    argv.first().is_some_and(|program| program == "git")
}

/// Adds flags that disable external diffs, text conversions and submodules. The former have names of the repository's choice; a
/// submodule has settings of its own that the overrides do not reach.
pub(super) fn without_programs(mut argv: Vec<String>) -> Vec<String> {
    let flags: &[&str] = match argv.get(1).map(String::as_str) {
        Some("log" | "show" | "diff") => &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"],
        Some("status") => &["--ignore-submodules=all"],
        Some("blame") => &["--no-textconv"],
        _ => &[],
    };
    // In front of the given arguments, so that flags permitted by an operator's entry still take precedence.
    for (at, flag) in flags.iter().enumerate() {
        argv.insert(2 + at, (*flag).to_owned());
    }
    argv
}

/// `environment` plus overrides of the program settings in `listed`, the output of [`LIST_SETTINGS`].
pub(super) fn overriding(environment: &[(&str, &str)], listed: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let count = all.iter().find(|(name, _)| name == COUNT).and_then(|(_, count)| count.parse().ok());
    let mut count: usize = count.unwrap_or(0);
    all.retain(|(name, _)| name != COUNT);
    let names: BTreeSet<&str> = listed.split('\0').collect();
    for (name, value) in names.into_iter().filter_map(|name| Some((name, harmless(name)?))) {
        all.push((format!("GIT_CONFIG_KEY_{count}"), name.to_owned()));
        all.push((format!("GIT_CONFIG_VALUE_{count}"), value.to_owned()));
        count += 1;
    }
    all.push((COUNT.to_owned(), count.to_string()));
    all
}

const COUNT: &str = "GIT_CONFIG_COUNT";

/// The override of a setting that may start a program.
fn harmless(name: &str) -> Option<&'static str> {
    let (section, rest) = name.split_once('.')?;
    let (_, key) = rest.rsplit_once('.')?;
    match (section, key) {
        ("filter", "clean" | "smudge" | "process") => Some(""),
        ("filter", "required") => Some("false"),
        ("merge", "driver") => Some("false"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn flags_stand_before_what_was_given() {
        let looking = |line: &str| without_programs(line.split(' ').map(str::to_owned).collect()).join(" ");
        let expected = "git log --no-ext-diff --no-textconv --ignore-submodules=all -p -- a";
        assert_eq!(looking("git log -p -- a"), expected);
        assert_eq!(looking("git status -s"), "git status --ignore-submodules=all -s");
        assert_eq!(looking("git blame a"), "git blame --no-textconv a");
        assert_eq!(looking("git rev-parse HEAD"), "git rev-parse HEAD");
        assert_eq!(looking("git"), "git");
    }

    #[test]
    fn settings_that_name_programs_are_overridden_once_each() {
        let listed = "user.name\0filter.x.y.clean\0filter.x.y.clean\0filter.a.required\0merge.m.driver\0filter.clean\0";
        let environment = overriding(&[("A", "b"), (COUNT, "1")], listed);
        expect![[r#"
            A=b
            GIT_CONFIG_KEY_1=filter.a.required
            GIT_CONFIG_VALUE_1=false
            GIT_CONFIG_KEY_2=filter.x.y.clean
            GIT_CONFIG_VALUE_2=
            GIT_CONFIG_KEY_3=merge.m.driver
            GIT_CONFIG_VALUE_3=false
            GIT_CONFIG_COUNT=4
        "#]]
        .assert_eq(&environment.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>());
    }
}
