//! The ready files under `examples/config`, and what the programs make of a file.

use std::{fs, path::Path};

use leasehold_redis::{ConfigFile, RedisTopology};
use leasehold_tests::harness::redis_server::RedisServer;

use crate::{
    fleet::FLEET,
    program::{Ended, run},
};

pub(crate) const SINGLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/single.toml");
pub(crate) const SENTINEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/sentinel.toml");
pub(crate) const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/cluster.toml");

/// A file with other ports than the ready one, since tests take free ones.
pub(crate) struct FileFor(tempfile::NamedTempFile);

impl FileFor {
    pub(crate) fn ports(ready: &str, ports: &[(u16, u16)]) -> Self {
        let mut text = fs::read_to_string(ready).expect("a ready file");
        for (ready, free) in ports {
            let ready = format!(":{ready}\"");
            assert!(text.contains(&ready), "{ready} in {text}");
            text = text.replace(&ready, &format!(":{free}\""));
        }
        Self::of(&text)
    }

    pub(crate) fn of(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        Self(file)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path().to_str().expect("UTF-8")
    }
}

fn fleet(arguments: &[&str], code: i32) -> Ended {
    let few = ["--seconds", "1", "--leases", "5", "--contenders", "2", "--keys", "1", "--json"];
    run(FLEET, &[arguments, &few].concat()).expect_code(code)
}

#[test]
fn the_ready_files_name_the_three_topologies() {
    let all = [
        (SINGLE, RedisTopology::Single, 1, 6379),
        (SENTINEL, RedisTopology::Sentinel, 3, 26379),
        (CLUSTER, RedisTopology::Cluster, 6, 7000),
    ];
    for (path, topology, count, first_port) in all {
        let redis = ConfigFile::read(path).expect("a good file").redis;
        assert_eq!((redis.topology, redis.addresses.len()), (topology, count), "{path}");
        assert!(redis.addresses.iter().map(|address| address.port).eq(first_port..first_port + count as u16));
    }
    let folder = Path::new(SINGLE).parent().expect("a folder");
    assert_eq!(fs::read_dir(folder).expect("the folder").count(), all.len());
}

#[test]
fn fleet_takes_servers_and_settings_of_a_file() {
    let server = RedisServer::builder().password("hunter2").start().expect("a server");
    let text = format!(
        "[engine]\nttl_ms = 7000\nname_prefix = \"shop:\"\n[redis]\naddresses = [\"localhost:{}\"]\npassword = \"hunter2\"",
        server.port()
    );
    let file = FileFor::of(&text);
    let ended = fleet(&["--config", file.path()], 0);
    assert_eq!((&ended.json()["ttl_ms"], &ended.json()["transport"]), (&7000.into(), &"redis".into()));
    assert!(!ended.stderr.contains("hunter2") && !ended.stdout.contains("hunter2"));
    let ended = fleet(&["--config", file.path(), "--ttl-ms", "9000"], 0);
    assert_eq!(ended.json()["ttl_ms"], 9000);
}

#[test]
fn a_wrong_file_is_told_with_file_line_and_key() {
    let file = FileFor::of("[redis]\naddresses = [\"h\"]\npassword = \"hunter2\"\ndatabse = 3\n");
    for program in [FLEET, env!("CARGO_BIN_EXE_quickstart"), env!("CARGO_BIN_EXE_losing_a_lease")] {
        let code = if program == FLEET { 2 } else { 1 };
        let ended = run(program, &["--config", file.path()]).expect_code(code);
        let place = format!("{}:4:1", file.path());
        assert!(
            ended.stderr.contains(&place) && ended.stderr.contains("did you mean `database`"),
            "{}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
    let ended = run(FLEET, &["--config", "/nowhere/leasehold.toml"]).expect_code(2);
    assert!(ended.stderr.contains("/nowhere/leasehold.toml: cannot be read"), "{}", ended.stderr);
}
