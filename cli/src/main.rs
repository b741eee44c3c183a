//! `leasehold`: a command line program for operators and scripts. It runs commands under a lock, shows who holds locks,
//! lists and releases them, and checks the servers. `README.md` has the commands and the exit codes.

#[cfg(not(target_os = "linux"))]
compile_error!("the program leasehold needs Linux: it finds the processes of its command in /proc");

mod arguments;
mod commands;
mod contention;
mod credentials;
mod duration;
mod endpoints;
mod exit;
mod failure;
mod kind;
mod look;
mod output;
mod owners;
mod place;
mod report;
mod run;
mod servers;
mod system_error;

use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};

use crate::{arguments::Arguments, failure::Failure, output::Output};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(tell_usage(&error)),
    };
    let output = Output::new(arguments.json);
    let code = commands::dispatch(arguments, output).await.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.code
    });
    output::flush();
    ExitCode::from(code)
}

/// Prints help, the version, or what is wrong with the arguments. An argument in the wrong place may be a URL with a
/// password, which is hidden.
fn tell_usage(error: &clap::Error) -> u8 {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let mut text = credentials::hidden(&error.to_string(), arguments);
    if error.kind() == ErrorKind::UnknownArgument && is_command_of_run() {
        text.push_str(COMMAND_TIP);
    }
    if !error.use_stderr() {
        return Output::new(false)
            .print(text.trim_end())
            .map_or_else(|failure: Failure| failure.code, |()| exit::SUCCESS);
    }
    match is_json_asked_for() {
        true => {
            Output::new(true).failure(&Failure::new(exit::USAGE, in_one_line(&text)));
            output::flush();
        }
        false => eprintln!("{}", text.trim_end()),
    }
    exit::USAGE
}

/// What is wrong, without the usage and the word `error:`, which JSON has in fields of its own.
fn in_one_line(text: &str) -> String {
    let is_about_it = |paragraph: &&str| {
        !["Usage:", "For more information"].iter().any(|start| paragraph.trim().starts_with(start))
    };
    let paragraphs = text.trim_start_matches("error: ").split("\n\n").filter(is_about_it);
    let lines = paragraphs.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("; ")
}

/// Whether `run` has arguments that are probably its command, without a `--` before it.
fn is_command_of_run() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.any(|argument| argument == "run") && !arguments.any(|argument| argument == "--")
}

/// The arguments could not be read, so they are searched. Those behind `--` belong to a command.
fn is_json_asked_for() -> bool {
    std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

const COMMAND_TIP: &str = "\n  tip: the command of `run` stands behind `--`: leasehold run NAME -- COMMAND\n";
