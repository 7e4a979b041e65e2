//! `ostler completions`: what a shell needs to complete our commands and options.

use clap::Args;
use clap_complete::{Shell, generate};

use super::exit::{Failure, code};
use super::term::Out;
use super::{Globals, command};

/// Runs and nodes, where the word being typed names one; else what the script that is made from the arguments says.
/// The word is taken from the line: bash itself takes what follows an `@` for a word of its own.
const BASH_NAMES: &str = r#"
_ostler_or_names() {
    local IFS=$' \t\n' line="${COMP_LINE:0:COMP_POINT}" word
    local -a words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    word="${words[${#words[@]}-1]}"
    IFS=$'\n'
    COMPREPLY=( $("$1" complete -- "${words[@]:1}" 2>/dev/null) )
    if (( ${#COMPREPLY[@]} )); then
        COMPREPLY=( "${COMPREPLY[@]#"${word%"$2"}"}" )
    else
        IFS=$' \t\n'
        _ostler "$@"
    fi
}
"#;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(globals: &Globals, args: &CompletionsArgs) -> Result<u8, Failure> {
    globals.text_only("completions")?;
    let mut script = Vec::new();
    generate(args.shell, &mut command(), "ostler", &mut script);
    let mut out = Out::new();
    if args.shell == Shell::Bash {
        // The last registration counts.
        let script = String::from_utf8(script).expect("a script is text");
        out.raw(script.replace("complete -F _ostler ", "complete -F _ostler_or_names ").as_bytes());
        out.raw(BASH_NAMES.as_bytes());
    } else {
        out.raw(&script);
    }
    Ok(code::SUCCEEDED)
}
