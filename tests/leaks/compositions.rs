//! Compositions outside of any runtime, and after the last handle of their engines.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use leasehold::{BuildError, Engine, MultiLock, Quorum};
use leasehold_memory::MemoryTransport;
use leasehold_tests::harness::polling::holds_within;

use crate::fixture::{PATIENCE, block_on};

struct Unparks(thread::Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Without tokio.
fn blocked_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
    }
}

async fn engines(servers: &[MemoryTransport]) -> Vec<Engine> {
    let mut engines = Vec::new();
    for (place, server) in servers.iter().enumerate() {
        let builder = Engine::builder(server.clone()).id(place.to_string()).restart_grace(Duration::ZERO);
        engines.push(builder.build().await.expect("an engine"));
    }
    engines
}

fn servers() -> [MemoryTransport; 3] {
    [(); 3].map(|()| MemoryTransport::new())
}

fn are_free(servers: &[MemoryTransport]) -> bool {
    servers.iter().all(|server| server.stored_holds() + server.watched_keys() == 0)
}

#[test]
fn compositions_need_no_runtime_of_the_caller() {
    let servers = servers();
    let (ours, others) = (block_on(engines(&servers)), block_on(engines(&servers)));
    let [quorum, other] = [ours.clone(), others].map(|engines| Quorum::over(engines).expect("a quorum"));
    let (lock, multi) = (quorum.lock("a"), MultiLock::of(ours.iter().map(|engine| engine.lock("b"))));
    let done = thread::spawn(move || {
        blocked_on(async move {
            let held = other.lock("a").acquire().await.expect("free");
            // Its pauses need a timer.
            assert!(lock.clone().wait(Duration::from_millis(300)).acquire().await.is_err());
            held.release().await.expect("held to the end");
            let lease = lock.acquire().await.expect("free");
            let both = multi.wait(PATIENCE).acquire().await.expect("free");
            assert!(lease.is_held() && both.is_held());
            both.release().await.expect("held to the end");
            lease.release().await.expect("held to the end");
        });
    });
    done.join().expect("no panic");
    assert!(holds_within(PATIENCE, || are_free(&servers)));
}

#[test]
fn l7_when_the_last_handle_is_gone_the_members_are_given_back() {
    let servers = servers();
    let engines = block_on(engines(&servers));
    let losses: Vec<_> = engines.iter().map(Engine::losses).collect();
    let (quorum, multi) = block_on(async {
        let quorum =
            Quorum::over(engines.clone()).expect("a quorum").lock("a").acquire().await.expect("free");
        let multi =
            MultiLock::of(engines.iter().map(|engine| engine.lock("b"))).acquire().await.expect("free");
        (quorum, multi)
    });
    drop(engines);
    assert!(quorum.is_held() && multi.is_held(), "a lease keeps its engines");
    assert!(!are_free(&servers));
    drop((quorum, multi));
    assert!(holds_within(PATIENCE, || are_free(&servers)));
    // The streams end with their engines: no task of a composition keeps one alive.
    for mut losses in losses {
        let ended = block_on(async { tokio::time::timeout(PATIENCE, losses.next()).await });
        assert!(matches!(ended, Ok(None)), "{ended:?}");
    }
}

/// The host ends first, the last one goes on, and then the threads end.
#[test]
fn l6_engines_share_two_threads_that_end_with_the_last_of_them() {
    let servers = servers();
    block_on(async {
        let first = Engine::builder(servers[0].clone()).build().await.expect("an engine");
        let second = Engine::builder(servers[1].clone()).threads_of(&first).build().await.expect("an engine");
        let third = Engine::builder(servers[2].clone()).threads_of(&second).build().await.expect("an engine");
        let kept = third.lock("a").ttl(Duration::from_secs(1)).acquire().await.expect("free");
        drop(first.lock("a").acquire().await.expect("free"));
        assert_eq!(first.shutdown(PATIENCE).await.unconfirmed, Vec::<String>::new());
        drop((first, second));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(kept.is_held(), "renewed three times without its host");
        let fourth = Engine::builder(servers[0].clone()).threads_of(&third).build().await.expect("an engine");
        fourth.lock("b").acquire().await.expect("free").release().await.expect("held to the end");
        let mut losses = third.losses();
        drop((third, fourth, kept));
        let ended = tokio::time::timeout(PATIENCE, losses.next()).await;
        assert!(matches!(ended, Ok(None)), "{ended:?}");
    });
    assert!(holds_within(PATIENCE, || are_free(&servers)));
}

#[test]
fn threads_of_an_engine_that_has_ended_are_refused() {
    block_on(async {
        let ended = Engine::builder(MemoryTransport::new()).build().await.expect("an engine");
        ended.shutdown(PATIENCE).await;
        let refused = || Engine::builder(MemoryTransport::new()).threads_of(&ended).connect_later();
        let is_refused = || matches!(refused(), Err(BuildError::Invalid(told)) if told.field == "threads_of");
        assert!(holds_within(PATIENCE, is_refused));
    });
}
