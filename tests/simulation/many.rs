//! Many locks acquired, and many leases given back, in one call.

use std::{collections::HashSet, sync::Arc};

use leasehold::{AcquireError, Engine, EngineConfig, Event, Lease, LossReason, Recorder, ReleaseError};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation};
use leasehold_tests::changed;

use crate::fixture::{
    Cluster, Fixture, Traffic, What, breathe, builder, engine, fixture, ground_with, millis, name_in, now,
    pass, seconds, settles_within, timed,
};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

async fn hold(engine: &Engine, count: usize) -> Vec<Lease> {
    let outcomes = engine.acquire_all(names(count)).await;
    outcomes.into_iter().collect::<Result<_, _>>().expect("nobody else wants them")
}

async fn with(config: EngineConfig) -> Fixture {
    ground_with(|builder| builder.config(config)).await
}

#[tokio::test(start_paused = true)]
async fn each_name_has_its_own_outcome_in_the_order_given() {
    let fixture = fixture().await;
    let _theirs = fixture.other().await.lock("held").acquire().await.unwrap();
    let asked = fixture.engine.acquire_all(["a", "held", "", "b", "a"]).wait(seconds(2)).await;
    let [a, held, empty, b, again] = asked.try_into().unwrap();
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!((a.name(), b.name(), a.is_held(), b.is_held()), ("a", "b", true, true));
    assert!(matches!(held, Err(AcquireError::TimedOut { waited }) if waited == seconds(2)), "{held:?}");
    let Err(AcquireError::Invalid(empty)) = empty else { panic!("an empty name") };
    assert_eq!((empty.field, empty.value.as_str()), ("name", "\"\""));
    let Err(AcquireError::Invalid(again)) = again else { panic!("twice") };
    assert_eq!((again.field, again.value.as_str()), ("name", "\"a\""));
    assert!(again.remedy.contains("at place 0"), "{again}");
    drop((a, b));
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_told_as_they_come_and_a_held_lock_keeps_no_other_back() {
    let config = changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 1);
    let fixture = with(config).await;
    let theirs = fixture.other().await.lock("n0").acquire().await.unwrap();
    let mut acquiring = fixture.engine.acquire_all(names(100)).start();
    assert_eq!(acquiring.left(), 100);
    let mut places = vec![];
    let mut leases = vec![];
    while acquiring.left() > 1 {
        let (place, lease) = acquiring.next().await.unwrap();
        places.push(place);
        leases.push(lease.unwrap());
    }
    assert_eq!(places, (1..100).collect::<Vec<_>>());
    theirs.release().await.unwrap();
    let (place, lease) = acquiring.next().await.unwrap();
    assert_eq!((place, lease.unwrap().name()), (0, "n0"));
    assert!(acquiring.next().await.is_none() && acquiring.left() == 0);
    assert_eq!(fixture.engine.snapshot().granted, 100);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_done_at_once_and_bad_terms_are_told_for_each_name() {
    let fixture = fixture().await;
    assert!(fixture.engine.acquire_all::<&str>([]).await.is_empty());
    for outcome in fixture.engine.acquire_all(["a", "b"]).ttl(millis(1)).await {
        let Err(AcquireError::Invalid(invalid)) = outcome else { panic!("accepted") };
        assert_eq!(invalid.field, "ttl");
    }
    assert_eq!(fixture.engine.snapshot().asks, 0);
}

#[tokio::test(start_paused = true)]
async fn each_costs_one_ask_and_one_release_and_no_more_than_the_limit_are_in_flight() {
    let fixture = with(changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 8)).await;
    for operation in [Operation::Acquire, Operation::Release] {
        fixture.faults.on(operation).always().inject(Fault::DelayReply(millis(10)));
    }
    // 10 ms for each round of eight: more at once would be over sooner, one by one would take 8 s.
    let in_rounds_of_eight = millis(1_000)..millis(1_300);
    let (leases, took) = timed(hold(&fixture.engine, 800)).await;
    assert!(in_rounds_of_eight.contains(&took), "{took:?}");
    assert_eq!((fixture.engine.snapshot().asks, fixture.engine.snapshot().waiting), (800, 0));
    let (released, took) = timed(fixture.engine.release_all(leases)).await;
    assert!(released.iter().all(Result::is_ok) && released.len() == 800);
    assert!(in_rounds_of_eight.contains(&took), "{took:?}");
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_single_caller_does_not_wait_behind_the_list() {
    let fixture = with(changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 8)).await;
    fixture.faults.on(Operation::Acquire).always().inject(Fault::DelayReply(millis(10)));
    let mut acquiring = fixture.engine.acquire_all(names(800)).start();
    breathe().await;
    let (single, took) = timed(fixture.engine.lock("single").acquire()).await;
    assert!(single.is_ok() && took <= millis(12), "{took:?}");
    let mut count = 0;
    while let Some((_, lease)) = acquiring.next().await {
        count += usize::from(lease.is_ok());
    }
    assert_eq!(count, 800);
}

#[tokio::test(start_paused = true)]
async fn lost_replies_cost_time_and_no_lock() {
    // Each release has a reply of its own: a reply to many that is lost is lost for all of them.
    let fixture = with(changed(EngineConfig::default(), |new| new.group_commit_max = 1)).await;
    for operation in [Operation::Acquire, Operation::Release] {
        (0..40).for_each(|n| drop(fixture.faults.on(operation).nth(1 + 7 * n).inject(Fault::LoseReply)));
    }
    let leases = hold(&fixture.engine, 300).await;
    assert!(leases.iter().all(Lease::is_held));
    let seen: HashSet<_> = leases.iter().map(|lease| lease.name().to_owned()).collect();
    assert_eq!((seen.len(), fixture.transport.inner().stored_holds()), (300, 300));
    let (mut confirmed, mut unknown) = (0, 0);
    for released in fixture.engine.release_all(leases).await {
        match released {
            Ok(()) => confirmed += 1,
            Err(ReleaseError::Unknown { .. }) => unknown += 1,
            Err(other) => panic!("{other}"),
        }
    }
    // Some of the lost replies are replies to the reconciler's repeats.
    assert_eq!(confirmed + unknown, 300);
    assert!((20..=40).contains(&unknown), "{unknown}");
    fixture.settles_within(seconds(5)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn l7_dropped_in_the_middle_everything_is_given_back() {
    for (steps, taken) in [(0, 0), (3, 0), (5, 20), (40, 100)] {
        let fixture = with(changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 16)).await;
        let _theirs = fixture.other().await.lock("n7").acquire().await.unwrap();
        fixture.faults.on(Operation::Acquire).always().inject(Fault::DelayReply(millis(3)));
        let mut acquiring = fixture.engine.acquire_all(names(1_000)).start();
        pass(millis(steps)).await;
        let mut leases = vec![];
        for _ in 0..taken {
            leases.push(acquiring.next().await.unwrap().1.unwrap());
        }
        assert!(acquiring.left() > 0);
        drop(acquiring);
        pass(seconds(1)).await;
        let seen = fixture.engine.snapshot();
        assert_eq!((seen.held, seen.waiting, seen.closing), (taken, 0, 0), "after {steps} ms: {seen:?}");
        assert_eq!(fixture.transport.inner().stored_holds(), 1 + leases.len());
        assert!(seen.asks < 1_000, "it did not go on: {seen:?}");
        assert!(leases.iter().all(Lease::is_held), "what was handed out is the caller's");
        drop(leases);
        fixture.settles_within(seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l7_the_awaited_list_gives_back_what_it_has_when_it_is_dropped() {
    let fixture = fixture().await;
    let _theirs = fixture.other().await.lock("n7").acquire().await.unwrap();
    fixture.faults.on(Operation::Acquire).nth(500).inject(Fault::LoseReply);
    let all = async { fixture.engine.acquire_all(names(1_000)).await };
    assert!(tokio::time::timeout(seconds(3), all).await.is_err(), "n7 is held");
    assert_eq!(fixture.engine.snapshot().granted, 999);
    fixture.settles_within(seconds(1)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 1);
}

#[tokio::test(start_paused = true)]
async fn shut_down_in_the_middle_the_rest_is_told_and_nothing_is_left() {
    let fixture = with(changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 16)).await;
    fixture.faults.on(Operation::Acquire).always().inject(Fault::DelayReply(millis(3)));
    let mut acquiring = fixture.engine.acquire_all(names(1_000)).start();
    let mut leases = vec![];
    for _ in 0..100 {
        leases.push(acquiring.next().await.unwrap().1.unwrap());
    }
    let report = fixture.engine.shutdown(seconds(2)).await;
    assert!(report.unconfirmed.is_empty() && report.released >= 100, "{report:?}");
    let mut told = 0;
    while let Some((_, outcome)) = acquiring.next().await {
        assert!(matches!(outcome, Err(AcquireError::ShuttingDown)), "{outcome:?}");
        told += 1;
    }
    assert_eq!((told, fixture.transport.inner().stored_holds()), (900, 0));
    assert!(leases.iter().all(|lease| !lease.is_held()));
    for outcome in fixture.engine.acquire_all(names(3)).await {
        assert!(matches!(outcome, Err(AcquireError::ShuttingDown)), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_leases_is_exact_also_in_the_middle_of_a_list() {
    let fixture = with(changed(EngineConfig::default(), |new| new.leases_max = 100)).await;
    let mut acquiring = fixture.engine.acquire_all(names(1_000)).start();
    let (mut leases, mut refused) = (vec![], 0);
    while let Some((_, outcome)) = acquiring.next().await {
        match outcome {
            Ok(lease) => leases.push(lease),
            Err(AcquireError::LimitReached { limit: "leases_max", value: 100 }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(fixture.engine.snapshot().held <= 100);
    }
    assert_eq!((leases.len(), refused), (100, 900));
    pass(seconds(1)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 100, "what was beyond the limit was given back");
    drop(leases);
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_leases_holds_for_single_callers_that_came_before_it_was_reached() {
    let fixture = with(changed(EngineConfig::default(), |new| new.leases_max = 10)).await;
    fixture.faults.on(Operation::Acquire).always().inject(Fault::DelayReply(millis(3)));
    let callers: Vec<_> =
        names(25).iter().map(|name| tokio::spawn(fixture.engine.lock(name).acquire())).collect();
    let (mut leases, mut refused) = (vec![], 0);
    for caller in callers {
        match caller.await.unwrap() {
            Ok(lease) => leases.push(lease),
            Err(AcquireError::LimitReached { limit: "leases_max", value: 10 }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((leases.len(), refused, fixture.engine.snapshot().held), (10, 15, 10));
    pass(seconds(1)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 10);
}

#[tokio::test(start_paused = true)]
async fn callers_of_a_list_that_wait_count_as_callers() {
    let fixture = with(changed(EngineConfig::default(), |new| new.waiters_max = 20)).await;
    let other = fixture.other().await;
    let theirs = hold(&other, 50).await;
    let mut acquiring = fixture.engine.acquire_all(names(60)).start();
    let mut refused = 0;
    while let Ok(Some((_, outcome))) = tokio::time::timeout(seconds(2), acquiring.next()).await {
        assert!(
            matches!(outcome, Err(AcquireError::LimitReached { limit: "waiters_max", value: 20 })),
            "{outcome:?}"
        );
        refused += 1;
    }
    assert_eq!((refused, fixture.engine.snapshot().waiting), (40, 20));
    other.release_all(theirs).await;
    for _ in 0..20 {
        assert!(acquiring.next().await.unwrap().1.is_ok());
    }
    assert!(acquiring.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_inbox_takes_nothing_new_beyond_its_limit_until_it_is_emptied() {
    let fixture = with(changed(EngineConfig::default(), |new| {
        new.inbox_max = 10;
        new.shards = 1;
    }))
    .await;
    let held = fixture.engine.lock("held").acquire().await.unwrap();
    pass(millis(60)).await;
    let mut pairs = 0;
    let refused = loop {
        match fixture.engine.lock("a").acquire().await {
            Ok(lease) => lease.release().await.unwrap(),
            Err(refused) => break refused,
        }
        pairs += 1;
        assert!(pairs < 100, "no limit");
    };
    assert!(matches!(refused, AcquireError::LimitReached { limit: "inbox_max", value: 10 }), "{refused}");
    assert_eq!(pairs, 5, "each registers and cancels");
    assert!(refused.to_string().contains("inbox_max = 10"));
    let renewed = held.renew(seconds(60)).await;
    assert!(
        matches!(renewed, Err(leasehold::RenewError::LimitReached { limit: "inbox_max", value: 10 })),
        "{renewed:?}"
    );
    pass(millis(60)).await;
    held.renew(seconds(60)).await.unwrap();
    fixture.engine.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_costs_its_own_names_one_wait_and_no_other_anything() {
    let cluster = Cluster::new(3);
    let config = changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 16);
    let engine = builder(&cluster).config(config).build().await.expect("an engine");
    cluster.hang(0);
    let began = now();
    let names: Vec<_> = (0..500).flat_map(|number| [0, 4, 8].map(|part| name_in(part, number))).collect();
    let mut acquiring = engine.acquire_all(&names).start();
    let (mut leases, mut unavailable) = (vec![], 0);
    while let Some((place, outcome)) = acquiring.next().await {
        match outcome {
            Ok(lease) => {
                assert!(place % 3 > 0 && now() - began < seconds(1));
                leases.push(lease);
            }
            Err(AcquireError::Unavailable { last_error, .. }) => {
                assert!(place % 3 == 0 && last_error.is_some());
                unavailable += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((leases.len(), unavailable), (1_000, 500));
    assert!(now() - began < seconds(12), "{:?}", now() - began);
    cluster.wake(0);
    drop(leases);
    settles_within(&engine, seconds(60)).await;
    assert_eq!(cluster.stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn names_that_wait_for_room_follow_their_slot_to_another_node() {
    let cluster = Cluster::new(3);
    let config = changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 16);
    let engine = builder(&cluster).config(config).build().await.expect("an engine");
    cluster.hang(0);
    let names: Vec<_> = (0..500).map(|number| name_in(0, number)).collect();
    let mut acquiring = engine.acquire_all(&names).start();
    pass(seconds(1)).await;
    cluster.fail_over(0, 3, crate::fixture::Data::Kept);
    let mut leases = vec![];
    while let Some((_, outcome)) = acquiring.next().await {
        leases.push(outcome.expect("the node that follows answers"));
    }
    assert_eq!(leases.len(), 500);
}

#[tokio::test(start_paused = true)]
async fn releases_in_a_black_hole_are_unknown_after_one_wait_and_closed_in_the_background() {
    let fixture = with(changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 16)).await;
    let leases = hold(&fixture.engine, 500).await;
    fixture.faults.cut(Cut::BlackHole);
    let releasing = fixture.engine.release_all(leases);
    assert_eq!(fixture.engine.snapshot().held, 0, "from the call on");
    let (released, took) = timed(releasing).await;
    assert!(released.iter().all(|released| matches!(released, Err(ReleaseError::Unknown { .. }))));
    assert!(took >= seconds(10) && took < seconds(12), "{took:?}");
    fixture.faults.heal();
    fixture.settles_within(seconds(60)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_lost_or_of_another_engine_have_their_own_outcome() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let mut leases = hold(&fixture.engine, 3).await;
    other.lock("n1").force_release().await.unwrap();
    pass(seconds(11)).await;
    leases.insert(1, other.lock("theirs").acquire().await.unwrap());
    let released = fixture.engine.release_all(leases).await;
    assert!(
        matches!(released[..], [Ok(()), Ok(()), Err(ReleaseError::AlreadyLost(LossReason::NotOurs)), Ok(())]),
        "{released:?}"
    );
    assert_eq!(fixture.transport.inner().stored_holds(), 0);
    settles_within(&other, millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn the_earliest_deadline_is_released_first() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let mut leases = vec![];
    for (number, ttl) in [40, 10, 30, 20].into_iter().enumerate() {
        leases.push(engine.lock(format!("n{number}")).ttl(seconds(ttl)).acquire().await.unwrap());
    }
    let owners: Vec<_> = traffic.of(What::Acquire).iter().map(|sent| sent.owner).collect();
    let report = engine.shutdown(seconds(1)).await;
    let released: Vec<_> = traffic.of(What::Release).iter().map(|sent| sent.owner).collect();
    assert_eq!((report.released, released), (4, [1, 3, 2, 0].map(|place| owners[place]).to_vec()));
}

#[tokio::test(start_paused = true)]
async fn two_lists_that_overlap_get_each_name_in_turn() {
    let fixture = fixture().await;
    let first = hold(&fixture.engine, 50).await;
    let (engine, other) = (fixture.engine.clone(), fixture.other().await);
    let second = tokio::spawn(async move { hold(&engine, 60).await });
    pass(seconds(1)).await;
    assert_eq!(fixture.engine.snapshot().held, 60, "ten were free");
    fixture.engine.release_all(first).await;
    let second = second.await.unwrap();
    assert!(second.iter().all(Lease::is_held));
    assert!(other.lock("n7").try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn releases_of_two_engines_are_told_in_the_order_of_the_leases() {
    let (one, two) = (fixture().await, fixture().await);
    let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let ours = one.engine.acquire_all(&names).await.into_iter().map(Result::unwrap);
    let strange = two.engine.acquire_all(&names).await.into_iter().map(Result::unwrap);
    let mixed: Vec<_> = strange.zip(ours).flat_map(|(strange, ours)| [strange, ours]).collect();
    for place in [0, 1, 98, 99] {
        let engine = if place % 2 == 0 { &two.engine } else { &one.engine };
        engine.lock(mixed[place].name()).force_release().await.unwrap();
    }
    let released = one.engine.release_all(mixed).await;
    let lost: Vec<_> = released.iter().enumerate().filter(|(_, answer)| answer.is_err()).collect();
    assert_eq!(lost.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 1, 98, 99]);
    assert_eq!(released.len(), 100);
}

// Each queued call holds its engine, and the engine holds the queue.
#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_with_queued_calls_is_freed() {
    for (lists, shuts_down) in [(false, false), (true, false), (true, true)] {
        let (cluster, kept) = (Cluster::new(3), Arc::new(()));
        let config = changed(EngineConfig::default(), |new| new.bulk_in_flight_max = 4);
        let recorder = KeptByEngine { _kept: kept.clone() };
        let engine = builder(&cluster).config(config).recorder(recorder).build().await.expect("an engine");
        let names = |from: usize| (from..from + 100).map(|number| name_in(0, number)).collect::<Vec<_>>();
        let leases = engine.acquire_all(names(0)).await;
        cluster.hang(0);
        let acquiring = lists.then(|| engine.acquire_all(names(100)).start());
        let releasing = engine.release_all(leases.into_iter().map(Result::unwrap).collect());
        pass(seconds(1)).await;
        assert_eq!(Arc::strong_count(&kept), 2);
        if shuts_down {
            engine.shutdown(seconds(1)).await;
        }
        drop((acquiring, releasing, engine));
        pass(seconds(30)).await;
        assert_eq!(Arc::strong_count(&kept), 1, "lists: {lists}, shutdown: {shuts_down}");
    }
}

struct KeptByEngine {
    _kept: Arc<()>,
}

impl Recorder for KeptByEngine {
    fn record(&self, _: &Event<'_>) {}
}
