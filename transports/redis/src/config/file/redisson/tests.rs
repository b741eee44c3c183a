use super::*;
use crate::config::Password;

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
