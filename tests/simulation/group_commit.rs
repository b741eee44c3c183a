//! Acquires and releases that are sent together: no promise changes by it, and a node that is slow or silent costs less.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use leasehold::{
    AcquireError, EngineConfig, Lease,
    transport::{BoxFuture, Call, Outcome},
};
use leasehold_memory::{Cut, Fault, Faulty, MemoryTransport, Operation, faults::Rule};
use leasehold_tests::{
    changed,
    interposed::{Behind, Hand, Interposed},
};

use crate::fixture::{Fixture, builder, ground_with, millis, pass, seconds, settles_within};

const CALLERS: usize = 200;
/// Beside it up to 62 calls are sent alone, and five groups at once.
const ROUND_TRIP: Duration = millis(1);
/// After so many pairs, four round trips were taken in.
const SAMPLES: usize = 4 * 31;

async fn ground(group_commit_max: usize) -> Fixture {
    let config = changed(EngineConfig::default(), |new| new.group_commit_max = group_commit_max);
    ground_with(|builder| builder.config(config)).await
}

/// Delays every answer, and lets the engine learn the round trip: it takes in one call of some dozens. Returns the rules
/// for acquires and releases, which count requests.
async fn far(fixture: &Fixture) -> [Rule; 2] {
    let rules = [Operation::Acquire, Operation::Release]
        .map(|operation| fixture.faults.on(operation).always().inject(Fault::DelayReply(ROUND_TRIP)));
    for _ in 0..SAMPLES {
        fixture.engine.lock("known").acquire().await.expect("free").release().await.expect("ours");
    }
    rules
}

async fn all(fixture: &Fixture) -> Vec<Result<Lease, AcquireError>> {
    all_within(fixture, seconds(5)).await
}

async fn all_within(fixture: &Fixture, wait: Duration) -> Vec<Result<Lease, AcquireError>> {
    let asks = (0..CALLERS).map(|number| {
        let asked = fixture.engine.lock(format!("n{number}")).wait(wait).acquire();
        tokio::spawn(asked)
    });
    let mut leases = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        leases.push(ask.await.expect("no panic"));
    }
    leases
}

async fn release_all(leases: Vec<Lease>) {
    let releases = leases.into_iter().map(|lease| tokio::spawn(async move { lease.release().await }));
    for release in releases.collect::<Vec<_>>() {
        release.await.expect("no panic").expect("ours");
    }
}

async fn requests_for_all(group_commit_max: usize) -> [u64; 2] {
    let fixture = ground(group_commit_max).await;
    let rules = far(&fixture).await;
    let before = [rules[0].fired(), rules[1].fired()];
    let leases: Vec<_> = all(&fixture).await.into_iter().map(|lease| lease.expect("free")).collect();
    assert!(leases.iter().all(Lease::is_held));
    assert_eq!(fixture.transport.inner().stored_holds(), CALLERS);
    release_all(leases).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
    fixture.settles_within(seconds(1)).await;
    [rules[0].fired() - before[0], rules[1].fired() - before[1]]
}

#[tokio::test(start_paused = true)]
async fn callers_share_requests_and_each_has_its_own_lease() {
    let [acquires, releases] = requests_for_all(64).await;
    assert!(acquires <= 120 && releases <= 120, "{acquires} and {releases} requests for {CALLERS} callers");
}

#[tokio::test(start_paused = true)]
async fn with_a_limit_of_one_each_call_is_a_request() {
    assert_eq!(requests_for_all(1).await, [CALLERS as u64; 2]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_never_sent_to_a_silent_node_leave_nothing_to_close() {
    let fixture = ground(64).await;
    far(&fixture).await;
    fixture.faults.cut(Cut::BlackHole);
    for asked in all_within(&fixture, millis(500)).await {
        assert!(matches!(asked, Err(AcquireError::Unavailable { .. })), "{asked:?}");
    }
    pass(seconds(2)).await;
    let unknown = fixture.engine.snapshot().closing;
    assert!((1..=8 + 62 + 5 * 64).contains(&unknown) && unknown < CALLERS as u64, "{unknown}");
    fixture.faults.heal();
    fixture.settles_within(seconds(5)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_gets_one_call_at_a_time_and_its_first_answer_sends_the_others() {
    let fixture = ground(64).await;
    far(&fixture).await;
    fixture.faults.cut(Cut::BlackHole);
    drop(all_within(&fixture, millis(500)).await);
    pass(seconds(2)).await;
    let before = fixture.engine.snapshot().closing;
    let look = async {
        pass(millis(500)).await;
        let seen = fixture.engine.snapshot();
        assert_eq!((seen.unsent, seen.silent_nodes), (CALLERS as u64 - 1, 1));
    };
    let (asked, ()) = tokio::join!(all_within(&fixture, seconds(5)), look);
    drop(asked);
    let sent = fixture.engine.snapshot().closing - before;
    assert!((1..=7).contains(&sent), "{sent} calls in 6 s, each with a time of 1 s");

    let later = async {
        pass(seconds(2)).await;
        fixture.faults.heal();
    };
    let (asked, ()) = tokio::join!(all(&fixture), later);
    assert!(asked.iter().all(Result::is_ok), "{asked:?}");
    release_all(asked.into_iter().map(|lease| lease.expect("granted")).collect()).await;
    fixture.settles_within(seconds(5)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.unsent, seen.silent_nodes), (0, 0));
}

// The server may execute them after the end of this process.
#[tokio::test(start_paused = true)]
async fn a_silent_node_gets_all_releases_of_a_shutdown() {
    let fixture = ground(64).await;
    far(&fixture).await;
    let leases = fixture.engine.acquire_all((0..CALLERS).map(|number| format!("held{number}"))).await;
    let leases: Vec<_> = leases.into_iter().map(|lease| lease.expect("free")).collect();
    fixture.faults.cut(Cut::BlackHole);
    drop(all_within(&fixture, millis(500)).await);
    assert_eq!(fixture.engine.snapshot().silent_nodes, 1);
    fixture.faults.cut(Cut::RepliesLost);
    let report = fixture.engine.shutdown(millis(500)).await;
    assert!(report.unconfirmed.len() >= CALLERS, "{report:?}");
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
    drop(leases);
}

#[tokio::test(start_paused = true)]
async fn replies_of_groups_that_are_lost_cost_time_and_no_lock() {
    let fixture = ground(64).await;
    far(&fixture).await;
    for operation in [Operation::Acquire, Operation::Release] {
        for fault in [
            Fault::LoseReply,
            Fault::LoseHalf,
            Fault::LoseRequest,
            Fault::Repeat,
            Fault::RepeatLater(ROUND_TRIP * 7),
        ] {
            (0..4).for_each(|n| drop(fixture.faults.on(operation).nth(1 + 9 * n).inject(fault)));
        }
    }
    let leases: Vec<_> = all(&fixture).await.into_iter().map(|lease| lease.expect("free")).collect();
    assert!(leases.iter().all(Lease::is_held));
    for lease in leases {
        let _ = lease.release().await;
    }
    fixture.settles_within(seconds(5)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_at_any_moment_leave_nothing_behind() {
    let fixture = ground(64).await;
    far(&fixture).await;
    for round in 0..40 {
        let asks: Vec<_> = (0..CALLERS)
            .map(|number| {
                let asked = fixture.engine.lock(format!("n{number}")).wait(seconds(5)).acquire();
                tokio::spawn(async move { asked.await.map(drop) })
            })
            .collect();
        pass(ROUND_TRIP * (round % 8)).await;
        asks.iter().skip(round as usize % 3).step_by(2).for_each(tokio::task::JoinHandle::abort);
        for ask in asks {
            let outcome = ask.await;
            assert!(outcome.is_err() || outcome.is_ok_and(|asked| asked.is_ok()), "round {round}");
        }
        fixture.settles_within(seconds(5)).await;
        assert_eq!(fixture.transport.inner().stored_holds(), 0, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_a_group_its_callers_are_answered_and_the_next_are_served() {
    for cut in [Cut::Refused, Cut::Reset, Cut::BlackHole, Cut::RepliesLost] {
        let fixture = ground(64).await;
        far(&fixture).await;
        fixture.faults.cut(cut);
        for asked in all_within(&fixture, millis(500)).await {
            assert!(matches!(asked, Err(AcquireError::Unavailable { .. })), "{cut:?}: {asked:?}");
        }
        fixture.faults.heal();
        let leases = all_within(&fixture, seconds(40)).await;
        assert!(leases.iter().all(Result::is_ok), "{cut:?}");
    }
}

/// Panics at one acquire.
#[derive(Clone, Default)]
struct PanicsAt(Arc<AtomicI64>);

impl Hand for PanicsAt {
    fn acquire<'a>(&'a self, behind: &'a Behind, request: Call) -> BoxFuture<'a, Outcome> {
        match self.0.fetch_sub(1, Relaxed) {
            1 => Box::pin(async { resume_unwind(Box::new("a transport that panics")) }),
            _ => behind.lane.call_one(request),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_on_a_group_leaves_no_caller_without_an_answer() {
    let faulty = Faulty::new(MemoryTransport::new());
    let faults = faulty.faults();
    let transport: Interposed<_, PanicsAt> = Interposed::new(faulty);
    let engine = builder(&transport).build().await.expect("an engine");
    faults.on(Operation::Acquire).always().inject(Fault::DelayReply(ROUND_TRIP));
    for _ in 0..SAMPLES {
        engine.lock("known").acquire().await.expect("free").release().await.expect("ours");
    }
    transport.hand.0.store(100, Relaxed); // 70 are sent alone
    let asks: Vec<_> = (0..CALLERS).map(|n| tokio::spawn(engine.lock(format!("n{n}")).acquire())).collect();
    let (mut leases, mut unanswered) = (Vec::new(), 0);
    for ask in asks {
        match ask.await.expect("no panic of ours") {
            Ok(lease) => leases.push(lease),
            Err(AcquireError::ShuttingDown) => unanswered += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!((1..=64).contains(&unanswered) && leases.iter().all(Lease::is_held), "{unanswered}");
    drop(leases);
    for n in 0..CALLERS {
        drop(engine.lock(format!("n{n}")).wait(seconds(40)).acquire().await.expect("nobody holds it"));
    }
    settles_within(&engine, seconds(5)).await;
}
