//! A call is a span with its outcome, and what the engine does in the background is in no call's span.

use std::time::Duration;

use leasehold::{Engine, EngineBuilder, MultiLock, Quorum};
use leasehold_memory::{Cut, Faulty, MemoryTransport};
use tracing::{Instrument, Level};

use crate::capture::{Capture, Record};

fn builder(transport: impl leasehold::transport::Transport) -> EngineBuilder {
    Engine::builder(transport).on_current_runtime()
}

async fn engine() -> Engine {
    builder(MemoryTransport::new()).build().await.expect("an engine")
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

fn outcomes(spans: &[Record]) -> Vec<&str> {
    fields(spans, "lock.outcome")
}

fn fields<'a>(spans: &'a [Record], field: &str) -> Vec<&'a str> {
    spans.iter().map(|span| span.field(field).unwrap_or("none")).collect()
}

#[tokio::test(start_paused = true)]
async fn each_acquire_is_a_span_with_its_outcome() {
    let (capture, engine) = (Capture::start(), engine().await);
    let (lock, scope) = (engine.lock("a").class("x"), engine.reentry());
    let mine = lock.clone().reentry(&scope);
    let first = mine.acquire().await.expect("free"); // acquired
    let second = mine.acquire().await.expect("ours"); // reentrant
    assert!(lock.try_acquire().await.expect("an answer").is_none()); // busy
    assert!(lock.clone().wait(Duration::from_millis(50)).acquire().await.is_err()); // timeout
    let dropped = tokio::spawn(lock.acquire());
    let waiting = tokio::spawn(lock.acquire());
    pass(250).await;
    dropped.abort(); // cancelled
    pass(250).await;
    let token = first.fencing_token().to_string();
    drop((first, second));
    drop(waiting.await.expect("no panic").expect("a lease")); // acquired
    engine.shutdown(Duration::from_secs(1)).await;
    let spans = capture.spans("lock.acquire");
    assert_eq!(outcomes(&spans), ["acquired", "reentrant", "busy", "timeout", "cancelled", "acquired"]);
    for span in &spans {
        assert!(span.closed && span.level == Level::DEBUG, "{span}");
        let told = ["lock.class", "lock.name", "otel.kind"].map(|field| span.field(field));
        assert_eq!(told, [Some("x"), Some("a"), Some("client")]);
    }
    let of_first = ["lock.fencing_token", "lock.contended"].map(|field| spans[0].field(field));
    assert_eq!(of_first, [Some(&*token), Some("false")]);
    assert_eq!(spans[5].field("lock.contended"), Some("true"));
    let waited: f64 = spans[5].field("lock.wait_ms").expect("a time").parse().expect("a number");
    assert!((499.0..=510.0).contains(&waited), "{waited}");
    assert_eq!(spans[2].field("lock.fencing_token"), None);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_an_answer_is_an_error() {
    let capture = Capture::start();
    let transport = Faulty::new(MemoryTransport::new());
    let faults = transport.faults();
    let engine =
        builder(transport).unavailable_after(Duration::from_secs(1)).build().await.expect("an engine");
    faults.cut(Cut::BlackHole);
    engine.lock("a").acquire().await.expect_err("nobody answers");
    let spans = capture.spans("lock.acquire");
    assert_eq!(outcomes(&spans), ["error"]);
    assert_eq!(spans[0].field("otel.status_code"), Some("ERROR"));
}

#[tokio::test(start_paused = true)]
async fn each_release_is_a_span_with_its_outcome() {
    let capture = Capture::start();
    let transport = Faulty::new(MemoryTransport::new());
    let faults = transport.faults();
    let engine = builder(transport).build().await.expect("an engine");
    let lock = engine.lock("a").class("x");
    let well = lock.acquire().await.expect("free");
    let token = well.fencing_token().to_string();
    well.release().await.expect("ours to the end");
    let robbed = lock.acquire().await.expect("free");
    lock.force_release().await.expect("an answer");
    robbed.release().await.expect_err("it was not ours");
    let unanswered = lock.acquire().await.expect("free");
    faults.cut(Cut::BlackHole);
    unanswered.release().await.expect_err("nobody answers");
    let spans = capture.spans("lock.release");
    assert_eq!(outcomes(&spans), ["released", "already_lost", "unknown"]);
    let status: Vec<_> = spans.iter().map(|span| span.field("otel.status_code")).collect();
    assert_eq!(status, [None, Some("ERROR"), Some("ERROR")]);
    let told = ["lock.class", "lock.name", "lock.fencing_token"].map(|field| spans[0].field(field));
    assert_eq!(told, [Some("x"), Some("a"), Some(&*token)]);
}

#[tokio::test(start_paused = true)]
async fn the_work_of_the_background_is_in_no_callers_span() {
    let (capture, engine) = (Capture::start(), engine().await);
    let request = tracing::info_span!(target: "test", "request");
    let lease =
        engine.lock("a").ttl(Duration::from_secs(3)).acquire().instrument(request).await.expect("free");
    pass(5_000).await;
    engine.lock("a").force_release().await.expect("an answer");
    pass(2_000).await;
    assert!(!lease.is_held());
    assert_eq!(capture.spans("lock.acquire")[0].inside, ["request"]);
    let renewals = capture.spans("lock.renew");
    assert!(renewals.len() >= 4, "{renewals:?}");
    assert!(renewals.iter().all(|renewal| renewal.inside.is_empty() && renewal.level == Level::TRACE));
    let lost =
        capture.records().into_iter().filter(|record| record.level == Level::ERROR).collect::<Vec<_>>();
    let [lost] = &lost[..] else { panic!("one for each loss: {lost:?}") };
    let told = ["message", "lock", "class"].map(|field| lost.field(field));
    assert_eq!(told, [Some("a lease was lost"), Some("a"), Some("default")]);
    assert_eq!(lost.field("token"), Some(&*lease.fencing_token().to_string()));
    assert!(lost.fields.contains_key("reason") && lost.fields.contains_key("margin"), "{lost}");
    assert!(!lost.inside.contains(&"request"), "{:?}", lost.inside);
}

#[tokio::test(start_paused = true)]
async fn each_acquire_of_a_composition_is_a_span_around_those_of_its_members() {
    let capture = Capture::start();
    let mut engines = Vec::new();
    for _server in 0..3 {
        let builder = builder(MemoryTransport::new()).restart_grace(Duration::ZERO);
        engines.push(builder.build().await.expect("an engine"));
    }
    let multi = MultiLock::of(["b", "a"].map(|name| engines[0].lock(name)));
    let held = multi.acquire().await.expect("free"); // acquired
    assert!(multi.try_acquire().await.expect("an answer").is_none()); // busy
    assert!(multi.clone().wait(Duration::from_millis(50)).acquire().await.is_err()); // timeout
    drop(held);
    assert!(MultiLock::of([engines[0].lock("a"), engines[1].lock("b")]).acquire().await.is_err()); // error
    let quorum = Quorum::over(engines).expect("a quorum").lock("q");
    let held = quorum.acquire().await.expect("free"); // acquired
    let waiting = tokio::spawn(quorum.acquire());
    pass(50).await;
    waiting.abort(); // cancelled
    drop(waiting.await);
    drop(held);
    let spans = capture.spans("multi_lock.acquire");
    assert_eq!(outcomes(&spans), ["acquired", "busy", "timeout", "error"]);
    assert_eq!(spans[0].field("lock.names"), Some("b, a"));
    assert_eq!(spans[3].field("otel.status_code"), Some("ERROR"));
    let spans = capture.spans("quorum_lock.acquire");
    assert_eq!(outcomes(&spans), ["acquired", "cancelled"]);
    assert!(spans.iter().all(|span| span.field("lock.name") == Some("q") && span.closed));
}

#[tokio::test(start_paused = true)]
async fn each_call_on_a_counter_is_a_span_with_its_operation_and_outcome() {
    let (capture, transport) = (Capture::start(), Faulty::new(MemoryTransport::new()));
    let faults = transport.faults();
    let engine = builder(transport).build().await.expect("an engine");
    let (semaphore, latch) = (engine.semaphore("s"), engine.latch("l"));
    assert!(semaphore.try_set(2).await.expect("an answer")); // done
    semaphore.acquire(2).await.expect("free"); // done
    assert!(!semaphore.try_acquire(1).await.expect("an answer")); // busy
    assert!(semaphore.clone().wait(Duration::from_millis(50)).acquire(1).await.is_err()); // timeout
    let dropped = tokio::spawn(semaphore.acquire(1));
    pass(250).await;
    dropped.abort(); // cancelled
    drop(dropped.await);
    semaphore.release(1).await.expect("an answer"); // done
    latch.try_set(1).await.expect("an answer"); // done
    latch.count_down().await.expect("an answer"); // done
    latch.clone().wait(Duration::from_millis(50)).opened().await.expect("open"); // done
    faults.cut(Cut::BlackHole);
    assert!(semaphore.wait(Duration::from_secs(1)).acquire(1).await.is_err()); // error
    let spans = capture.spans("counter.call");
    let operations = [
        "set",
        "acquire",
        "acquire",
        "acquire",
        "acquire",
        "release",
        "set",
        "count_down",
        "wait",
        "acquire",
    ];
    assert_eq!(fields(&spans, "counter.operation"), operations);
    let outcomes = ["done", "done", "busy", "timeout", "cancelled", "done", "done", "done", "done", "error"];
    assert_eq!(fields(&spans, "counter.outcome"), outcomes);
    assert!(spans.iter().all(|span| span.closed && span.level == Level::DEBUG));
    let told = ["counter.kind", "counter.name", "otel.kind"].map(|field| spans[0].field(field));
    assert_eq!(told, [Some("semaphore"), Some("s"), Some("client")]);
    assert_eq!(fields(&spans[6..9], "counter.kind"), ["latch"; 3]);
    let waited: f64 = spans[3].field("counter.wait_ms").expect("a time").parse().expect("a number");
    assert!((49.0..=1_100.0).contains(&waited), "{waited}");
    assert_eq!(spans[9].field("otel.status_code"), Some("ERROR"));
}
