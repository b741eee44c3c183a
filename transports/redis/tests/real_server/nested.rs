//! A reply that is nested deeper than any of ours ends its connection, not the process.

use crate::{fake, server::*};
use leasehold::transport::*;
use leasehold_redis::{RedisConfig, RedisTransport};

fn nested() -> String {
    "*1\r\n".repeat(100_000) + ":1\r\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_nested_a_hundred_thousand_deep_ends_its_connection_alone() {
    let port = fake::serve(|words| match words[0].as_str() {
        "TIME" => nested(),
        _ => fake::healthy(words).unwrap_or_else(|| "-ERR no\r\n".into()),
    });
    let opened = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Calls).await;
    let told = opened.err().unwrap().to_string();
    assert!(told.contains("a reply is nested deeper than 8 levels"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_reply_nested_a_hundred_thousand_deep_ends_its_connection_alone() {
    let port = fake::serve(|_| nested());
    let opened = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Calls).await;
    println!("{}", opened.err().unwrap());
}

/// Behind a line feed alone, which does not end a line, stands what looks like the length of a long text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_reply_behind_a_line_feed_ends_its_connection_alone() {
    let port = fake::serve(|_| "+PONG\n$99999999\n\r\n".to_owned() + &nested());
    let opened = open(&RedisTransport::new(RedisConfig::single("127.0.0.1", port)), LanePurpose::Calls).await;
    println!("{}", opened.err().unwrap());
}
