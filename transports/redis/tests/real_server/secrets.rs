//! What a server says to a login may repeat the login. None of it is shown.

use crate::{fake, server::*};
use leasehold::transport::*;
use leasehold_redis::{Password, RedisConfig, RedisTransport, Secret};

fn with_login(mut config: RedisConfig) -> RedisTransport {
    config.username = Some("app".to_owned());
    config.password = Some(Password::Value(Secret::new("hunter2")));
    RedisTransport::new(config)
}

async fn refusal(transport: &RedisTransport) -> TransportError {
    let error = open(transport, LanePurpose::Calls).await.err().unwrap();
    let shown = format!("{error} {error:?} {:?}", error.source);
    assert!(!shown.contains("hunter2"), "{shown}");
    error
}

#[tokio::test]
async fn a_server_without_auth_repeats_the_login_and_no_error_does() {
    let server = Server::start_with(&["--rename-command", "AUTH", ""]);
    let error = refusal(&with_login(server.config())).await;
    assert_eq!((error.kind, error.effect), (ErrorKind::Misconfigured, Effect::None), "{error}");
    assert!(error.detail.contains("unknown command") && error.detail.contains("AUTH"), "{error}");
}

#[tokio::test]
async fn whatever_a_server_says_to_a_login_no_error_repeats_it() {
    for reply in [
        "-ERR what is this: hunter2?\r\n",
        "-hunter2\r\n",
        "-WRONGPASS app has not the password hunter2\r\n",
        "-NOAUTH hunter2\r\n",
        "-HUNTER hunter2\r\n",
        "+hunter2\r\n",
        "$7\r\nhunter2\r\n",
        "-CLUSTERDOWN hunter2\r\n",
        "-MOVED 1 hunter2:1\r\n",
        "?hunter2\r\n",
    ] {
        let port = fake::serve(move |words| match words[0].as_str() {
            "AUTH" => reply.to_owned(),
            _ => fake::healthy(words).unwrap_or_else(|| "-ERR no\r\n".into()),
        });
        let error = refusal(&with_login(RedisConfig::single("127.0.0.1", port))).await;
        assert_eq!(error.effect, Effect::None, "{reply:?}: {error}");
    }
}

#[tokio::test]
async fn control_characters_of_a_server_are_escaped() {
    let port = fake::serve(move |_| "-ERR \x1b[31mred\x07\r\n".into());
    let error = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Calls).await;
    let shown = format!("{}", error.err().unwrap());
    assert!(!shown.contains(char::is_control) && shown.contains("red"), "{shown:?}");
}
