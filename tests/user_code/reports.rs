//! What the engine reports, written with serde.

use std::time::Duration;

use leasehold::{
    Engine, FencingToken, LossEvent,
    transport::{ErrorKind, Hold, Remaining, TransportError},
};
use leasehold_memory::MemoryTransport;
use serde_json::{Value, json, to_value};

async fn engine() -> Engine {
    Engine::builder(MemoryTransport::new()).on_current_runtime().build().await.unwrap()
}

fn written(report: impl serde::Serialize) -> Value {
    to_value(report).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_written_with_its_times_in_milliseconds() {
    let engine = engine().await;
    let (program, host) = engine.label().split_once('@').unwrap();
    assert!(program.starts_with("user_code") && !host.is_empty(), "{}", engine.label());
    let _held = engine.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(engine.lock("a").acquire());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let snapshot = written(engine.snapshot());
    assert_eq!(snapshot["label"], json!(engine.label()));
    assert_eq!((&snapshot["held"], &snapshot["waiting"]), (&json!(1), &json!(1)));
    assert!(snapshot["oldest_waiting_ms"].as_u64().is_some_and(|waited| (1_400..1_600).contains(&waited)));
    assert_eq!(snapshot["connected"], json!(true));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_loss_and_its_token_are_written_and_the_token_is_read_back() {
    let engine = engine().await;
    let mut losses = engine.losses();
    let lease = engine.fenced_lock("orders:42").no_renewal().acquire().await.unwrap();
    let token = lease.fencing_token();
    let event = losses.next().await.unwrap();
    let LossEvent::Lost(loss) = &event else { panic!("{event:?}") };
    let expected = json!({
        "name": "orders:42",
        "fencing_token": token.as_i64(),
        "reason": "expired",
        "held_ms": u64::try_from(loss.held.as_millis()).unwrap(),
    });
    assert_eq!(written(&event), json!({ "lost": expected }));
    assert_eq!(serde_json::from_value::<FencingToken>(written(token)).unwrap(), token);
    assert!(serde_json::from_value::<FencingToken>(json!(-1)).is_err());
    assert_eq!(written(lease.state()), json!({ "lost": "expired" }));
    let (at, deadline) = (engine.system_time(loss.at), engine.system_time(loss.deadline));
    assert!(at + Duration::from_secs(1) > deadline);
    assert_eq!(lease.deadline_system_time().duration_since(deadline).unwrap_or_default().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_description_is_written() {
    let engine = engine().await;
    let lease = engine.lock("report").acquire().await.unwrap();
    let written = written(engine.lock("report").describe().await.unwrap());
    assert_eq!(
        (&written["name"], &written["mode"], &written["line"]),
        (&json!("report"), &json!("exclusive"), &json!([]))
    );
    let holder = &written["holders"][0];
    assert_eq!(
        (&holder["is_of_this_engine"], &holder["token"]),
        (&json!(true), &json!(lease.fencing_token().as_i64()))
    );
    assert!(holder["remaining_ms"].as_u64().is_some_and(|left| (20_000..=30_000).contains(&left)));
}

#[tokio::test(start_paused = true)]
async fn an_audit_and_the_end_of_an_engine_are_written() {
    let engine = engine().await;
    let audit = written(engine.audit().await);
    for finding in audit["findings"].as_array().unwrap() {
        assert!(["info", "warn", "error"].contains(&finding["level"].as_str().unwrap()), "{finding}");
        assert!(finding["remedy"].is_string(), "{finding}");
    }
    let report = engine.shutdown(Duration::from_secs(1)).await;
    assert_eq!(written(report), json!({ "released": 0, "unconfirmed": [] }));
}

#[test]
fn an_error_of_the_transport_is_written_with_its_kind() {
    let error = TransportError::without_effect(ErrorKind::TimedOut, None, "redis a:6379: no answer");
    assert_eq!(written(error), json!({ "kind": "timed_out", "detail": "redis a:6379: no answer" }));
}

#[test]
fn a_hold_without_expiry_differs_from_one_whose_time_is_unknown() {
    let mut hold = Hold::new("c-1:7", 1);
    assert!(written(&hold).get("remaining_ms").is_none());
    hold.remaining = Remaining::NoExpiry;
    assert_eq!(written(&hold)["remaining_ms"], json!(null));
    hold.remaining = Remaining::For(Duration::from_millis(1_500));
    assert_eq!(written(&hold)["remaining_ms"], json!(1_500));
}
