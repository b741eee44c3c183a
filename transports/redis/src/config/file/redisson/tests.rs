use super::*;
use crate::config::{Password, RedisConfig};

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<ConfigFile, ConfigFileError> {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    read(text, &variable).map(|(file, _)| file)
}

const YAML: &str = "
singleServerConfig:
  address: \"redis://${REDIS_HOST}:${REDIS_PORT:-6379}\"
  password: ${REDIS_PASSWORD:-}
lockWatchdogTimeout: ${WATCHDOG:-30000}
";

#[test]
fn variables_are_replaced_and_their_values_are_not_shown() {
    let set = [("REDIS_HOST", "cache"), ("REDIS_PASSWORD", "hunter2"), ("WATCHDOG", "9000")];
    let file = read_with(YAML, &set).unwrap();
    assert_eq!((file.redis.addresses[0].to_string().as_str(), file.engine.ttl_ms), ("cache:6379", 9_000));
    assert!(matches!(file.redis.password, Some(Password::Value(_))));
    let wrong = read_with(YAML, &[set[0], set[1], ("WATCHDOG", "hunter2")]).unwrap_err().to_string();
    assert!(wrong.contains("${WATCHDOG:-30000}") && !wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn a_variable_that_is_not_set_is_refused() {
    let error = read_with(YAML, &[]).unwrap_err();
    assert_eq!((error.line(), error.key()), (Some(3), Some("singleServerConfig.address")));
    assert!(error.to_string().contains("the variable REDIS_HOST is not set"), "{error}");
    let empty = read_with(YAML, &[("REDIS_HOST", "cache")]).unwrap_err().to_string();
    assert!(empty.contains("`singleServerConfig.password` is ***: it is empty"), "{empty}");
}

#[test]
fn a_timeout_alone_only_raises_the_time_after_which_callers_give_up() {
    let with = |keys: &str| {
        read_with(&format!("singleServerConfig:\n  address: cache\n{keys}"), &[]).unwrap().engine
    };
    let short = with("  timeout: 500\n");
    assert_eq!((short.command_timeout_ms, short.unavailable_after_ms), (500, 10_000));
    let long = with("  timeout: 12000\n");
    assert_eq!((long.command_timeout_ms, long.unavailable_after_ms), (12_000, 12_000));
    assert_eq!(with("  retryAttempts: 0\n  timeout: 2000\n").unavailable_after_ms, 2_000);
}

#[test]
fn every_key_that_is_said_to_become_a_setting_changes_one() {
    let of_section = |name: &str| match name {
        "natMapper" => "{hostsMap: {a: b}}",
        "natMap" => "{\"a:1\": \"b:2\"}",
        "sslTruststore" => "/ca.pem",
        "sslVerificationMode" => "STRICT",
        "sslEnableEndpointIdentification" => "true",
        "shardedSubscriptionMode" => "OFF",
        "database" => "0",
        "fairLockWaitTimeout" => "20000",
        "username" | "sentinelUsername" | "masterName" => "name",
        _ => "7000",
    };
    for key in keys::KEYS.iter().filter(|key| matches!(key.fate, keys::Fate::Mapped(_))) {
        let (section, list) = match key.place {
            keys::Place::Only(keys::SINGLE) => (keys::SINGLE, "address"),
            keys::Place::Only(keys::SENTINEL) => (keys::SENTINEL, "sentinelAddresses"),
            _ => (keys::CLUSTER, "nodeAddresses"),
        };
        if key.name == list || key.name.ends_with("Config") || key.name.ends_with("ddresses") {
            continue; // each file has them
        }
        let indent = if key.place == keys::Place::Root { "" } else { "  " };
        let others = [("masterName", "sentinel"), ("password", "x"), ("sentinelPassword", "x")];
        let mut text = format!("{section}:\n  {list}: [\"rediss://cache:7000\"]\n");
        for (name, value) in others {
            let is_of_sentinels = name != "password";
            if name != key.name && (!is_of_sentinels || section == keys::SENTINEL) {
                text += &format!("  {name}: {value}\n");
            }
        }
        let value = if key.name == "lockWatchdogBatchSize" { "70" } else { of_section(key.name) };
        let changed = read_with(&format!("{text}{indent}{}: {value}\n", key.name), &[]);
        let changed = format!("{:?}", changed.unwrap_or_else(|error| panic!("{}: {error}", key.name)));
        let before = read_with(&text, &[]).map(|file| format!("{file:?}")).unwrap_or_default();
        let keeps_it =
            ["sslEnableEndpointIdentification", "sslVerificationMode", "database", "retryInterval"];
        assert!(changed != before || keeps_it.contains(&key.name), "{} changes nothing", key.name);
    }
}

fn of_single(keys: &str) -> Result<RedisConfig, String> {
    let read = read_with(&format!("singleServerConfig:\n  address: cache\n{keys}"), &[]);
    read.map(|file| file.redis).map_err(|error| error.to_string())
}

/// As Redisson 3.27.2, 4.0.0 and 4.7.0 read them. Where these differ, and where no other number is written so, it is refused.
#[test]
fn a_whole_number_with_a_leading_zero_is_octal_or_refused() {
    for (written, number) in [("011", 9), ("00", 0), ("0", 0), ("11", 11), ("\"11\"", 11), ("0144", 100)] {
        let read = of_single(&format!("  database: {written}\n")).map(|redis| redis.database);
        assert_eq!(read, Ok(number), "{written}");
    }
    for written in
        ["\"011\"", "'011'", "08", "\"08\"", "0x10", "0b11", "0o11", "0_11", "!!int \"011\"", "0400"]
    {
        let said = of_single(&format!("  database: {written}\n")).expect_err(written);
        assert!(said.contains("without a leading 0"), "{written}: {said}");
    }
    for written in ["1_0", "+5", "1:30", "-1", "1.0"] {
        let said = of_single(&format!("  database: {written}\n")).expect_err(written);
        assert!(said.contains("give a whole number from 0 to 255"), "{written}: {said}");
    }
    let with = |keys: &str| {
        read_with(&format!("singleServerConfig:\n  address: cache\n{keys}"), &[("N", "07640")]).unwrap()
    };
    assert_eq!(with("  timeout: 07640\n").engine.command_timeout_ms, 4_000);
    assert_eq!(with("lockWatchdogTimeout: ${N}\n").engine.ttl_ms, 4_000);
    assert_eq!(with("tcpUserTimeout: 07640\nlockWatchdogBatchSize: 012\n").redis.tcp_user_timeout_ms, 4_000);
    let password = with("  password: 0123\n").redis.password.unwrap().read("password");
    assert_eq!(password.unwrap(), "0123", "a text stays as it is written");
}

#[test]
fn the_form_of_spring_is_refused_with_that_of_redisson() {
    for key in ["password", "username", "clientName"] {
        let said = of_single(&format!("  {key}: \"${{REDIS_PASSWORD:hunter2}}\"\n")).expect_err(key);
        assert!(said.contains("write ${NAME:-default}") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn the_same_value_twice_is_no_contradiction() {
    for keys in [
        "  tcpUserTimeout: 0\ntcpUserTimeout: 0\n",
        "  sslVerificationMode: STRICT\nsslVerificationMode: \"STRICT\"\n",
        "  password: hunter2\n  password: hunter2\npassword: hunter2\n",
        "  timeout: 3000\n  timeout: 3000\nthreads: 1\nthreads: 1\n",
    ] {
        assert!(of_single(keys).is_ok(), "{keys}");
    }
    for keys in
        ["  tcpUserTimeout: 0\ntcpUserTimeout: 1\n", "threads: 1\nthreads: 2\n", "threads: {}\nthreads: {}\n"]
    {
        assert!(of_single(keys).unwrap_err().contains("leave one out"), "{keys}");
    }
}

#[test]
fn an_unknown_key_is_named_if_it_is_spelled_as_one() {
    for (key, shown) in [
        (
            "noSuchKey",
            "`noSuchKey` is ***: no version of Redisson from 3.27 to 4.7 has such a key; leave it out",
        ),
        (
            "passwort",
            "`passwort` is ***: no version of Redisson from 3.27 to 4.7 has such a key; did you mean",
        ),
        ("hunter2Key", "`***` is ***: "),
        ("swordfish", "`***` is ***: "),
    ] {
        let said = of_single(&format!("{key}: hunter2\n")).expect_err(key);
        assert!(said.contains(shown) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn json_is_read_with_its_tabs_and_its_classes() {
    let json = "\u{feff}{\r\n\t\"clusterServersConfig\":\t{\"nodeAddresses\":[\"redis:\\/\\/a:1\",\n\t\t\"redis://b\"],\n\
        \t \"natMapper\": {\"class\":\"org.redisson.api.HostNatMapper\", \"hostsMap\":{\"10.0.0.1\":\"nat\"}},\n\
        \t\"nameMapper\":{\"class\":\"org.redisson.config.DefaultNameMapper\"},\"password\":\"hunter\t2\",\n\
        \t\"clientName\":null\n\t},\n\t\"lockWatchdogTimeout\":9000\n}\n";
    let file = read_with(json, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((file.redis.addresses.len(), file.redis.address_map.len(), file.engine.ttl_ms), (2, 1, 9_000));
    assert_eq!(file.redis.password.unwrap().read("password").unwrap(), "hunter\t2");
    let mapped =
        r#"{"singleServerConfig":{"address":"redis://a","nameMapper":{"class":"com.example.Names"}}}"#;
    assert!(read_with(mapped, &[]).unwrap_err().to_string().contains("a Java class cannot be run here"));
}
