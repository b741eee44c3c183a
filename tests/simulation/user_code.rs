//! User code that panics: a recorder, and wakers. No lease is harmed, and every loss is told.

use std::{
    future::{Future, IntoFuture},
    ops::Range,
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
};

use leasehold::{
    AcquireError, CountError, Engine, EngineConfig, Lease, LeaseState, LossReason,
    transport::{BoxFuture, Call, Outcome},
};
use leasehold_memory::{Cut, Fault, Faulty, MemoryTransport, Operation};
use leasehold_tests::{
    changed,
    conservation::assert_balanced,
    every_event::EveryEvent,
    interposed::{Behind, Hand, Interposed},
};

use crate::fixture::{
    Cluster, breathe, builder, millis, name_in, now, pass, poll_once, seconds, settles_within,
};

/// Makes a recorder panic at the next event with this name. Clones are the same.
#[derive(Clone, Default)]
struct PanicAt(Arc<Mutex<Option<&'static str>>>);

impl PanicAt {
    fn arm(&self, event: &'static str) {
        *self.0.lock().expect("no panic under it") = Some(event);
    }

    fn has_panicked(&self) -> bool {
        self.0.lock().expect("no panic under it").is_none()
    }

    fn handle(&self, event: &'static str) {
        if self.0.lock().expect("no panic under it").take_if(|armed| *armed == event).is_some() {
            // Without the hook that prints it.
            std::panic::resume_unwind(Box::new("a recorder that panics"));
        }
    }
}

async fn engine_that_panics_at(event: &'static str) -> (Engine, MemoryTransport, PanicAt) {
    let (memory, panics) = (MemoryTransport::new(), PanicAt::default());
    let recorder = EveryEvent({
        let panics = panics.clone();
        move |event| panics.handle(event)
    });
    let built = builder(&memory).ttl(seconds(2)).metrics().recorder(recorder).build().await;
    let engine = built.expect("an engine");
    panics.arm(event);
    (engine, memory, panics)
}

/// Every event of an uncontended lock that is renewed, released and lost.
const EVENTS: [&str; 14] = [
    "wait_started",
    "granted",
    "asked",
    "answered release",
    "answered renew",
    "released",
    "lost",
    "renewed",
    "renewal",
    "margin_left",
    "renewal_late",
    "closing",
    "timer_late calls",
    "timer_late renewal",
];

#[tokio::test(start_paused = true)]
async fn no_panic_of_a_recorder_harms_a_lease() {
    for event in EVENTS {
        let (engine, memory, panics) = engine_that_panics_at(event).await;
        let healthy = engine.lock("healthy").acquire().await.expect("free");
        let short = engine.lock("short").no_renewal().acquire().await.expect("free");
        let mut losses = engine.losses();
        assert_eq!(short.lost().await, LossReason::Expired, "{event}");
        assert!(losses.try_next().is_some(), "the loss is told: {event}");
        drop(short);
        pass(seconds(20)).await;
        assert!(healthy.is_held(), "renewed for 10 ttls: {event}");
        let again = engine.lock("short").wait(seconds(1)).acquire().await.expect(event);
        again.release().await.expect(event);
        healthy.renew(seconds(2)).await.expect(event);
        healthy.release().await.expect(event);
        assert!(panics.has_panicked(), "{event} never came");
        settles_within(&engine, seconds(1)).await;
        assert_balanced(&engine);
        let (before, report) = (now(), engine.shutdown(seconds(5)).await);
        assert!(report.unconfirmed.is_empty() && now() - before < millis(100), "{event}: {report:?}");
        assert_eq!(memory.stored_holds(), 0, "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panicked_is_not_called_again() {
    let calls = Arc::new(AtomicU64::new(0));
    let recorder = EveryEvent({
        let calls = calls.clone();
        move |_| {
            calls.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new("a recorder that panics"));
        }
    });
    let engine = builder(&MemoryTransport::new()).recorder(recorder).build().await.expect("an engine");
    engine.lock("a").acquire().await.expect("free").release().await.expect("ours");
    pass(seconds(1)).await;
    assert_eq!(calls.load(Relaxed), 1);
    let seen = engine.snapshot();
    assert!(seen.recorder_panicked && seen.events_dropped > 10, "{seen:?}");
}

/// A waker that does something of the user's.
struct Wakes<F>(F);

impl<F: Fn() + Send + Sync> Wake for Wakes<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Wakes(wake)))
}

/// How a lease ends.
type End = fn(Engine, Lease);

#[tokio::test(start_paused = true)]
async fn a_waker_may_look_at_the_engine() {
    let ends: [(&str, End); 3] = [
        ("release", |_, lease| drop(tokio::spawn(lease.release()))),
        ("drop", |_, lease| drop(lease)),
        ("shutdown", |engine, lease| {
            tokio::spawn(async move {
                engine.shutdown(seconds(1)).await;
                drop(lease);
            });
        }),
    ];
    for (name, end) in ends {
        let engine = builder(&MemoryTransport::new()).build().await.expect("an engine");
        let lease = engine.lock("a").acquire().await.expect("free");
        let seen = Arc::new(OnceLock::new());
        let looks = waker({
            let (engine, seen) = (engine.clone(), seen.clone());
            move || {
                let _ = seen.set(engine.snapshot());
            }
        });
        let mut lost = pin!(lease.lost());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&looks)).is_pending());
        end(engine, lease);
        pass(millis(10)).await;
        // A release wakes nobody: it is no loss.
        let held = seen.get().map(|seen| seen.held);
        assert_eq!(held, (name == "shutdown").then_some(0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_ends_no_renewals() {
    let engine = builder(&MemoryTransport::new()).ttl(seconds(2)).metrics().build().await.expect("an engine");
    let panics = waker(|| std::panic::resume_unwind(Box::new("a waker that panics")));
    let healthy = engine.lock("healthy").acquire().await.expect("free");
    let renewed = engine.lock("renewed by hand").acquire().await.expect("free");
    let mut renewing = pin!(renewed.renew(seconds(2)));
    assert!(renewing.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    let short = engine.lock("short").no_renewal().acquire().await.expect("free");
    let mut lost = pin!(short.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    let mut losses = engine.losses();
    pass(seconds(20)).await;
    assert!(healthy.is_held() && renewed.is_held(), "renewed for 10 ttls");
    assert_eq!(short.state(), LeaseState::Lost(LossReason::Expired));
    assert!(losses.try_next().is_some(), "the loss is told");
    healthy.renew(seconds(2)).await.expect("the renewal driver lives");
    drop((healthy, renewed, short));
    settles_within(&engine, seconds(1)).await;
    assert_balanced(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_the_end_of_an_engine_stops_no_other_step_of_the_end() {
    let (faulty, kept) = (Faulty::new(MemoryTransport::new()), Arc::new(()));
    let panics = waker(|| std::panic::resume_unwind(Box::new("a waker that panics")));
    let in_recorder = kept.clone();
    let recorder = EveryEvent(move |_| drop(in_recorder.clone()));
    let engine = builder(&faulty).recorder(recorder).build().await.expect("an engine");
    let lease = engine.lock("a").acquire().await.expect("free");
    faulty.faults().cut(Cut::BlackHole);
    let mut losses = engine.losses();
    let mut renewing = Box::pin(lease.renew(seconds(20)));
    assert!(renewing.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    drop((engine, lease));
    assert!(losses.next().await.is_none(), "a reader of losses learns of the end");
    drop((renewing, losses));
    pass(seconds(30)).await;
    assert_eq!(Arc::strong_count(&kept), 1, "the engine is freed");
}

// A panic while a panic unwinds would end the process.
#[tokio::test(start_paused = true)]
async fn wakers_that_panic_keep_no_caller_of_a_shutdown_from_its_answer() {
    let engine = builder(&MemoryTransport::new()).build().await.expect("an engine");
    let held = engine.lock("held").acquire().await.expect("free");
    let panics = waker(|| std::panic::resume_unwind(Box::new("a waker that panics")));
    let mut waiting: Vec<BoxFuture<'_, bool>> = Vec::new();
    for _ in 0..3 {
        let (permits, opened) = (engine.semaphore("a").acquire(1), engine.latch("b").opened());
        let lock = engine.lock("held").acquire();
        waiting.push(Box::pin(async { matches!(permits.await, Err(CountError::ShuttingDown)) }));
        waiting.push(Box::pin(async { matches!(opened.await, Err(CountError::ShuttingDown)) }));
        waiting.push(Box::pin(async { matches!(lock.await, Err(AcquireError::ShuttingDown)) }));
    }
    assert!(engine.latch("b").try_set(1).await.expect("reachable"));
    for caller in &mut waiting {
        assert!(caller.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    }
    pass(millis(100)).await;
    engine.shutdown(seconds(1)).await;
    drop(held);
    for caller in waiting {
        assert!(caller.await, "each caller is told of the shutdown");
    }
}

// The list waits for the answer of its first lease. That lease has the latest deadline, so its release is still queued
// when the engine gives up the calls that wait for the node.
#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_no_other_bulk_call_from_its_answer() {
    let cluster = Cluster::new(3);
    let config = changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 4);
    let engine = builder(&cluster).config(config).build().await.expect("an engine");
    let names = |numbers: Range<usize>| numbers.map(|number| name_in(0, number)).collect::<Vec<_>>();
    let granted = engine.acquire_all(names(0..100)).await;
    let mut leases: Vec<Lease> = granted.into_iter().collect::<Result<_, _>>().expect("free");
    pass(millis(100)).await;
    leases.insert(0, engine.lock(name_in(0, 100)).acquire().await.expect("free"));
    cluster.hang(0);
    let panics = waker(|| std::panic::resume_unwind(Box::new("a waker that panics")));
    let mut releasing = pin!(engine.release_all(leases));
    assert!(releasing.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    let asked = tokio::time::timeout(seconds(60), engine.acquire_all(names(200..210)).into_future());
    let outcomes = asked.await.expect("each caller has its answer");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(AcquireError::Unavailable { .. }))));
    cluster.wake(0);
    settles_within(&engine, seconds(60)).await;
    assert_eq!(cluster.stored_holds(), 0);
}

/// Panics instead of sending the next release.
#[derive(Clone, Default)]
struct PanicsAtRelease(Arc<AtomicBool>);

impl Hand for PanicsAtRelease {
    fn release<'a>(&'a self, behind: &'a Behind, request: Call) -> BoxFuture<'a, Outcome> {
        match self.0.swap(false, Relaxed) {
            true => Box::pin(async { std::panic::resume_unwind(Box::new("a transport that panics")) }),
            false => behind.lane.call_one(request),
        }
    }
}

/// Panics instead of sending the next ask.
#[derive(Clone, Default)]
struct PanicsAtAcquire(Arc<AtomicBool>);

impl Hand for PanicsAtAcquire {
    fn acquire<'a>(&'a self, behind: &'a Behind, request: Call) -> BoxFuture<'a, Outcome> {
        match self.0.swap(false, Relaxed) {
            true => Box::pin(async { std::panic::resume_unwind(Box::new("a transport that panics")) }),
            false => behind.lane.call_one(request),
        }
    }
}

// A panic while a panic unwinds would end the process.
#[tokio::test(start_paused = true)]
async fn a_transport_and_a_waker_that_panic_leave_no_caller_without_an_answer() {
    let transport: Interposed<_, PanicsAtAcquire> = Interposed::new(MemoryTransport::new());
    let engine = builder(&transport).build().await.expect("an engine");
    let panics = waker(|| std::panic::resume_unwind(Box::new("a waker that panics")));
    transport.hand.0.store(true, Relaxed);
    let (mut first, mut second) = (pin!(engine.lock("a").acquire()), pin!(engine.lock("a").acquire()));
    assert!(first.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    assert!(poll_once(&mut second).await.is_none());
    assert!(matches!(second.await, Err(AcquireError::ShuttingDown)));
    assert!(matches!(first.await, Err(AcquireError::ShuttingDown)));
    assert!(!transport.hand.0.load(Relaxed), "the first ask panicked");
    drop(engine.lock("a").acquire().await.expect("the next caller has another driver"));
    settles_within(&engine, seconds(2)).await; // the lost call may be executed for a command timeout
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_leaves_no_owner_open() {
    let transport: Interposed<_, PanicsAtRelease> = Interposed::new(MemoryTransport::new());
    let panics = transport.hand.0.clone();
    let engine = builder(&transport).ttl(seconds(2)).build().await.expect("an engine");
    let lease = engine.lock("a").no_renewal().acquire().await.expect("free");
    assert_eq!(lease.lost().await, LossReason::Expired);
    panics.store(true, Relaxed);
    drop(lease);
    settles_within(&engine, seconds(1)).await;
    assert!(!panics.load(Relaxed), "it was asked for a release");
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_as_a_grant_goes_back_leaves_no_owner_open() {
    let faulty = Faulty::new(MemoryTransport::new());
    faulty.faults().on(Operation::Acquire).inject(Fault::DelayReply(millis(300)));
    let transport: Interposed<_, PanicsAtRelease> = Interposed::new(faulty);
    let panics = transport.hand.0.clone();
    let engine = builder(&transport).build().await.expect("an engine");
    let gone = tokio::spawn(engine.lock("a").acquire());
    breathe().await;
    gone.abort();
    panics.store(true, Relaxed);
    pass(seconds(1)).await;
    assert!(!panics.load(Relaxed), "the grant found no caller");
    settles_within(&engine, seconds(1)).await;
    assert!(engine.lock("a").acquire().await.is_ok());
}
