//! A process that forks while it holds locks: its child has none of the engine's threads.

use std::{collections::BTreeMap, fs, process::Command};

use leasehold_tests::harness::redis_server::RedisServer;

/// Safe code can call `getppid`.
const FORKS: &str = "#include <unistd.h>\nint getppid(void) { return fork(); }\n";

/// The lines of `forked`, and all that it wrote.
fn forked(url: &str) -> (BTreeMap<String, String>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, library) = (directory.path().join("forks.c"), directory.path().join("forks.so"));
    fs::write(&source, FORKS).expect("a file");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.expect("cc: apt-get install gcc libc6-dev").success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_forked"));
    let output = command.arg(url).env("LD_PRELOAD", &library).output().expect("a process");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let lines = text.lines().filter_map(|line| line.split_once(" | "));
    (lines.map(|(what, said)| (what.to_owned(), said.to_owned())).collect(), text)
}

#[test]
fn in_a_forked_child_every_call_ends_at_once_and_the_parent_keeps_its_locks() {
    let server = RedisServer::start().expect("a redis-server");
    let (mut said, text) = forked(&server.url());
    let facts = [
        ("ended", "\"by itself\""),
        ("drops", "\"done\""),
        ("own engine", "Ok(())"),
        ("held", "true"),
        ("on the server", "Ok(true)"),
        ("released", "Ok(())"),
    ];
    for (what, fact) in facts {
        assert_eq!(said.remove(what).as_deref(), Some(fact), "{what}: {text}");
    }
    assert_eq!(said.len(), CALLS, "{text}");
    for (what, returned) in said {
        assert!(returned.to_lowercase().contains("forked"), "{what}: {returned}");
    }
    // Lines from threads of both engines: each process has a log thread of its own.
    for name in ["lost in the parent", "lost in the child"] {
        assert!(text.contains(&format!("lock=\"{name}\"")), "{name}: {text}");
    }
    let mut client = server.client().expect("a connection");
    // The names that the child wanted of the engine of its parent.
    let left = client.command(&["KEYS", "*child: *"]).expect("a reply");
    assert!(left.texts().is_empty(), "{left:?}");
}

/// Calls of the child, and those that had begun before.
const CALLS: usize = 56;
