//! Servers that refuse us, or that cannot be reached: a typed error with the remedy, in time, without the password.

use std::{error::Error, net::TcpListener, time::Instant};

use leasehold::{AcquireError, BuildError, Engine, Lease, ReleaseError, RenewError, transport::ErrorKind};
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};
use leasehold_tests::harness::redis_server::RedisServer;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SECOND};

const PASSWORD: &str = "hunter2-is-no-word";

fn config(port: u16, username: Option<&str>, password: &str) -> RedisConfig {
    let mut config = RedisConfig::single("127.0.0.1", port);
    config.username = username.map(str::to_owned);
    config.password = Some(Password::Value(Secret::new(password)));
    config
}

/// Why no engine was built, and that it took no longer than promised.
async fn refusal(transport: RedisTransport) -> BuildError {
    let began = Instant::now();
    assert!(!format!("{transport:?}").contains(PASSWORD));
    let built = Engine::builder(transport).unavailable_after(SECOND).build().await;
    assert!(began.elapsed() < 4 * SECOND, "{:?}", began.elapsed());
    let error = built.expect_err("no engine");
    assert_tells_no_secret(&error);
    error
}

fn assert_tells_no_secret(error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains(PASSWORD), "{}", shown.replace(PASSWORD, "***"));
        next = error.source();
    }
}

#[tokio::test]
async fn a_wrong_password_or_user_is_refused_at_once_with_the_field_to_correct() {
    let server = RedisServer::builder()
        .password("hunter2-right")
        .acl_user("app on >hunter2-app ~* &* +@all")
        .start()
        .expect("a server");
    let wrong = [
        (config(server.port(), None, PASSWORD), "`password` given as a value"),
        (config(server.port(), Some("app"), PASSWORD), "`username` app"),
        (config(server.port(), Some("nobody"), PASSWORD), "`username` nobody"),
        (RedisConfig::single("127.0.0.1", server.port()), "set `password`"),
        (
            RedisConfig::from_url(&format!("redis://app:{PASSWORD}@127.0.0.1:{}", server.port()))
                .expect("a url"),
            "`username` app",
        ),
    ];
    for (config, remedy) in wrong {
        assert!(!format!("{config:?}").contains(PASSWORD));
        let began = Instant::now();
        let error = refusal(RedisTransport::new(config)).await;
        let BuildError::Refused(last_error) = &error else { panic!("refused, not {error:?}") };
        assert_eq!(last_error.kind, ErrorKind::Denied);
        assert!(error.to_string().contains(remedy), "{remedy}: {error}");
        assert!(began.elapsed() < SECOND, "at once");
    }
    let right = Engine::builder(RedisTransport::new(config(server.port(), Some("app"), "hunter2-app")));
    right.build().await.expect("an engine");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a socket").local_addr().expect("an address").port();
    let black_hole = Fixture::new();
    black_hole.proxy.black_hole(true);
    let servers = [
        ("127.0.0.1", silent.local_addr().expect("an address").port()),
        ("127.0.0.1", closed),
        ("127.0.0.1", black_hole.proxy.port()),
        ("no-such-host.invalid", 6379),
    ];
    for (host, port) in servers {
        let url = format!("redis://app:{PASSWORD}@{host}:{port}");
        let error = refusal(RedisTransport::from_url(&url).expect("a url")).await;
        let BuildError::Unavailable { last_error, .. } = &error else { panic!("unavailable, not {error:?}") };
        assert!(matches!(last_error.kind, ErrorKind::Unreachable | ErrorKind::TimedOut), "{error:?}");
        assert!(error.to_string().contains(&format!("{host}:{port}")), "{error}");
        assert!(error.to_string().contains("check `addresses`"), "{error}");
    }
}

/// What the README says a user must be allowed, right by right.
fn documented() -> (Vec<String>, Vec<String>) {
    let readme = include_str!("../../transports/redis/README.md");
    let rule = readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER leasehold ")).expect("the rule");
    let words = rule.split_whitespace().map(str::to_owned);
    words.map(|word| word.replace(">secret", &format!(">{SECRET}"))).partition(|word| word.starts_with('+'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_no_missing_right_and_no_pair_of_them_leaves_a_key_without_expiry() {
    let server = RedisServer::start().expect("a server");
    let (rights, rest) = documented();
    assert!(rights.len() >= 15, "{rights:?}");
    let mut tries = JoinSet::new();
    let (mut kept, mut refused) = (0, 0);
    let mut count = |outcome: Outcome| match outcome {
        Outcome::Worked => kept += 1,
        Outcome::Refused => refused += 1,
    };
    for (n, one) in rights.iter().enumerate() {
        for other in &rights[n..] {
            let user = format!("u{n}-{}", other.replace(['+', '|'], "-"));
            let granted = rights.iter().filter(|right| *right != one && *right != other);
            let mut rule = vec!["ACL", "SETUSER", &user];
            rule.extend(rest.iter().map(String::as_str));
            rule.extend(granted.map(String::as_str));
            let set = server.client().expect("a connection").command(&rule).expect("a reply");
            assert!(set.is_ok(), "{set:?}");
            if tries.len() == AT_ONCE {
                count(tries.join_next().await.expect("a try").expect("no panic"));
            }
            let missing = format!("without {one} and {other}");
            tries.spawn(try_everything(server.port(), user, missing));
        }
    }
    tries.join_all().await.into_iter().for_each(&mut count);
    println!("{kept} worked, {refused} were refused");
    assert!(kept > 0 && refused > kept);
}

enum Outcome {
    Worked,
    Refused,
}

/// Builds, acquires, renews and releases; whatever is refused says what to grant, and no key is ever without expiry.
async fn try_everything(port: u16, user: String, missing: String) -> Outcome {
    let name = format!("locks:{user}");
    let transport = RedisTransport::new(config(port, Some(&user), SECRET));
    let built = Engine::builder(transport).unavailable_after(SECOND).build().await;
    let engine = match built {
        Ok(engine) => engine,
        Err(error) => return refused(&error, &missing),
    };
    let outcome = match engine.lock(&name).try_acquire().await {
        Ok(Some(lease)) => {
            assert_expires(port, &name, &missing);
            use_up(lease, port, &missing).await
        }
        Err(error @ AcquireError::Refused(_)) => refused(&error, &missing),
        other => panic!("{missing}: {other:?}"),
    };
    assert_expires(port, &name, &missing);
    outcome
}

async fn use_up(lease: Lease, port: u16, missing: &str) -> Outcome {
    let name = lease.name().to_owned();
    let mut outcome = Outcome::Worked;
    match lease.renew(60 * SECOND).await {
        Ok(()) => {}
        Err(RenewError::Unknown(last_error)) => outcome = refused(&last_error, missing),
        Err(other) => panic!("{missing}: {other}"),
    }
    assert_expires(port, &name, missing);
    match lease.release().await {
        Ok(()) => {}
        Err(error @ ReleaseError::Unknown { .. }) => outcome = refused(&error, missing),
        Err(other) => panic!("{missing}: {other}"),
    }
    outcome
}

fn refused(error: &(dyn Error + 'static), missing: &str) -> Outcome {
    assert_tells_no_secret(error);
    assert!(error.to_string().contains("grant the rights"), "{missing}: {error}");
    Outcome::Refused
}

fn assert_expires(port: u16, name: &str, missing: &str) {
    let mut raw = leasehold_tests::harness::raw_client::RawClient::connect(port).expect("a connection");
    let ttl = raw.command(&["PTTL", name]).expect("a reply").integer();
    assert_ne!(ttl, Some(-1), "{missing} left {name} without expiry");
}

const AT_ONCE: usize = 8;
/// Of the rule in the README, with the marker of all secrets.
const SECRET: &str = "hunter2";
