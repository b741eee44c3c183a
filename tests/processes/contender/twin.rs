//! The contender over an engine with faults built in; the tests choose one by `LEASEHOLD_FAULT`.
//!
//! A name of its own, so that it never lies where the tests look for the healthy one. It takes the feature
//! `with_faults` to be built at all, and `--cfg leasehold_fault` to have faults; no release build takes that.

#[path = "main.rs"]
mod contender;

fn main() -> std::process::ExitCode {
    contender::main()
}
