use super::{
    super::{Address, Password},
    *,
};

fn variables(name: &str) -> Option<String> {
    match name {
        "HOST" => Some("cache".into()),
        "DATABASE" => Some("3".into()),
        "SECRET" => Some("hunter2".into()),
        "QUOTE" => Some("a\"\n[engine]\nttl_ms = 1".into()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<ConfigFile, String> {
    let environment = Environment { variables: &variables, all: Vec::new() };
    ConfigFile::parse_with(text, "leasehold.toml", None, &environment).map_err(|error| {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        error.to_string()
    })
}

fn redis(text: &str) -> RedisConfig {
    parse(&format!("[redis]\n{text}")).unwrap().redis
}

#[test]
fn both_sections_are_read() {
    let file = parse(
        r#"
        [engine]
        ttl_ms = 20_000
        name_prefix = "shop:"
        [redis]
        addresses = ["s1", "s2:7"]
        service_name = "m"
        topology = "sentinel"
        password = { file = "/run/secret" }
        sentinel_password = "x"
        notices = "classic"
        batching = "by_slot"
        [redis.tls]
        ca = "ca.pem"
        "#,
    )
    .unwrap();
    assert_eq!((file.engine.ttl_ms, file.engine.name_prefix.as_str()), (20_000, "shop:"));
    assert_eq!(file.redis.addresses, [Address::new("s1", 26379), Address::new("s2", 7)]);
    assert!(matches!(file.redis.password, Some(Password::File(_))));
    assert!(matches!(file.redis.sentinel_password, Some(Password::Value(_))));
    assert_eq!(file.redis.tls.unwrap().ca, Some("ca.pem".into()));
}

#[test]
fn variables_are_put_into_texts_and_nothing_else() {
    let config =
        redis("addresses = [\"${HOST}:6380\"]\npassword = \"${SECRET}\"\ndatabase = \"${DATABASE}\"");
    assert_eq!((config.addresses, config.database), (vec![Address::new("cache", 6380)], 3));
    assert_eq!(config.password.unwrap().read("password").unwrap(), "hunter2");
    let config = redis("addresses = [\"a\"]\nusername = \"${QUOTE}\"\npassword = \"a$${b\"");
    assert_eq!(config.username.as_deref(), Some("a\"\n[engine]\nttl_ms = 1"));
    assert_eq!(config.password.unwrap().read("password").unwrap(), "a${b");
    let quoted = parse("[redis]\naddresses = [\"a\"]\ndatabase = \"3\"").unwrap_err();
    assert!(quoted.contains("no quotes"), "{quoted}");
}

#[test]
fn what_a_variable_holds_is_not_shown() {
    for text in [
        "addresses = [\"a\"]\nusername = \"${SECRET}\"",
        "addresses = [\"${SECRET}:x\"]",
        "addresses = [\"${SECRET}\", \"${SECRET}\"]",
        "addresses = [\"a\", \"${SECRET}\"]",
        "addresses = [\"a\"]\nservice_name = \"${SECRET}\"",
        "addresses = [\"a\"]\ntopology = \"${SECRET}\"",
        "addresses = [\"a\"]\ndatabase = \"${SECRET}\"",
        "addresses = [\"a\"]\nnotice = \"${SECRET}\"",
        "addresses = [\"a\"]\ntls.server_name = \"${SECRET}:1\"",
        "addresses = [\"a\"]\ntls.cert = \"${SECRET}\"",
    ] {
        let said = parse(&format!("[redis]\n{text}")).unwrap_err();
        assert!(said.starts_with("leasehold.toml:"), "{said}");
    }
}

#[test]
fn passwords_are_not_shown_wherever_they_stand() {
    for text in [
        "[redis]\naddresses = [\"a\"]\npassword = [\"hunter2\"]",
        "[redis]\naddresses = [\"a\"]\npassword = { hunter2 = 1 }",
        "[redis]\naddresses = [\"a\"]\npassword = { fil = \"hunter2\" }",
        "[redis]\naddresses = [\"a\"]\npasword = \"hunter2\"",
        "[redis]\naddresses = [\"a\"]\nsecret = \"hunter2\"",
        "[redis]\naddresses = [\"a\"]\npassword = \"hunter2",
        "[redis]\naddresses = [\"a\"]\npassword = hunter2",
        "[redis]\naddresses = [\"a\"]\npassword = \"\"\"\nhunter2=\nhunter2 = \\z\"\"\"",
        "[redis]\naddresses = [\"redis://:hunter2@a\"]",
        "[redis]\naddresses = \"redis://:hunter2@a\"",
        "[redis]\naddresses = [\"app:hunter2@a:1\"]",
        "[redis]\naddresses = [\"cache.example.net,password=hunter2,ssl=True\"]",
        "[redis]\naddresses = [\"cache hunter2\"]",
        "[redis]\naddresses = [\"cache\\u003dhunter2\"]",
        "[redis]\naddresses = \"cache;password=hunter2\"",
        "[redis]\naddresses = [\"app:hunter2\"]",
        "[redis]\naddresses = [\"a\"]\ntls.server_name = \"a,hunter2\"",
        "[redis]\naddresses = [\"a\"]\ntopology = \"a,password=hunter2\"",
        "[redis]\naddresses = [\"a\"]\nservice_name = \"m,password=hunter2\"",
        "[redis]\naddresses = [\"a\"]\ntopology = \"cluster\"\naddress_map = { \"a,hunter2\" = \"b\" }",
        "[redis]\naddresses = [\"a\"]\ntopology = \"cluster\"\naddress_map = { \"a\" = \"b hunter2\" }",
        "[redis]\naddresses = [{ password = \"hunter2\" }]",
        "[redis]\naddresses = [\"a\"]\nusername = { password = \"hunter2\" }",
        "[redis]\naddresses = [\"a\"]\npassword = \"${hunter2!}\"",
        "[redis]\naddresses = [\"a\"]\npassword = \"hunter2${NOT_SET}\"",
        "[redis]\naddresses = [\"a\"]\n[redis.password]\nvalue = \"hunter2\"",
        "password = \"hunter2\"",
    ] {
        let said = parse(text).expect_err(text);
        assert!(said.starts_with("leasehold.toml:"), "{said}");
    }
}

#[test]
fn the_key_of_a_quoted_name_is_the_whole_name() {
    assert!(parse("[redis]\n\"x.addresses\" = [\"a\"]").unwrap_err().contains("no such key"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = ConfigFile::read("/nowhere/leasehold.toml").unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/leasehold.toml: cannot be read: "), "{error}");
    assert_eq!((error.line(), error.key()), (None, None));
    for wrong in ["redis://u:hunter2@cache:port", "cache,password=hunter2"] {
        let said = ConfigFile::read(wrong).unwrap_err().to_string();
        assert!(said.contains("***: cannot be read: ") && !said.contains("hunter2"), "{said}");
    }
}
