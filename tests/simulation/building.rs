//! Building an engine, and what is refused at once.

use std::time::Duration;

use leasehold::{AcquireError, BuildError, Engine, EngineBuilder};
use leasehold_memory::{Cut, Faulty, MemoryTransport};

use crate::fixture::{builder, millis, pass, seconds, timed};

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_without_on_current_runtime_it_is_refused_with_the_remedy() {
    for built in [
        Engine::builder(MemoryTransport::new()).build().await,
        Engine::builder(MemoryTransport::new()).connect_later(),
    ] {
        let Err(BuildError::Invalid(invalid)) = built else { panic!("{built:?}") };
        assert!(invalid.remedy.contains("on_current_runtime()"), "{invalid}");
    }
}

#[tokio::test]
async fn under_a_running_clock_it_has_threads_of_its_own() {
    let engine = Engine::builder(MemoryTransport::new()).build().await.unwrap();
    engine.lock("a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(engine.shutdown(seconds(10)).await.unconfirmed, Vec::<String>::new());
}

#[test]
fn on_current_runtime_without_a_runtime_is_an_error() {
    let built = Engine::builder(MemoryTransport::new()).on_current_runtime().connect_later();
    assert!(matches!(built, Err(BuildError::Threads(_))), "{built:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_server_it_is_unavailable_after_its_time_and_not_before() {
    for (cut, most) in [(Cut::Refused, seconds(10)), (Cut::BlackHole, seconds(11))] {
        let transport = Faulty::new(MemoryTransport::new());
        transport.faults().cut(cut);
        let (built, took) = timed(builder(&transport).build()).await;
        let Err(BuildError::Unavailable { after, .. }) = built else { panic!("{built:?}") };
        assert_eq!(after, seconds(10));
        assert!(took >= millis(8_500) && took <= most, "{cut:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_in_time_is_waited_for() {
    let transport = Faulty::new(MemoryTransport::new());
    let faults = transport.faults();
    faults.cut(Cut::Refused);
    tokio::spawn(async move {
        pass(seconds(3)).await;
        faults.heal();
    });
    let (built, took) = timed(builder(&transport).build()).await;
    assert!(built.is_ok() && took <= millis(3_300), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn connect_later_returns_at_once_and_works_when_the_server_comes() {
    let transport = Faulty::new(MemoryTransport::new());
    transport.faults().cut(Cut::Refused);
    let engine = builder(&transport).connect_later().unwrap();
    assert!(!engine.snapshot().connected);
    let (refused, took) = timed(engine.lock("a").acquire()).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{refused:?}");
    assert!(took >= seconds(10) && took <= millis(10_500), "{took:?}");
    let waiting = tokio::spawn(engine.lock("a").acquire());
    pass(seconds(4)).await;
    transport.faults().heal();
    let (lease, took) = timed(waiting).await;
    assert!(lease.unwrap().unwrap().is_held() && took <= millis(500), "{took:?}");
    assert!(engine.snapshot().connected);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_be_used_are_refused_with_field_value_and_remedy() {
    type Change = fn(EngineBuilder) -> EngineBuilder;
    let bad: [(Change, &str, &str, &str); 6] = [
        (|b| b.ttl(millis(999)), "ttl_ms", "999", "1000"),
        (|b| b.ttl(Duration::MAX), "ttl_ms", "", "at most"),
        (|b| b.command_timeout(seconds(20)), "command_timeout_ms", "20000", "10000"),
        (|b| b.command_timeout(Duration::ZERO), "command_timeout_ms", "0", "at least 1"),
        (|b| b.unavailable_after(Duration::ZERO), "unavailable_after_ms", "0", "at least 1"),
        (|b| b.restart_grace(seconds(20)), "ttl_ms", "30000", "restart_grace_ms = 20000"),
    ];
    for (change, field, value, remedy) in bad {
        let built = change(builder(&MemoryTransport::new())).build().await;
        let Err(BuildError::Invalid(invalid)) = built else { panic!("{field}: {built:?}") };
        assert_eq!(invalid.field, field);
        assert!(invalid.value.contains(value) && invalid.remedy.contains(remedy), "{invalid}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_build_leaves_nothing() {
    let transport = Faulty::new(MemoryTransport::new());
    transport.faults().cut(Cut::BlackHole);
    drop(tokio::time::timeout(millis(1_500), builder(&transport).build()).await);
    transport.faults().heal();
    pass(seconds(5)).await;
    assert_eq!(transport.inner().watched_keys() + transport.inner().stored_holds(), 0);
}
