//! The program as a person uses it: on real servers, with its output and its exit codes.
#![allow(clippy::disallowed_methods, reason = "it watches real processes in real time; it is no pure file")]

mod doctor;
mod foreign_texts;
mod inspect;
mod list;
mod pages;
mod program;
mod release;
mod rights;
mod run;
mod run_and_failures;
mod sentinels;
mod terminal;
mod top;
mod top_metrics;
mod usage;
mod watch;
mod who;
