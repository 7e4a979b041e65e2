//! `ostler completions`: what a shell needs to complete our commands and options.

use clap::Args;
use clap_complete::{Shell, generate};

use super::exit::{Failure, code};
use super::term::Out;
use super::{Globals, command};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(globals: &Globals, args: &CompletionsArgs) -> Result<u8, Failure> {
    globals.text_only("completions")?;
    let mut script = Vec::new();
    generate(args.shell, &mut command(), "ostler", &mut script);
    Out::new().raw(&script);
    Ok(code::SUCCEEDED)
}
