//! Requests behind an `ASKING`, on nodes that say what the test wants.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use leasehold::{owner::OwnerMint, routing::slot::Slot, transport::*};
use leasehold_redis::{Address, RedisConfig, RedisTransport};

use crate::{
    fake,
    server::{acquire, open},
};

/// Two nodes: the first has all slots below half, the second the others. The first sends whoever asks for a key whose
/// name begins with "moves" to the second.
fn nodes(second: impl Fn(&[String]) -> String + Send + Sync + 'static) -> RedisConfig {
    let ports: Arc<Mutex<[u16; 2]>> = Arc::default();
    let known = ports.clone();
    let of_second =
        fake::serve(move |words| common(words, *known.lock().unwrap(), 1).unwrap_or_else(|| second(words)));
    let known = ports.clone();
    let of_first = fake::serve(move |words| {
        let ports = *known.lock().unwrap();
        common(words, ports, 0).unwrap_or_else(|| match words.get(3) {
            Some(key) if key.starts_with("moves") => {
                format!("-ASK {} 127.0.0.1:{}\r\n", Slot::of(key.as_bytes()).number(), ports[1])
            }
            _ => GRANTED.into(),
        })
    });
    *ports.lock().unwrap() = [of_first, of_second];
    RedisConfig::cluster([Address::new("127.0.0.1", of_first)])
}

/// What each node says of itself and of the cluster.
fn common(words: &[String], ports: [u16; 2], own: usize) -> Option<String> {
    if words[0] != "CLUSTER" {
        return fake::healthy(words);
    }
    let id = |n: usize| ["a", "b"][n].repeat(40);
    let slots = ["0-8191", "8192-16383"];
    let line = |n: usize| {
        let me = if n == own { "myself," } else { "" };
        format!("{} 127.0.0.1:{}@1 {me}master - 0 0 {} connected {}\n", id(n), ports[n], n + 1, slots[n])
    };
    let text = line(0) + &line(1);
    if words[1].eq_ignore_ascii_case("nodes") {
        return Some(format!("${}\r\n{text}\r\n", text.len()));
    }
    let range = |n: usize| {
        let (first, last) = slots[n].split_once('-').unwrap();
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$40\r\n{}\r\n", ports[n], id(n))
    };
    Some(format!("*2\r\n{}{}", range(0), range(1)))
}

const GRANTED: &str = "*2\r\n:1\r\n:1795250671168790\r\n";

/// A name in the lower half of the slots, or in the upper.
fn name(begins: &str, lower: bool, n: usize) -> String {
    let names = (0..).map(|i| format!("{begins}{n}.{i}"));
    names.into_iter().find(|name| (Slot::of(name.as_bytes()).number() < 8192) == lower).unwrap()
}

#[tokio::test]
async fn a_grant_behind_an_asking_that_was_refused_is_a_grant() {
    let config = nodes(|words| match words[0].as_str() {
        "ASKING" => "-NOPERM this user has no permissions to run the 'asking' command\r\n".into(),
        _ => GRANTED.into(),
    });
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let reply = lane.call_one(acquire(&OwnerMint::new(), &name("moves", true, 0))).await.into_result();
    assert!(matches!(reply, Ok(Outcome::Granted { .. })), "{reply:?}");
}

#[tokio::test]
async fn a_redirect_behind_an_asking_that_was_refused_names_the_missing_right() {
    let config = nodes(|words| match words[0].as_str() {
        "ASKING" => "-NOPERM this user has no permissions to run the 'asking' command\r\n".into(),
        _ => "-MOVED 1 127.0.0.1:1\r\n".into(),
    });
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let error =
        lane.call_one(acquire(&OwnerMint::new(), &name("moves", true, 0))).await.into_result().unwrap_err();
    assert!(error.kind == ErrorKind::Denied && error.detail.contains("asking"), "{error}");
    assert_eq!(error.effect, Effect::None);
}

/// The node gives ASKING to the next command of the connection, whichever that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_no_other_request_comes_between_asking_and_its_command() {
    let (stolen, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (thefts, questions, was_asking) = (stolen.clone(), asked.clone(), Mutex::new(false));
    // One connection of one lane: its commands come in order.
    let config = nodes(move |words| {
        let mut was_asking = was_asking.lock().unwrap();
        if words[0] == "ASKING" {
            questions.fetch_add(1, Ordering::SeqCst);
            *was_asking = true;
            return "+OK\r\n".into();
        }
        // Without a key it is a question of a new connection.
        if let Some(key) = words.get(3) {
            thefts.fetch_add(usize::from(*was_asking && !key.starts_with("moves")), Ordering::SeqCst);
            *was_asking = false;
        }
        GRANTED.into()
    });
    let lane = open(&RedisTransport::new(config), LanePurpose::Calls).await.unwrap();
    let mint = Arc::new(OwnerMint::new());
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (lane, mint) = (lane.clone(), mint.clone());
        let name = if n % 2 == 0 { name("moves", true, n) } else { name("stays", false, n) };
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let reply = lane.call_one(acquire(&mint, &name)).await.into_result();
                assert!(matches!(reply, Ok(Outcome::Granted { .. })), "{reply:?}");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(asked.load(Ordering::SeqCst), 4 * ROUNDS);
    assert_eq!(stolen.load(Ordering::SeqCst), 0, "of {}", 4 * ROUNDS);
}

const ROUNDS: usize = 200;
