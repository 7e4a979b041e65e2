//! The `ostler` command.
#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    // Before anything else: programs of steps start through this binary.
    ostler_drivers::cage::enter();
    cli::main()
}
