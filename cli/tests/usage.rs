//! What `leasehold` says to input that it cannot use: the exit code, what is wrong, and never a secret.

use leasehold_tests::harness::{port::free_port, redis_server::RedisServer};
use serde_json::Value;

use crate::program::{Ended, Program, leasehold, server};

const PASSWORD: &str = "hunter2";

/// Runs it without any server named, and checks that no secret is in the output.
fn said(variables: &[(&str, &str)], arguments: &[&str], code: i32) -> Ended {
    let ended = Program::start_with(variables, arguments).end().expect_code(code);
    assert!(!ended.stdout.contains(PASSWORD) && !ended.stderr.contains(PASSWORD), "{ended:?}");
    ended
}

#[test]
fn unknown_and_missing_arguments_have_one_code() {
    for arguments in [
        &["inspect", "x", "--fast"][..],
        &["frobnicate"],
        &["run", "x"],
        &["run", "x", "--wait", "10", "--", "true"],
        &["run", "x", "--kind", "fast", "--", "true"],
        &["run", "x", "--once", "--wait", "1s", "--", "true"],
        &["list", "--rate", "0"],
        &["redis://:hunter2@127.0.0.1", "inspect"],
        &["inspect", "x", "redis://:hunter2@127.0.0.1"],
        &["inspect", "x", "redis-sentinel://h?sentinelServiceName=m&sentinelPassword=hunter2"],
        &["inspect", "x", "cache,password=hunter2"],
        &["host=cache password=hunter2", "inspect"],
        &["top", "--metrics", "cache:9464,password=hunter2"],
    ] {
        let ended = said(&[], arguments, 64);
        assert!(ended.stdout.is_empty() && ended.stderr.starts_with("error: "), "{ended:?}");
    }
}

#[test]
fn a_command_of_run_without_the_two_dashes_gets_a_tip() {
    let tip = "the command of `run` stands behind `--`";
    assert!(said(&[], &["run", "x", "sleep", "1"], 64).stderr.contains(tip));
    let ended = said(&[], &["run", "x", "--json", "sleep", "1"], 64);
    assert!(ended.event("error")["error"].as_str().is_some_and(|text| text.contains(tip)), "{ended:?}");
    assert!(!said(&[], &["run", "x", "--fast", "--", "sleep", "1"], 64).stderr.contains(tip));
    assert!(!said(&[], &["inspect", "x", "--fast"], 64).stderr.contains(tip));
}

#[test]
fn with_json_a_wrong_argument_is_told_as_json() {
    let error = said(&[], &["inspect", "x", "--json", "--fast"], 64).event("error");
    let text = "unexpected argument '--fast' found; tip: to pass '--fast' as a value, use '-- --fast'";
    assert_eq!(error["error"], text);
}

#[test]
fn help_and_version_are_results() {
    let help = said(&[], &["--help"], 0);
    assert!(help.stdout.contains("Exit codes:") && help.stdout.contains("inspect"), "{help:?}");
    let help = said(&[], &["run", "--help"], 0);
    assert!(
        help.stdout.contains("SIGKILL before the") && help.stdout.contains("[default: exclusive]"),
        "{help:?}"
    );
    assert!(said(&[], &["--version"], 0).stdout.starts_with("leasehold 0."));
}

#[test]
fn one_place_names_the_servers() {
    for (variables, arguments) in [
        (&[][..], &["inspect", "x"][..]),
        (&[("LEASEHOLD_URL", "redis://a"), ("LEASEHOLD_CONFIG", "b.toml")], &["inspect", "x"]),
        (&[], &["inspect", "x", "--url", "redis://a", "--config", "b.toml"]),
    ] {
        let ended = said(variables, arguments, 64);
        assert!(ended.stderr.contains("--config"), "{ended:?}");
    }
    // An option wins over the environment.
    let variables = [("LEASEHOLD_CONFIG", "/no/such/file.toml")];
    said(&variables, &["inspect", "usage:x", "--url", server()], 0);
    said(&variables, &["inspect", "usage:x"], 78);
}

#[test]
fn single_settings_in_the_environment_name_the_servers() {
    let address = server().trim_start_matches("redis://");
    let variables = [("LEASEHOLD_REDIS__ADDRESSES", address)];
    said(&variables, &["inspect", "usage:x"], 0);
    let wrong = [variables[0], ("LEASEHOLD_ENGINE__TTL_MS", "ten")];
    assert!(said(&wrong, &["inspect", "usage:x"], 78).stderr.contains("LEASEHOLD_ENGINE__TTL_MS"));
}

// Otherwise a release by force could go to other servers than those of the URL.
#[test]
fn a_url_beside_a_variable_that_names_other_servers_is_refused() {
    let address = server().trim_start_matches("redis://");
    let release = ["release", "usage:x", "--force", "--yes", "--url", "redis://127.0.0.1:1"];
    for (variable, value) in [
        ("LEASEHOLD_REDIS__ADDRESSES", address),
        ("LEASEHOLD_REDIS__TOPOLOGY", "cluster"),
        ("LEASEHOLD_REDIS__SERVICE_NAME", "m"),
    ] {
        let both = format!("the URL and {variable} both name servers: unset {variable}");
        let ended = said(&[(variable, value)], &release, 64);
        assert!(ended.stderr.contains(&format!("--url: {both}")), "{ended:?}");
        let variables = [(variable, value), ("LEASEHOLD_URL", server())];
        let ended = said(&variables, &["inspect", "usage:x"], 64);
        assert!(ended.stderr.contains(&format!("LEASEHOLD_URL: {both}")), "{ended:?}");
    }
}

#[test]
fn a_variable_for_the_credentials_of_a_url_is_refused() {
    for (url, variable) in [
        ("redis://u:hunter2@127.0.0.1:1", "LEASEHOLD_REDIS__USERNAME"),
        ("redis://:hunter2@127.0.0.1:1", "LEASEHOLD_REDIS__PASSWORD__FILE"),
        ("redis://:hunter2@127.0.0.1:1", "LEASEHOLD_redis__password"),
    ] {
        let ended = said(&[("LEASEHOLD_URL", url), (variable, "hunter2")], &["list"], 64);
        assert!(ended.stderr.contains(&format!("the URL and {variable} both name a ")), "{ended:?}");
    }
    // A URL without them does not say who the user is.
    let variables = [("LEASEHOLD_URL", server()), ("LEASEHOLD_REDIS__PASSWORD__FILE", "/no/such/file")];
    assert!(said(&variables, &["list"], 78).stderr.contains("/no/such/file"));
}

#[test]
fn a_bad_url_is_told_with_the_form_of_its_scheme() {
    for (url, expected) in [
        ("redis-sentinel://h", "add ?sentinelServiceName=name"),
        ("redis-sentinel://a,b", "?sentinelServiceName=name[&node=host:port]"),
        ("redis://u:hunter2@h:99999", "redis://***@h:99999: the port must be a number from 1 to 65535"),
    ] {
        let ended = said(&[("LEASEHOLD_URL", url)], &["list"], 78);
        assert!(ended.stderr.contains(expected), "{ended:?}");
    }
    let help = said(&[], &["list", "--help"], 0).stdout;
    assert!(help.contains("redis-sentinel://HOST:PORT?sentinelServiceName=NAME"), "{help}");
}

#[test]
fn a_negative_duration_is_told_as_such() {
    for arguments in [
        &["run", "x", "--wait", "-1s", "--", "true"][..],
        &["run", "x", "--ttl", "-1s", "--", "true"],
        &["run", "x", "--grace", "-1s", "--", "true"],
        &["run", "x", "--at-least", "-1s", "--", "true"],
        &["watch", "x", "--interval", "-1s"],
        &["top", "--interval", "-1s"],
    ] {
        let ended = said(&[], arguments, 64);
        assert!(ended.stderr.contains("not negative"), "{ended:?}");
    }
}

#[test]
fn single_settings_in_the_environment_override_those_of_a_url() {
    let variables = [("LEASEHOLD_ENGINE__TTL_MS", "ten")];
    let ended = said(&variables, &["inspect", "usage:x", "--url", server()], 78);
    assert!(ended.stderr.contains("LEASEHOLD_ENGINE__TTL_MS"), "{ended:?}");
    let wrong = said(&[("LEASEHOLD_TTL_MS", "5000")], &["inspect", "usage:x", "--url", server()], 78);
    assert!(
        wrong.stderr.contains("the variable of `engine.ttl_ms` is LEASEHOLD_ENGINE__TTL_MS"),
        "{wrong:?}"
    );
}

#[test]
fn options_of_permits_need_their_kind() {
    for option in ["--limit", "--count"] {
        let ended = said(&[("LEASEHOLD_URL", server())], &["run", "usage:n", option, "3", "--", "true"], 64);
        assert!(ended.stderr.contains("--kind permits"), "{ended:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leasehold.toml");
    std::fs::write(&file, "[redis]\naddresses = [\"a:1\"]\npasword = \"hunter2\"\n").expect("written");
    let ended = said(&[], &["doctor", "--config", file.to_str().expect("UTF-8")], 78);
    assert!(ended.stderr.contains("leasehold.toml:3"), "{ended:?}");
    said(&[("LEASEHOLD_URL", "redis://:hunter2@h/x")], &["list"], 78);
    said(&[("LEASEHOLD_URL", "http://app:hunter2@h")], &["list"], 78);
}

#[test]
fn a_connection_string_in_place_of_a_url_is_refused_and_not_shown() {
    for text in [
        "cache.example.net:6380,password=hunter2,ssl=True",
        "host=cache port=6379 password=hunter2",
        "cache;password=hunter2",
        "hunter2",
        "redis://cache,password=hunter2",
        "redis://cache&password=hunter2",
        "redis://cache/0,password=hunter2",
        "redis://app:57#hunter2@cache/0",
        "redis-sentinel://h/m,password=hunter2",
        "redis-sentinel://h?sentinelServiceName=m,password=hunter2",
    ] {
        said(&[("LEASEHOLD_URL", text)], &["list"], 78);
        said(&[], &["list", "--url", text], 78);
        if text.contains(['=', '#']) {
            said(&[("LEASEHOLD_REDIS__ADDRESSES", text)], &["list", "--json"], 78);
        }
    }
}

#[test]
fn a_redisson_file_names_the_servers_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = format!("singleServerConfig:\n  address: {}\n  connectionPoolSize: 8\n", server());
    let json = format!(
        "\u{feff}{{\n\t\"singleServerConfig\":{{\"address\":\"{}\",\"clientName\":null}},\n\t\"nameMapper\":\
         {{\"class\":\"org.redisson.config.DefaultNameMapper\"}}\n}}\n",
        server()
    );
    for (name, text) in [
        ("redisson.yaml", &yaml),
        ("redisson.json", &json),
        ("redisson.JSON", &json),
        ("redisson.conf", &json),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        said(&[("LEASEHOLD_CONFIG", file.to_str().expect("UTF-8"))], &["inspect", "usage:x"], 0);
    }
}

#[test]
fn a_wrong_password_is_refused_without_being_shown() {
    let server = RedisServer::builder().password("hunter2-right").start().expect("a server");
    let url = format!("redis://:hunter2-wrong@127.0.0.1:{}", server.port());
    for command in
        [&["inspect", "x"][..], &["list"], &["doctor"], &["run", "x", "--", "true"], &["list", "--json"]]
    {
        let ended = said(&[("LEASEHOLD_URL", &url)], command, 77);
        assert!(ended.stdout.is_empty() && ended.stderr.contains("WRONGPASS"), "{ended:?}");
    }
    let visible = said(&[], &["inspect", "x", "--url", &url], 77);
    assert!(visible.stderr.contains("visible to every user"), "{visible:?}");
}

#[test]
fn a_server_that_is_down_is_not_a_lock_that_is_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leasehold.toml");
    let port = free_port().expect("a port");
    let text =
        format!("[engine]\nunavailable_after_ms = 1000\n[redis]\naddresses = [\"127.0.0.1:{port}\"]\n");
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("UTF-8");
    for command in [&["run", "x", "--wait", "0", "--", "true"][..], &["inspect", "x"], &["list"], &["doctor"]]
    {
        let ended = said(&[("LEASEHOLD_CONFIG", file)], &[&["--json"], command].concat(), 75);
        let error: Value = ended.event("error");
        assert!(error["error"].as_str().is_some_and(|text| text.contains("cannot connect")), "{ended:?}");
        assert_eq!(error["exit_code"], 75);
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let pipe = format!("{} --help | true", env!("CARGO_BIN_EXE_leasehold"));
    let ended = std::process::Command::new("sh").args(["-c", &pipe]).output().expect("sh");
    assert!(!String::from_utf8_lossy(&ended.stderr).contains("panicked"));
    drop(leasehold(server(), &["inspect", "usage:x"]).expect_code(0));
}

#[test]
fn a_wait_for_servers_is_told_before_it_ends() {
    let url = format!("redis://127.0.0.1:{}", free_port().expect("a port"));
    let variables = [("LEASEHOLD_URL", &*url), ("LEASEHOLD_ENGINE__UNAVAILABLE_AFTER_MS", "5000")];
    for command in [&["run", "x", "--", "true"][..], &["who", "x"]] {
        let ended = said(&variables, &[&["--json"], command].concat(), 75);
        let waiting = ended.event("waiting");
        let servers = url.trim_start_matches("redis://");
        assert_eq!((&waiting["servers"], &waiting["patience_ms"]), (&servers.into(), &5_000.into()));
    }
    let text = said(&variables, &["inspect", "x"], 75).stderr;
    assert!(text.contains("waiting for at most 5s\nleasehold: no server was ready within 5s: "), "{text}");
}
