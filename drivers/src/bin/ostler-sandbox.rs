//! The helper of cages alone, for applications that embed the library and for the tests of this crate: `helper` of `[sandbox]`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    ostler_drivers::cage::enter();
    eprintln!("ostler-sandbox: ostler starts this program itself, to confine the programs of steps");
    std::process::ExitCode::FAILURE
}
