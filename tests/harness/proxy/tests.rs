//! Each fault and each switch against a real server.

use std::io;
use std::time::{Duration, Instant};

use super::{Direction, Fault, Match, Proxy, Rule, RuleHandle};
use crate::harness::polling::holds_within;
use crate::harness::raw_client::RawClient;
use crate::harness::redis_server::RedisServer;
use crate::harness::resp::Value;

struct Fixture {
    proxy: Proxy,
    server: RedisServer,
}

impl Fixture {
    fn new() -> Self {
        let server = RedisServer::start().expect("a server");
        Self { proxy: Proxy::start(server.port()).expect("a proxy"), server }
    }

    /// Through the proxy.
    fn client(&self) -> RawClient {
        RawClient::connect(self.proxy.port()).expect("a connection")
    }

    /// Past the proxy.
    fn count(&self) -> i64 {
        let count = self.server.client().expect("a connection").command(&["GET", "n"]).expect("a reply");
        count.text().map_or(0, |text| text.parse().expect("a number"))
    }

    fn count_becomes(&self, count: i64) -> bool {
        holds_within(LONG, || self.count() == count)
    }

    fn strike_incr(&self, fault: Fault) -> RuleHandle {
        self.proxy.rule(Rule::once(Match::command("INCR"), fault))
    }
}

fn incr(client: &mut RawClient) -> io::Result<Value> {
    client.command(&["INCR", "n"])
}

/// Whether nothing comes for a moment.
fn is_silent(client: &mut RawClient) -> bool {
    client.wait_for_replies(Some(MOMENT)).expect("a timeout");
    let kind = client.read().map_err(|error| error.kind());
    client.wait_for_replies(Some(LONG)).expect("a timeout");
    matches!(kind, Err(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
}

fn is_closed(client: &mut RawClient) -> bool {
    let kind = client.read().map_err(|error| error.kind());
    matches!(
        kind,
        Err(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    )
}

#[test]
fn without_rules_it_changes_nothing_and_sees_everything() {
    let fixture = Fixture::new();
    let (mut one, mut other) = (fixture.client(), fixture.client());
    assert_eq!(incr(&mut one).expect("a reply").integer(), Some(1));
    assert_eq!(incr(&mut other).expect("a reply").integer(), Some(2));
    one.command(&["get", "n"]).expect("a reply");
    let seen = fixture.proxy.requests();
    assert_eq!(seen.iter().map(|request| request.connection).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!((seen[2].command(), seen[2].arguments[1].as_slice()), ("GET".into(), b"n".as_slice()));
    assert_eq!(fixture.proxy.commands_seen()["INCR"], 2);
    fixture.proxy.clear();
    assert!(fixture.proxy.requests().is_empty());
}

#[test]
fn lose_request_is_never_executed_and_those_behind_pair_right() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::LoseRequest);
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    assert_eq!(client.command(&["ECHO", "x"]).expect("a reply").text().as_deref(), Some("x"));
    assert_eq!((rule.fired(), fixture.count()), (1, 0));
}

#[test]
fn lose_reply_is_executed_and_those_behind_pair_right() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::LoseReply);
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    assert!(rule.fired_within(LONG));
    assert_eq!(fixture.count(), 1);
    assert_eq!(client.command(&["ECHO", "x"]).expect("a reply").text().as_deref(), Some("x"));
}

#[test]
fn only_the_nth_match_is_struck_and_only_so_often() {
    let fixture = Fixture::new();
    let second_and_third = Rule { nth: 2, times: 2, ..Rule::once(Match::containing("n"), Fault::LoseReply) };
    let rule = fixture.proxy.rule(second_and_third);
    let mut client = fixture.client();
    for _ in 0..4 {
        client.send(&["INCR", "n"]).expect("sent");
    }
    let answered = [client.read().expect("a reply"), client.read().expect("a reply")];
    assert_eq!(answered, [Value::Integer(1), Value::Integer(4)]);
    assert_eq!(rule.fired(), 2);
}

#[test]
fn delay_request_arrives_late_with_all_behind_it_even_after_the_client_has_closed() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::DelayRequest(Duration::from_millis(200)));
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    client.send(&["INCRBY", "n", "10"]).expect("sent");
    assert!(rule.fired_within(LONG));
    drop(client);
    assert_eq!(fixture.count(), 0);
    assert!(fixture.count_becomes(11));
}

#[test]
fn delay_reply_holds_up_all_behind_it_and_the_server_does_not_wait() {
    let fixture = Fixture::new();
    let delay = Duration::from_millis(200);
    let rule = fixture.strike_incr(Fault::DelayReply(delay));
    let mut client = fixture.client();
    let sent = Instant::now();
    client.send(&["INCR", "n"]).expect("sent");
    client.send(&["ECHO", "x"]).expect("sent");
    assert!(rule.fired_within(LONG));
    assert!(fixture.count_becomes(1));
    assert_eq!(client.read().expect("a reply").integer(), Some(1));
    assert!(sent.elapsed() >= delay);
    assert_eq!(client.read().expect("a reply").text().as_deref(), Some("x"));
}

#[test]
fn a_delay_may_be_for_ever() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::DelayReply(Duration::MAX));
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    client.send(&["ECHO", "x"]).expect("sent");
    assert!(rule.fired_within(LONG));
    assert!(is_silent(&mut client));
}

#[test]
fn repeat_request_executes_twice_and_answers_once() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::RepeatRequest);
    let mut client = fixture.client();
    assert_eq!(incr(&mut client).expect("a reply").integer(), Some(1));
    assert_eq!(client.command(&["ECHO", "x"]).expect("a reply").text().as_deref(), Some("x"));
    assert_eq!((rule.fired(), fixture.count()), (1, 2));
}

#[test]
fn repeat_reply_shifts_the_replies_behind() {
    let fixture = Fixture::new();
    fixture.strike_incr(Fault::RepeatReply);
    let mut client = fixture.client();
    assert_eq!(incr(&mut client).expect("a reply").integer(), Some(1));
    assert_eq!(client.command(&["ECHO", "x"]).expect("a reply").integer(), Some(1));
    assert_eq!(fixture.count(), 1);
}

#[test]
fn hold_request_is_delivered_on_its_connection_and_answered_to_the_test() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::HoldRequest);
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    assert_eq!(client.command(&["ECHO", "x"]).expect("a reply").text().as_deref(), Some("x"));
    assert_eq!((rule.fired(), fixture.count()), (1, 0));
    assert_eq!(rule.deliver(LONG).expect("an answer"), [Value::Integer(1)]);
    assert_eq!(client.command(&["ECHO", "y"]).expect("a reply").text().as_deref(), Some("y"));
    assert_eq!(rule.deliver(LONG).expect("nothing is held any more"), []);
}

#[test]
fn hold_request_is_delivered_after_the_client_has_closed() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::HoldRequest);
    let mut client = fixture.client();
    // A login lives with its connection: that the held request sees it shows that it came on that connection.
    client.command(&["CLIENT", "SETNAME", "first"]).expect("a reply");
    client.send(&["INCR", "n"]).expect("sent");
    assert!(rule.fired_within(LONG));
    drop(client);
    let names =
        || fixture.server.client()?.command(&["CLIENT", "LIST"]).map(|list| list.text().unwrap_or_default());
    assert!(names().expect("a list").contains("name=first"));
    assert_eq!(rule.deliver(LONG).expect("an answer"), [Value::Integer(1)]);
    assert!(holds_within(LONG, || !names().expect("a list").contains("name=first")));
}

#[test]
fn hold_request_is_delivered_on_a_new_connection_when_the_server_has_restarted() {
    let mut fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::HoldRequest);
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    assert!(rule.fired_within(LONG));
    fixture.server.restart().expect("restarted");
    assert!(is_closed(&mut client));
    assert_eq!(rule.deliver(LONG).expect("an answer"), [Value::Integer(1)]);
}

#[test]
fn cut_before_closes_and_the_server_sees_only_what_was_sent_earlier() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::CutBefore);
    let mut client = fixture.client();
    client.command(&["SET", "n", "5"]).expect("a reply");
    client.send(&["INCR", "n"]).expect("sent");
    assert!(is_closed(&mut client));
    assert!(rule.fired_within(LONG));
    assert_eq!(fixture.count(), 5);
}

#[test]
fn cut_after_executes_and_closes_without_a_reply() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::CutAfter);
    let mut client = fixture.client();
    let pipeline = client.pipeline(&[vec!["INCR", "n"], vec!["INCR", "n"]]);
    assert!(pipeline.is_err());
    assert!(rule.fired_within(LONG));
    assert_eq!(fixture.count(), 1);
    assert_eq!(incr(&mut fixture.client()).expect("others go on").integer(), Some(2));
}

#[test]
fn a_black_hole_answers_nobody_and_closes_nothing_and_heals() {
    let fixture = Fixture::new();
    let mut before = fixture.client();
    incr(&mut before).expect("a reply");
    fixture.proxy.black_hole(true);
    let mut during = fixture.client();
    before.send(&["INCR", "n"]).expect("sent");
    during.send(&["INCR", "n"]).expect("sent");
    assert!(is_silent(&mut before) && is_silent(&mut during));
    assert_eq!(fixture.count(), 1);
    fixture.proxy.black_hole(false);
    let mut answers = [before.read().expect("a reply").integer(), during.read().expect("a reply").integer()];
    answers.sort_unstable();
    assert_eq!(answers, [Some(2), Some(3)]);
}

#[test]
fn a_block_towards_the_client_lets_commands_execute() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    fixture.proxy.block(Direction::ToClient, true);
    client.send(&["INCR", "n"]).expect("sent");
    assert!(fixture.count_becomes(1));
    assert!(is_silent(&mut client));
    fixture.proxy.block(Direction::ToClient, false);
    assert_eq!(client.read().expect("a reply").integer(), Some(1));
}

#[test]
fn refused_clients_are_closed_and_open_ones_stay() {
    let fixture = Fixture::new();
    let mut open = fixture.client();
    incr(&mut open).expect("a reply");
    fixture.proxy.refuse(true);
    // The kernel may finish its handshake or hand the reset to `connect`: either way there is no reply.
    assert!(RawClient::connect(fixture.proxy.port()).and_then(|mut client| incr(&mut client)).is_err());
    assert_eq!(incr(&mut open).expect("a reply").integer(), Some(2));
    fixture.proxy.refuse(false);
    assert_eq!(incr(&mut fixture.client()).expect("a reply").integer(), Some(3));
}

#[test]
fn cut_all_closes_every_connection_on_both_sides() {
    let fixture = Fixture::new();
    let mut clients = [fixture.client(), fixture.client()];
    for client in &mut clients {
        incr(client).expect("a reply");
    }
    fixture.proxy.cut_all();
    assert!(clients.iter_mut().all(is_closed));
    let connected =
        || fixture.server.client()?.command(&["CLIENT", "LIST"]).map(|list| list.text().unwrap_or_default());
    // The one that asks is left.
    assert!(holds_within(LONG, || connected().expect("a list").lines().count() == 1));
    assert_eq!(incr(&mut fixture.client()).expect("a reply").integer(), Some(3));
}

#[test]
fn a_server_that_dies_closes_its_clients_and_serves_new_ones_when_it_is_back() {
    let mut fixture = Fixture::new();
    let mut client = fixture.client();
    incr(&mut client).expect("a reply");
    fixture.server.kill().expect("killed");
    assert!(is_closed(&mut client));
    assert!(incr(&mut fixture.client()).is_err());
    fixture.server.restart().expect("restarted");
    assert_eq!(incr(&mut fixture.client()).expect("a reply").integer(), Some(1));
}

#[test]
fn latency_adds_up_over_both_ways_and_keeps_the_order() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    fixture.proxy.latency(Direction::ToServer, Duration::from_millis(60));
    fixture.proxy.latency(Direction::ToClient, Duration::from_millis(40));
    let sent = Instant::now();
    let slow: Vec<_> = (0..3).map(|_| client.send(&["INCR", "n"])).collect();
    assert!(slow.iter().all(Result::is_ok));
    assert_eq!(client.read().expect("a reply").integer(), Some(1));
    assert!(sent.elapsed() >= Duration::from_millis(100));
    fixture.proxy.latency(Direction::ToServer, Duration::ZERO);
    fixture.proxy.latency(Direction::ToClient, Duration::ZERO);
    client.send(&["INCR", "n"]).expect("sent");
    let answers: Vec<_> = (0..3).map(|_| client.read().expect("a reply").integer()).collect();
    assert_eq!(answers, [Some(2), Some(3), Some(4)]);
}

#[test]
fn messages_pass_in_both_protocols_and_a_lost_confirmation_stays_lost() {
    for protocol in ["2", "3"] {
        let fixture = Fixture::new();
        let mut listener = fixture.client();
        listener.command(&["HELLO", protocol]).expect("a reply");
        assert_eq!(listener.command(&["SUBSCRIBE", "a"]).expect("a reply").texts(), ["subscribe", "a"]);
        let rule = fixture.proxy.rule(Rule::once(Match::command("SUBSCRIBE"), Fault::LoseReply));
        listener.send(&["SUBSCRIBE", "b", "c"]).expect("sent");
        assert!(rule.fired_within(LONG));
        let mut speaker = fixture.server.client().expect("a connection");
        for channel in ["a", "b", "c"] {
            assert_eq!(speaker.command(&["PUBLISH", channel, "0"]).expect("a reply").integer(), Some(1));
            assert_eq!(listener.read().expect("a message").texts(), ["message", channel, "0"]);
        }
        let pong = listener.command(&["PING"]).expect("a reply");
        assert_eq!(pong.texts().first().cloned().or(pong.text()).expect("a pong").to_lowercase(), "pong");
    }
}

#[test]
fn a_long_pipeline_and_a_large_value_pass_unchanged() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let pipeline: Vec<_> = (0..20_000).map(|_| vec!["INCR", "n"]).collect();
    let replies = client.pipeline(&pipeline[..5_000]).expect("replies");
    assert_eq!(replies.last().and_then(Value::integer), Some(5_000));
    let large = vec![b'x'; 3_000_000];
    assert!(client.command(&[b"SET".as_slice(), b"large", &large]).expect("a reply").is_ok());
    assert_eq!(client.command(&["GET", "large"]).expect("a reply").bytes(), Some(large.as_slice()));
}

#[tokio::test(start_paused = true)]
async fn a_paused_and_blocked_runtime_of_the_test_does_not_touch_it() {
    let fixture = Fixture::new();
    let rule = fixture.strike_incr(Fault::HoldRequest);
    tokio::time::advance(Duration::from_secs(3600)).await;
    let mut client = fixture.client();
    client.send(&["INCR", "n"]).expect("sent");
    rule.wait_fired(1).await;
    assert_eq!(rule.deliver(LONG).expect("an answer"), [Value::Integer(1)]);
}

/// A ceiling that only a fault reaches.
const LONG: Duration = Duration::from_secs(5);

/// Long enough for a loopback reply that should not come.
const MOMENT: Duration = Duration::from_millis(50);
