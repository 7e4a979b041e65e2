//! `ostler completions`.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;

/// Completes names with `ostler complete`, else falls back to the generated script. The word is taken from
/// the whole line, because bash splits words at `@`.
const BASH_NAMES: &str = r#"
_ostler_or_names() {
    local IFS=$' \t\n' line="${COMP_LINE:0:COMP_POINT}" word names
    local -a words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    word="${words[${#words[@]}-1]}"
    IFS=$'\n'
    if names=$("$1" complete -- "${words[@]:1}" 2>/dev/null); then
        # A name is meant, and no file, even where there is none that begins so.
        COMPREPLY=( $names )
        COMPREPLY=( "${COMPREPLY[@]#"${word%"$2"}"}" )
        compopt +o default +o bashdefault 2>/dev/null
    else
        IFS=$' \t\n'
        _ostler "$@"
        [[ "$2" == -* ]] || _ostler_no_options "$2" "${words[@]:1}"
    fi
    return 0
}

# Options are offered to who has begun to type one. Where nothing else is known, a file is meant: of `run` and `check` a plan,
# else any, which is what bash itself offers.
_ostler_no_options() {
    local begun="$1" one
    local -a offered=("${COMPREPLY[@]}")
    COMPREPLY=()
    shift
    for one in "${offered[@]}"; do
        [[ "$one" == -* ]] || COMPREPLY+=("$one")
    done
    (( ${#COMPREPLY[@]} == 0 )) && [[ " $* " == *" run "* || " $* " == *" check "* ]] || return 0
    while IFS= read -r one; do
        if [[ -d "$one" || "$one" == *.yaml || "$one" == *.yml || "$one" == *.json || "$one" == *.toml ]]; then
            COMPREPLY+=("$one")
        fi
    done < <(compgen -f -- "$begun")
    compopt -o filenames 2>/dev/null
    return 0
}
"#;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(crate) fn completions(globals: &Globals, args: &CompletionsArgs, root: &Command) -> Result<u8, Failure> {
    globals.text_only("completions")?;
    let mut script = Vec::new();
    generate(args.shell, &mut visible_command(root), "ostler", &mut script);
    let mut out = Out::new();
    if args.shell == Shell::Bash {
        // Bash uses the last registration.
        let script = String::from_utf8(script).expect("a script is text");
        out.raw(script.replace("complete -F _ostler ", "complete -F _ostler_or_names ").as_bytes());
        out.raw(BASH_NAMES.as_bytes());
    } else {
        out.raw(&script);
    }
    Ok(code::SUCCEEDED)
}

/// The command without its hidden subcommands, which the generators would offer.
fn visible_command(whole: &Command) -> Command {
    let below = whole.get_subcommands().filter(|below| !below.is_hide_set()).cloned();
    Command::new("ostler")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(whole.get_arguments().cloned())
        .subcommands(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line::root_command;

    #[test]
    fn every_shell_is_told_the_words_of_an_option_that_has_some() {
        for shell in [Shell::Zsh, Shell::Fish, Shell::Bash] {
            let mut script = Vec::new();
            generate(shell, &mut visible_command(&root_command()), "ostler", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["autonomous_escalation", "spot_check", "supervised"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn no_shell_offers_what_is_hidden() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let mut script = Vec::new();
            generate(shell, &mut visible_command(&root_command()), "ostler", &mut script);
            let script = String::from_utf8(script).unwrap();
            for hidden in ["what a shell offers", "subcmd__complete)"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
            for word in ["completions", "version", "data"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
