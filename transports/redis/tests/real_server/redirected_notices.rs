//! A node that answers `SUNSUBSCRIBE` with `MOVED`: the connection for notices stays, whenever the replies come.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::transport::*;
use leasehold_redis::{Address, NoticeKind, RedisConfig, RedisTransport};

use crate::{fake, server::*};

/// When the redirect and the pong behind it come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Replies {
    /// The redirect comes after the ping, and the pong after the next ping.
    #[default]
    Late,
    /// Each reply takes `SLOW`, one after the other.
    Slow,
    /// Both come after the next ping, which is the probe of the quiet connection.
    Held,
}

/// A connection for notices to a node that the slot of `moves` has left.
#[derive(Default)]
struct Notices {
    replies: Replies,
    /// Replies that are still on their way. They come before the next one.
    late: Mutex<String>,
    /// How many `SUNSUBSCRIBE` were answered with `MOVED`.
    redirected: AtomicUsize,
    connections: AtomicUsize,
}

impl Notices {
    fn answer(&self, words: &[String]) -> String {
        match (words[0].as_str(), words.get(1)) {
            ("SSUBSCRIBE", Some(channel)) => format!("*3\r\n{}{}:1\r\n", bulk("ssubscribe"), bulk(channel)),
            ("SUNSUBSCRIBE", Some(_)) => {
                self.redirected.fetch_add(1, Ordering::SeqCst);
                self.redirect()
            }
            ("PING", Some(number)) => self.pong(number),
            _ => "-ERR unknown command\r\n".into(),
        }
    }

    fn redirect(&self) -> String {
        let redirect = "-MOVED 1 127.0.0.1:1\r\n".to_owned();
        if self.replies == Replies::Slow {
            return redirect;
        }
        // It comes after the ping that follows, so that it finds a request that waits for a reply.
        self.late().push_str(&redirect);
        String::new()
    }

    fn pong(&self, number: &str) -> String {
        let mut late = self.late();
        let now = std::mem::take(&mut *late);
        let pong = format!("*2\r\n{}{}", bulk("pong"), bulk(number));
        let is_only_a_redirect = now.starts_with('-') && !now.contains("pong");
        match self.replies {
            Replies::Late if is_only_a_redirect => {
                *late = pong;
                now
            }
            Replies::Held if is_only_a_redirect => {
                *late = now + &pong;
                String::new()
            }
            Replies::Late | Replies::Slow | Replies::Held => now + &pong,
        }
    }

    fn late(&self) -> std::sync::MutexGuard<'_, String> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A cluster of one node, and what its connection for notices does.
fn node(replies: Replies) -> (RedisConfig, Arc<Notices>) {
    let (notices, port) =
        (Arc::new(Notices { replies, ..Notices::default() }), Arc::new(AtomicU16::default()));
    let (answers, own) = (notices.clone(), port.clone());
    let at = fake::serve(move |words| {
        if words[0] == "CLIENT" && words.iter().any(|word| word == "leasehold-notices") {
            answers.connections.fetch_add(1, Ordering::SeqCst);
        }
        if words[0] == "CLUSTER" {
            return view(&words[1], own.load(Ordering::SeqCst));
        }
        let is_of_the_setup = words[0] == "PING" && words.len() == 1;
        match fake::healthy(words).filter(|_| words[0] != "PING" || is_of_the_setup) {
            Some(answer) => answer,
            None => {
                std::thread::sleep(if replies == Replies::Slow { SLOW } else { Duration::ZERO });
                answers.answer(words)
            }
        }
    });
    port.store(at, Ordering::SeqCst);
    let mut config = RedisConfig::cluster([Address::new("127.0.0.1", at)]);
    (config.notices, config.notices_warm_ms) = (NoticeKind::Sharded, 1);
    (config, notices)
}

fn view(asked: &str, port: u16) -> String {
    let id = "a".repeat(40);
    if asked.eq_ignore_ascii_case("nodes") {
        return bulk(&format!("{id} 127.0.0.1:{port}@1 myself,master - 0 0 1 connected 0-16383\n"));
    }
    format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n{}:{port}\r\n{}", bulk("127.0.0.1"), bulk(&id))
}

async fn in_force(watch: &mut Watch) {
    until(async || watch.observe().in_force.then_some(())).await;
}

async fn redirects_leave_the_connection(replies: Replies) {
    let (config, notices) = node(replies);
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mut stays = lane.watch(&key("stays"));
    in_force(&mut stays).await;
    for round in 1..=ROUNDS {
        let mut moves = lane.watch(&key(&format!("moves{round}")));
        in_force(&mut moves).await;
        drop(moves);
        until(async || (notices.redirected.load(Ordering::SeqCst) == round).then_some(())).await;
    }
    in_force(&mut lane.watch(&key("next"))).await;
    let state = stays.observe();
    assert!(state.in_force && state.gaps == 0, "{state:?}");
    assert_eq!(notices.connections.load(Ordering::SeqCst), 1, "connections for notices");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_a_pong_that_comes_behind_a_redirect_ends_no_connection() {
    redirects_leave_the_connection(Replies::Late).await;
}

/// Each reply is on its way for longer than it takes to send the next ping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_on_a_slow_link_a_redirect_ends_no_connection() {
    redirects_leave_the_connection(Replies::Slow).await;
}

/// The probe gets the pong of another ping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_a_probe_behind_a_redirect_ends_no_connection() {
    redirects_leave_the_connection(Replies::Held).await;
}

const ROUNDS: usize = 5;
const SLOW: Duration = Duration::from_millis(20);
