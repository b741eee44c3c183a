use super::{super::Password, *};

fn environment(all: &[(&str, &str)]) -> Environment<'static> {
    let all = all.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Environment { variables: &|_| None, all }
}

fn read(text: &str, all: &[(&str, &str)]) -> Result<ConfigFile, String> {
    let folder = Path::new("/etc/leasehold");
    ConfigFile::parse_with(text, "leasehold.toml", Some(folder), &environment(all)).map_err(|error| {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        error.to_string()
    })
}

const FILE: &str = "[engine]\nttl_ms = 20000\n[redis]\naddresses = [\"file:1\"]\ndatabase = 3\n";

#[test]
fn a_variable_wins_over_the_file_and_the_rest_stays() {
    let file = read(
        FILE,
        &[
            ("LEASEHOLD_ENGINE__TTL_MS", "15000"),
            ("LEASEHOLD_ENGINE__WAIT_MS", "2000"),
            ("LEASEHOLD_ENGINE__FENCING", "counter"),
            ("LEASEHOLD_REDIS__TOPOLOGY", "sentinel"),
            ("LEASEHOLD_REDIS__ADDRESSES", "s1, s2:7"),
            ("LEASEHOLD_REDIS__SERVICE_NAME", "m"),
            ("LEASEHOLD_REDIS__PASSWORD__FILE", "secret"),
            ("LEASEHOLD_REDIS__SENTINEL_TLS__PLAIN", "true"),
        ],
    )
    .unwrap();
    assert_eq!((file.engine.ttl_ms, file.engine.wait_ms), (15_000, Some(2_000)));
    assert_eq!(file.engine.fencing, leasehold::FencingMode::Counter);
    let addresses: Vec<_> = file.redis.addresses.iter().map(ToString::to_string).collect();
    assert_eq!((addresses, file.redis.database), (vec!["s1:26379".to_owned(), "s2:7".to_owned()], 3));
    assert!(matches!(file.redis.password, Some(Password::File(path)) if path == Path::new("secret")));
    assert!(file.redis.sentinel_tls.unwrap().plain);
}

#[test]
fn a_section_of_the_environment_begins_empty_or_is_that_of_the_file() {
    assert!(read(FILE, &[("LEASEHOLD_REDIS__TLS", "{}")]).unwrap().redis.tls.is_some());
    let text = "[redis]\naddresses = [\"a\"]\npassword = \"hunter2\"\n[redis.tls]\nserver_name = \"b\"";
    let redis = read(text, &[("LEASEHOLD_REDIS__TLS__CA", "ca.pem")]).unwrap().redis;
    let tls = redis.tls.unwrap();
    assert_eq!((tls.server_name.as_deref(), tls.ca), (Some("b"), Some("ca.pem".into())));
    let redis = read(text, &[("LEASEHOLD_REDIS__PASSWORD__ENV", "P")]).unwrap().redis;
    assert!(matches!(redis.password, Some(Password::Env(name)) if name == "P"));
}

#[test]
fn variables_that_are_no_settings_or_empty_change_nothing() {
    let all = [("LEASEHOLD_CONFIG", "x"), ("LEASEHOLD_ENGINE__TTL_MS", ""), ("ENGINE__TTL_MS", "1")];
    assert_eq!(read(FILE, &all).unwrap().engine.ttl_ms, 20_000);
}

#[test]
fn relative_paths_of_the_file_begin_at_its_folder() {
    let text = "[redis]\naddresses = [\"a\"]\npassword = { file = \"secret\" }\n\
                tls = { ca = \"ca.pem\", cert = \"/c.pem\", key = \"../k.pem\", server_name = \"b\" }";
    let redis = read(text, &[]).unwrap().redis;
    assert!(
        matches!(redis.password, Some(Password::File(path)) if path == Path::new("/etc/leasehold/secret"))
    );
    let tls = redis.tls.unwrap();
    let files = [tls.ca, tls.cert, tls.key].map(|file| file.unwrap().display().to_string());
    assert_eq!(files, ["/etc/leasehold/ca.pem", "/c.pem", "/etc/leasehold/../k.pem"]);
    assert_eq!(tls.server_name.as_deref(), Some("b"));
}

#[test]
fn a_file_that_is_read_has_its_paths_begin_at_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leasehold.toml");
    std::fs::write(&file, "[redis]\naddresses = [\"a\"]\npassword = { file = \"secret\" }").unwrap();
    std::fs::write(folder.path().join("secret"), "hunter2\n").unwrap();
    let password = ConfigFile::read(&file).unwrap().redis.password.unwrap();
    assert_eq!(password.read("password").unwrap(), "hunter2");
}

#[test]
fn a_bad_variable_is_named_with_its_setting_value_and_remedy() {
    for (variable, value, expected) in [
        ("ENGINE__TTL_MS", "soon", "`engine.ttl_ms` is \"soon\": give a whole number, 0 or more"),
        ("ENGINE__TTL_MS", "10", "`engine.ttl_ms` is \"10\": must be at least 1000, one second"),
        ("ENGINE__TLT_MS", "9", "`engine.tlt_ms` is \"9\": no such key; did you mean `ttl_ms`?"),
        ("REDIS__PASWORD", "hunter2", "`redis.pasword` is ***: no such key; did you mean `password`?"),
        ("REDIS__SECRET", "hunter2", "`redis.secret` is ***: no such key; "),
        ("REDIS_TLS__CA", "hunter2", "`redis_tls` is a table: no such key; there are engine, redis"),
        ("REDIS__ADDRESSES", "a:70000", "`redis.addresses` is \"a:70000\": write host:port"),
        ("REDIS__ADDRESSES", "app:hunter2", "`redis.addresses` is \"***\": write host:port"),
        ("REDIS__ADDRESSES", "a,password=hunter2,ssl=True", "`redis.addresses` is \"***\": write host:port"),
        ("REDIS__ADDRESSES", "a;password=hunter2", "`redis.addresses` is \"***\": write host:port"),
        ("REDIS__ADDRESSES", "a password=hunter2", "`redis.addresses` is \"***\": write host:port"),
        ("REDIS__ADDRESSES", "hunter2 a", "`redis.addresses` is \"***\": write host:port"),
        ("REDIS__TOPOLOGY", "a,password=hunter2", "`redis.topology` is \"***\": write one of \"single\""),
        ("REDIS__SERVICE_NAME", "m,password=hunter2", "`redis.service_name` is \"***\": write only the name"),
        (
            "REDIS__TLS__SERVER_NAME",
            "a password hunter2",
            "`redis.tls.server_name` is \"***\": give a host name",
        ),
        ("REDIS__ADDRESSES", "redis://:hunter2@a", "`redis.addresses` is \"redis://***@a\": write host:port"),
        ("REDIS__ADDRESSES", "a,a", "`redis.addresses` is \"a\": "),
        ("REDIS__TLS", "yes", "`redis.tls` is \"yes\": it is a section; "),
        ("REDIS__SENTINEL_TLS__PLAIN", "yes", "`redis.sentinel_tls.plain` is \"yes\": give true or false"),
        ("REDIS__SENTINEL_TLS__PLAIN", "true", "`redis.sentinel_tls` is a table, but `redis.topology` is "),
        ("REDIS__NOTICES", "sharp", "`redis.notices` is \"sharp\": write one of \"auto\""),
        ("REDIS__PASSWORD__FIEL", "hunter2", "`redis.password` is a table: write the password"),
        ("ENGINE__CLASSES", "a", "`engine.classes` is \"a\": no variable can set it, because"),
        ("REDIS__ADDRESS_MAP__A", "b", "`redis.address_map.a` is \"b\": no variable can set it"),
    ] {
        let variable = format!("LEASEHOLD_{variable}");
        let said = read(FILE, &[(&variable, value)]).expect_err(&variable);
        assert!(said.starts_with(&format!("{variable}: {expected}")) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_variable_that_nearly_names_a_setting_is_refused_unless_the_file_names_it() {
    for (variable, meant) in [
        ("LEASEHOLD_TTL_MS", "`engine.ttl_ms` is LEASEHOLD_ENGINE__TTL_MS"),
        ("LEASEHOLD_ENGINE_TTL_MS", "`engine.ttl_ms` is LEASEHOLD_ENGINE__TTL_MS"),
        ("LEASEHOLD_ADDRESSES", "`redis.addresses` is LEASEHOLD_REDIS__ADDRESSES"),
        ("LEASEHOLD_REDIS_TLS_CA", "`redis.tls.ca` is LEASEHOLD_REDIS__TLS__CA"),
        ("LEASEHOLD_REDIS_SENTINEL_TLS_CA", "`redis.sentinel_tls.ca` is LEASEHOLD_REDIS__SENTINEL_TLS__CA"),
    ] {
        let said = read(FILE, &[(variable, "9")]).unwrap_err();
        assert_eq!(said, format!("{variable}: it sets nothing; the variable of {meant}"));
        assert_eq!(read(FILE, &[(variable, "")]).unwrap().engine.ttl_ms, 20_000);
        read(&format!("# {variable}\n{FILE}"), &[(variable, "9")]).unwrap();
    }
}

#[test]
fn other_variables_of_the_program_and_passwords_are_no_near_misses() {
    let others =
        ["CONFIG", "URL", "NAME", "TOKEN", "DEADLINE", "GUARD", "FAULT", "PASSWORD", "REDIS_PASSWORD", "CA"];
    for other in others {
        read(FILE, &[(&format!("LEASEHOLD_{other}"), "hunter2")]).unwrap();
    }
}

#[test]
fn a_contradiction_names_file_and_variable() {
    let said = read(FILE, &[("LEASEHOLD_REDIS__TOPOLOGY", "cluster")]).unwrap_err();
    assert!(said.contains("`redis.topology` is \"cluster\" by LEASEHOLD_REDIS__TOPOLOGY"), "{said}");
    assert!(said.starts_with("leasehold.toml:5:"), "{said}");
}

#[test]
fn without_a_file_the_variables_are_all() {
    let read = |all| ConfigFile::from_environment(&environment(all)).map_err(|error| error.to_string());
    let settings = read(&[("LEASEHOLD_REDIS__ADDRESSES", "a")]).unwrap();
    assert_eq!(settings.redis.addresses[0].to_string(), "a:6379");
    assert_eq!(settings.engine, EngineConfig::default());
    assert_eq!(
        read(&[]).unwrap_err(),
        "environment: `redis.addresses` is not set: add addresses = [\"host:port\"]; the variable is \
         LEASEHOLD_REDIS__ADDRESSES"
    );
}

fn read_url(url: &str, all: &[(&str, &str)]) -> Result<ConfigFile, String> {
    ConfigFile::from_url_in(url, &environment(all)).map_err(|error| {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        error.to_string()
    })
}

#[test]
fn a_url_alone_gives_the_settings_that_it_has() {
    for url in [
        "redis://a",
        "redis://user:hunter2@[::1]:7/3",
        "rediss://:hunter2%2C%20@a",
        "redis://u:%7B%7D@a", // the password {}
        "redis-cluster://a:1?node=b:2&node=c",
        "rediss-sentinel://u:hunter2@s1?sentinelServiceName=m&node=s2:5&sentinelUsername=v&sentinelPassword=hunter2x",
    ] {
        let (read, redis) = (read_url(url, &[]).unwrap(), RedisConfig::from_url(url).unwrap());
        assert_eq!(format!("{:?}", read.redis), format!("{redis:?}"));
        let secret = |password: &Option<Password>| password.as_ref().map(|it| it.read("password").unwrap());
        assert_eq!(secret(&read.redis.password), secret(&redis.password));
        assert_eq!(secret(&read.redis.sentinel_password), secret(&redis.sentinel_password));
        assert_eq!(read.engine, EngineConfig::default());
    }
}

#[test]
fn variables_set_what_a_url_does_not_say() {
    let all = [
        ("LEASEHOLD_ENGINE__TTL_MS", "15000"),
        ("LEASEHOLD_REDIS__PASSWORD__FILE", "secret"),
        ("LEASEHOLD_REDIS__DATABASE", "4"),
        ("LEASEHOLD_REDIS__ADDRESSES", ""),
    ];
    let read = read_url("redis://a", &all).unwrap();
    assert_eq!((read.engine.ttl_ms, read.redis.database), (15_000, 4));
    assert!(matches!(read.redis.password, Some(Password::File(path)) if path == Path::new("secret")));
}

// Otherwise the password of the URL could go to the servers of the variable.
#[test]
fn a_variable_for_what_a_url_says_is_refused() {
    let sentinels = "redis-sentinel://s?sentinelServiceName=m&sentinelUsername=u&sentinelPassword=hunter2";
    for (url, variable, what) in [
        ("redis://:hunter2@a", "REDIS__ADDRESSES", "servers"),
        ("redis://:hunter2@a", "redis__addresses", "servers"),
        ("redis://a/3", "REDIS__TOPOLOGY", "servers"),
        ("redis-cluster://a", "REDIS__SERVICE_NAME", "servers"),
        ("redis://a/0", "REDIS__DATABASE", "a database"),
        ("redis://u:hunter2@a", "REDIS__USERNAME", "a user"),
        ("redis://:hunter2@a", "REDIS__PASSWORD", "a password"),
        ("redis://:hunter2@a", "REDIS__PASSWORD__FILE", "a password"),
        (sentinels, "REDIS__SENTINEL_USERNAME", "a user of the sentinels"),
        (sentinels, "REDIS__SENTINEL_PASSWORD__ENV", "a password of the sentinels"),
    ] {
        let variable = format!("LEASEHOLD_{variable}");
        let error = ConfigFile::from_url_in(url, &environment(&[(&variable, "hunter2")])).unwrap_err();
        let expected =
            format!("the URL and {variable} both name {what}: unset {variable}, or leave out the URL");
        assert!(error.to_string() == expected && error.is_variable_against_url(), "{url}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn what_is_wrong_beside_a_url_is_named() {
    for (url, variable, expected) in [
        ("redis://a", ("ENGINE__TTL_MS", "9"), "LEASEHOLD_ENGINE__TTL_MS: `engine.ttl_ms` is \"9\": must be"),
        (
            "redis://a",
            ("TTL_MS", "9"),
            "LEASEHOLD_TTL_MS: it sets nothing; the variable of `engine.ttl_ms` is",
        ),
        (
            "redis-cluster://a",
            ("REDIS__DATABASE", "3"),
            "LEASEHOLD_REDIS__DATABASE: `redis.database` is \"3\", but `redis.topology` is \"cluster\"",
        ),
        (
            "redis://a",
            ("REDIS__NOTICES", "sharded"),
            "LEASEHOLD_REDIS__NOTICES: `redis.notices` is \"sharded\", but `redis.topology` is \"single\"",
        ),
        ("http://:hunter2@a", ("X", ""), "`url` is http://***@a: start it with redis://"),
        (
            "redis-sentinel://:hunter2@a?sentinelServiceName=m&sentinelPassword=",
            ("X", ""),
            "`url` is redis-sentinel://***@a?***: sentinelPassword is empty; write",
        ),
    ] {
        let (name, value) = variable;
        let said = read_url(url, &[(&format!("LEASEHOLD_{name}"), value)]).unwrap_err();
        assert!(said.starts_with(expected), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_utf_8_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let all = vec![("LEASEHOLD_ENGINE__ID".into(), OsString::from_vec(vec![0xff]))];
    let environment = Environment { variables: &|_| None, all };
    let said = ConfigFile::parse_with(FILE, "f", None, &environment).unwrap_err().to_string();
    assert_eq!(said, "LEASEHOLD_ENGINE__ID: `engine.id` is : it is not UTF-8; correct the variable");
}
