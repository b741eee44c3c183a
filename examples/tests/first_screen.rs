//! The first program of README.md is `readme.rs`, and it runs.

use std::process::Command;

use leasehold_tests::harness::redis_server::RedisServer;

#[test]
fn the_first_program_of_the_readme_is_the_example() {
    let page = include_str!("../../README.md");
    let (_, from) = page.split_once("```rust,no_run\n").expect("a program");
    let (program, _) = from.split_once("```\n").expect("its end");
    assert_eq!(program, include_str!("../readme.rs"), "copy the one that you mean to keep");
}

#[test]
fn it_runs_on_a_real_server() {
    let server = RedisServer::start().expect("a server");
    let mut program = Command::new(env!("CARGO_BIN_EXE_readme"));
    let ended = program.env("REDIS_URL", server.url()).output().expect("cargo has built it");
    let (said, trouble) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && said.starts_with("held, with fencing token "), "{said}{trouble}");
}
