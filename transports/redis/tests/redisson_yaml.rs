//! Redisson YAMLs as people write them: what becomes of the good ones, and what is said to the others. Each
//! `redisson_yaml/bad/NAME.yaml` is refused with the words in `NAME.txt`, at the line that ends in `# here`.
//!
//! `LEASEHOLD_WRITE_EXPECTED=1 cargo test -p leasehold-redis --features redisson-yaml --test redisson_yaml` writes the
//! words anew, to be read in the diff.

use std::{
    fs,
    path::{Path, PathBuf},
};

use leasehold_redis::{
    Address, ConfigFile, ConfigFileError, IgnoredKey, NoticeKind, Password, RedisTopology,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redisson_yaml").join(name)
}

fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder(name)).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    files.sort();
    files
}

fn good(name: &str) -> (ConfigFile, Vec<IgnoredKey>) {
    ConfigFile::from_redisson_yaml(folder("good").join(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(path: &Path) -> ConfigFileError {
    let text = fs::read_to_string(path).expect("UTF-8");
    let name = path.file_name().expect("a name").to_string_lossy();
    ConfigFile::parse_redisson_yaml(&text, &name).err().unwrap_or_else(|| panic!("{name} is accepted"))
}

fn addresses(file: &ConfigFile) -> Vec<String> {
    file.redis.addresses.iter().map(Address::to_string).collect()
}

#[test]
fn a_single_server_of_the_documentation_is_read() {
    let (file, ignored) = good("single.yaml");
    assert_eq!(
        (file.redis.topology, addresses(&file)),
        (RedisTopology::Single, vec!["127.0.0.1:6379".into()])
    );
    assert_eq!((file.redis.database, file.redis.batch_leases_max), (2, 50));
    assert!(matches!(file.redis.password, Some(Password::Value(_))) && file.redis.tls.is_none());
    assert_eq!((file.engine.ttl_ms, file.engine.command_timeout_ms), (20_000, 3_000));
    assert_eq!(file.engine.unavailable_after_ms, 4 * 3_000 + 3 * 1_500, "when Redisson gives up");
    let codec = ignored.iter().find(|ignored| ignored.key == "codec").expect("a note");
    assert_eq!(
        codec.to_string(),
        "line 20: `codec` has no effect: locks store no values that a codec would write"
    );
    assert!(
        !ignored.iter().any(|ignored| ignored.key.ends_with("clientName")),
        "null is not set: {ignored:?}"
    );
}

#[test]
fn sentinels_with_tls_and_addresses_behind_nat_are_read() {
    let (file, _) = good("sentinel.yaml");
    assert_eq!(file.redis.topology, RedisTopology::Sentinel);
    let sentinels = ["sentinel-1.internal:26379", "sentinel-2.internal:26379", "[fe80::1]:26380"];
    assert_eq!(addresses(&file), sentinels);
    let names = [&file.redis.service_name, &file.redis.username, &file.redis.sentinel_username];
    assert_eq!(names.map(|name| name.as_deref().unwrap_or_default()), ["mymaster", "orders", "watcher"]);
    assert!(file.redis.password.is_some() && file.redis.sentinel_password.is_some());
    let ca = file.redis.tls.as_ref().and_then(|tls| tls.ca.clone());
    assert_eq!(ca, Some("/etc/ssl/redis-ca.pem".into()));
    let mapped = file.redis.address_map.get(&Address::new("10.0.0.2", 6379));
    assert_eq!(mapped, Some(&Address::new("nat.example", 7002)));
    assert_eq!(file.engine.command_timeout_ms, 1_000, "what is not written has the default of Leasehold");
}

#[test]
fn a_cluster_as_redisson_prints_it_is_read() {
    let (file, ignored) = good("cluster.yaml");
    assert_eq!((file.redis.topology, file.redis.notices), (RedisTopology::Cluster, NoticeKind::Sharded));
    assert_eq!(addresses(&file), ["node-1:7000", "node-2:7001"]);
    assert_eq!(file.redis.username.as_deref(), Some("app"));
    assert!(file.redis.password.is_some(), "a number is a password too");
    assert_eq!(file.engine.unavailable_after_ms, 5 * 3_000 + 4 * 1_500);
    for key in ["clusterServersConfig.retryDelay", "checkLockSyncedSlaves", "tcpUserTimeout"] {
        assert!(ignored.iter().any(|ignored| ignored.key == key), "{key}: {ignored:?}");
    }
    assert!(ignored.is_sorted_by_key(|ignored| ignored.line), "in the order of the file");
}

#[test]
fn what_redisson_itself_prints_is_read() {
    let printed = files("printed", "yaml");
    assert_eq!(printed.len(), 9, "three sections of three versions");
    for path in printed {
        let (file, _) = ConfigFile::from_redisson_yaml(&path).unwrap_or_else(|error| panic!("{error}"));
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let (topology, first) = match name.split('-').next() {
            Some("single") => (RedisTopology::Single, "127.0.0.1:6399"),
            Some("sentinel") => (RedisTopology::Sentinel, "127.0.0.1:26379"),
            _ => (RedisTopology::Cluster, "127.0.0.1:7000"),
        };
        assert_eq!((file.redis.topology, addresses(&file)[0].as_str()), (topology, first), "{name}");
    }
}

/// Their number is that of a file of some megabytes. With a comparison of each two of them it would take minutes.
#[test]
fn a_hundred_thousand_unknown_keys_are_answered_by_the_first() {
    let mut yaml = String::from("singleServerConfig:\n  address: cache\n");
    yaml.extend((0..100_000).map(|number| format!("unknown{number}: 1\n")));
    let error = ConfigFile::parse_redisson_yaml(&yaml, "redisson.yaml").expect_err("unknown");
    assert_eq!(error.line(), Some(3), "{error}");
}

#[test]
fn each_bad_one_is_refused_with_the_words_beside_it() {
    let files = files("bad", "yaml");
    assert!(files.len() >= 25, "{} files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let (said, beside) = (format!("{}\n", refusal(&path)), path.with_extension("txt"));
        if std::env::var_os("LEASEHOLD_WRITE_EXPECTED").is_some() {
            fs::write(&beside, &said).expect("written");
        } else if fs::read_to_string(&beside).ok().as_ref() != Some(&said) {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "not the words beside the file:\n{}", wrong.join(""));
}

#[test]
fn each_refusal_names_the_line_to_change_and_its_key() {
    for path in files("bad", "yaml") {
        let (text, error) = (fs::read_to_string(&path).expect("UTF-8"), refusal(&path));
        let marked = text.lines().position(|line| line.contains("# here")).map(|line| line + 1);
        assert_eq!(error.line(), marked.or(Some(1)), "{path:?}: {error}");
        let line = marked.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
        let key = line.split("# here").nth(1).unwrap_or_default().trim();
        assert_eq!(error.key().unwrap_or_default(), key, "{path:?}: {error}");
        assert!(error.remedy().len() > 10, "{error}");
    }
}

#[test]
fn no_words_are_left_without_their_yaml() {
    for path in files("bad", "txt") {
        assert!(path.with_extension("yaml").exists(), "{path:?}");
    }
}

/// A file is mistyped anywhere, and cut off anywhere: there is an answer, and nothing of the secret is in it.
#[test]
fn wherever_a_letter_of_a_yaml_is_missing_no_secret_is_repeated() {
    let mut refused = 0;
    for path in files("bad", "yaml") {
        let text = fs::read_to_string(&path).expect("UTF-8");
        for (at, letter) in text.char_indices() {
            let (before, behind) = (&text[..at], &text[at + letter.len_utf8()..]);
            for mistyped in
                [before.to_owned(), format!("{before}{behind}"), format!("{before}\"{letter}{behind}")]
            {
                let Err(error) = ConfigFile::parse_redisson_yaml(&mistyped, "redisson.yaml") else {
                    continue;
                };
                refused += 1;
                let said = format!("{error} {error:?}");
                let leaks = ["hun", "ter2"].iter().find(|part| said.contains(**part));
                assert_eq!(leaks, None, "{said}\nsaid to\n{mistyped}");
            }
        }
    }
    assert!(refused > 4_000, "{refused} refused");
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_name() {
    let error = ConfigFile::from_redisson_yaml("/no/such/redisson.yaml").expect_err("no such file");
    assert!(error.to_string().contains("/no/such/redisson.yaml") && error.line().is_none(), "{error}");
}
