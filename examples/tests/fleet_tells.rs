//! What `fleet` tells beside its summary: the audit at its start, and a log for who wants to judge several at once.

use std::path::Path;

use leasehold_tests::harness::{
    checkers::{overlaps, token_order},
    redis_server::RedisServer,
};

use crate::{fleet::FLEET, history::History, program::run};

const FEW: [&str; 9] = ["--seconds", "1", "--leases", "20", "--contenders", "4", "--keys", "2", "--json"];

#[test]
fn the_audit_is_printed_first_with_a_remedy_in_each_line_and_stays_out_of_stdout() {
    let server = RedisServer::builder().option("--maxmemory-policy", "volatile-ttl");
    let server = server.option("--maxmemory", "1gb").start().expect("a server");
    let ended = run(FLEET, &[&FEW[..], &["--url", &server.url()]].concat()).expect_code(0);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let audit: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("audit: ")).collect();
    let first_status = lines.iter().position(|line| line.contains("grants/s")).unwrap_or(lines.len());
    assert!(audit.len() > 3 && audit.iter().all(|at| *at < first_status), "{}", ended.stderr);
    assert!(audit.iter().all(|at| lines[*at].contains("; ")), "{}", ended.stderr);
    let eviction = format!("audit: error eviction 127.0.0.1:{}: ", server.port());
    assert!(lines[audit[0]].starts_with(&eviction), "the worst is not first: {}", ended.stderr);
    assert_eq!(ended.json()["overlaps"], 0);
    assert!(!ended.stdout.contains("audit"), "{}", ended.stdout);
}

#[test]
fn in_memory_the_audit_says_that_nobody_else_is_excluded() {
    let ended = run(FLEET, &FEW).expect_code(0);
    assert!(ended.stderr.contains("audit: info memory: "), "{}", ended.stderr);
}

#[test]
fn the_log_has_every_lease_from_its_grant_to_its_end() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("UTF-8");
    let ended = run(FLEET, &[&FEW[..], &["--log", path]].concat()).expect_code(0);
    let history = History::read([Path::new(path)]);
    assert_eq!(ended.json()["granted"], history.windows.len());
    assert!(history.lost.is_empty(), "{:?}", history.lost);
    let report = overlaps(&history.windows);
    assert_eq!((report.violations, report.empty, report.keys), (vec![], 0, 20 + 2));
    assert_eq!(token_order(&history.windows), []);
}

#[test]
fn a_log_with_gaps_is_a_failure() {
    let ended = run(FLEET, &[&FEW[..], &["--log", "/dev/full"]].concat()).expect_code(1);
    assert!(ended.stdout.contains("NOT WELL: the log has gaps: "), "{}", ended.stdout);
}
