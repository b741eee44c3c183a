//! Locks of a quorum: a majority holds, a minority never does, and servers die, lag, restart and step their clocks.

use std::pin::pin;

use leasehold::{AcquireError, Engine, LossReason, MultiLock, Quorum, QuorumLease, RunError};
use leasehold_memory::{ClockStep, Cut, Fault, MemoryTransport, Operation, Restart};

use crate::fixture::{Servers, builder, engine, millis, now, pass, poll_once, seconds, timed, until};

#[tokio::test(start_paused = true)]
async fn it_is_held_by_all_and_released_by_all() {
    let servers = Servers::new(3);
    let (process, other) = (servers.process().await, servers.healthy_process().await);
    let lease = process.lock().acquire().await.unwrap();
    pass(millis(10)).await;
    let tally = lease.tally();
    assert_eq!((tally.held, tally.needed, tally.of), (3, 2, 3));
    assert!(other.lock().try_acquire().await.unwrap().is_none());
    pass(seconds(100)).await;
    lease.ensure_held().unwrap();
    lease.release().await.unwrap();
    pass(millis(5)).await;
    assert_eq!(servers.held(), 0);
    other.lock().acquire().await.unwrap().release().await.unwrap();
    process.settles_within(2).await;
    other.settles_within(2).await;
}

#[tokio::test(start_paused = true)]
async fn engines_that_make_no_quorum_are_refused() {
    let servers = Servers::new(3);
    let process = servers.process().await;
    let refused = |engines: Vec<Engine>| Quorum::over(engines).unwrap_err();
    let [one, two, three] = [0, 1, 2].map(|place| process.engines[place].clone());
    assert_eq!(refused(vec![]).field, "engines");
    assert_eq!(refused(vec![one.clone()]).field, "engines");
    assert_eq!(refused(vec![one.clone(), two.clone()]).field, "engines");
    assert_eq!(refused(vec![one.clone(), two.clone(), one.clone()]).value, "members 0 and 2 are one engine");
    let unset = engine(&MemoryTransport::new()).await;
    let told = refused(vec![one, two.clone(), unset]);
    assert_eq!((told.field, told.value.as_str()), ("restart_grace", "not set in engine 2"));
    // Another engine on the server of the third.
    let again = builder(&servers.all[2].transport).restart_grace(seconds(0)).build().await.unwrap();
    let quorum = Quorum::over([two, three, again]).unwrap();
    let refused = quorum.lock("a").acquire().await;
    assert!(
        matches!(&refused, Err(AcquireError::Invalid(told)) if told.value == "members 1 and 2 have reached one server"),
        "{refused:?}"
    );
    assert_eq!(servers.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn values_that_cannot_be_used_are_refused_at_once() {
    let servers = Servers::new(3);
    let process = servers.process_with(|builder| builder.restart_grace(seconds(40))).await;
    pass(seconds(50)).await;
    for (lock, field) in [
        (process.lock().ttl(millis(10)), "ttl"),
        (process.lock().ttl(seconds(50)), "ttl"),
        (process.lock().max_hold(seconds(0)), "max_hold"),
        (process.quorum.lock(""), "name"),
    ] {
        let refused = lock.acquire().await;
        assert!(matches!(&refused, Err(AcquireError::Invalid(told)) if told.field == field), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_told_why_no_majority_answers() {
    let servers = Servers::new(3);
    let process = servers.process_with(|builder| builder.restart_grace(seconds(30))).await;
    let refused = process.lock().wait(seconds(2)).acquire().await.unwrap_err();
    assert!(refused.to_string().contains("less than restart_grace = 30s"), "{refused}");
    let down = Servers::new(3);
    down.all.iter().for_each(|server| server.faults.cut(Cut::Refused));
    let refused = down.process().await.lock().try_acquire().await.unwrap_err();
    assert!(matches!(&refused, AcquireError::Unavailable { last_error: Some(_), .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn with_a_minority_dead_it_is_acquired_at_once_and_held() {
    for (count, dead) in [(3, 1), (5, 2)] {
        for cut in [Cut::Refused, Cut::Reset, Cut::BlackHole, Cut::RepliesLost] {
            let servers = Servers::new(count);
            let (process, other) = (servers.process().await, servers.healthy_process().await);
            process.lock().acquire().await.unwrap().release().await.unwrap();
            servers.all[..dead].iter().for_each(|server| server.faults.cut(cut));
            let (lease, took) = timed(process.lock().acquire()).await;
            let lease = lease.unwrap();
            assert!(took <= millis(5), "{cut:?}: {took:?}");
            assert!(other.lock().try_acquire().await.unwrap().is_none());
            pass(seconds(120)).await;
            assert!(
                lease.is_held() && lease.tally().held >= lease.tally().needed,
                "{cut:?} {:?}",
                lease.tally()
            );
            servers.all[..dead].iter().for_each(|server| server.faults.heal());
            pass(seconds(45)).await;
            assert_eq!(lease.tally().held, count, "{cut:?}: what was not reached joins");
            lease.release().await.unwrap();
            process.settles_within(45).await;
            assert_eq!(servers.held(), 0, "{cut:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_majority_dead_nobody_gets_it_and_nothing_stays_held() {
    for cut in [Cut::Refused, Cut::BlackHole, Cut::RepliesLost] {
        let servers = Servers::new(5);
        let process = servers.process().await;
        servers.all[..3].iter().for_each(|server| server.faults.cut(cut));
        let (refused, took) = timed(process.lock().wait(seconds(4)).acquire()).await;
        assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{cut:?}: {refused:?}");
        assert!(took >= seconds(4) && took <= seconds(5), "{cut:?}: {took:?}");
        let (refused, took) = timed(process.lock().acquire()).await;
        assert!(matches!(refused, Err(AcquireError::Unavailable { .. })), "{cut:?}: {refused:?}");
        assert!(took >= seconds(10) && took <= millis(11_300), "{cut:?}: {took:?}");
        let (refused, took) = timed(process.lock().try_acquire()).await;
        assert!(refused.is_err() && took <= millis(1_010), "{cut:?}: {refused:?} after {took:?}");
        servers.all.iter().for_each(|server| server.faults.heal());
        process.settles_within(45).await;
        assert_eq!(servers.held(), 0, "{cut:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_minority_never_holds() {
    let servers = Servers::new(5);
    let process = servers.process().await;
    let lease = process.lock().ttl(seconds(6)).acquire().await.unwrap();
    pass(millis(10)).await;
    // Two servers forget: three are left.
    for server in &servers.all[..2] {
        server.transport.inner().restart(Restart::DataLost);
        server.faults.cut(Cut::Refused);
    }
    pass(seconds(60)).await;
    assert_eq!((lease.is_held(), lease.tally().held), (true, 3));
    let begun = now();
    servers.all[2].faults.cut(Cut::Refused);
    assert_eq!(lease.lost().await, LossReason::Expired);
    let took = now() - begun;
    assert!(took <= millis(5_800), "at the third largest deadline: {took:?}");
    assert!(!lease.is_held() && lease.remaining().is_zero());
    // The servers are back: it is lost for good.
    servers.all.iter().for_each(|server| server.faults.heal());
    pass(seconds(30)).await;
    assert!(!lease.is_held());
    assert_eq!(servers.held(), 0, "what was left of it has been released");
    assert!(lease.release().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_delays_nobody_and_its_grant_joins() {
    let servers = Servers::new(3);
    let process = servers.process().await;
    servers.all[1].faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(400)));
    let (lease, took) = timed(process.lock().acquire()).await;
    let lease = lease.unwrap();
    assert!(took <= millis(5), "{took:?}");
    assert_eq!(lease.tally().held, 2);
    pass(millis(450)).await;
    assert_eq!(lease.tally().held, 3);
    lease.release().await.unwrap();
    process.settles_within(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_release_is_given_back() {
    for reply in [Fault::DelayReply(millis(400)), Fault::DelayRequest(millis(400)), Fault::LoseReply] {
        let servers = Servers::new(3);
        let process = servers.process().await;
        servers.all[1].faults.on(Operation::Acquire).inject(reply);
        let lease = process.lock().acquire().await.unwrap();
        lease.release().await.unwrap();
        process.settles_within(45).await;
        assert_eq!(servers.held(), 0, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_empty_joins_again_and_gives_the_lock_to_nobody_else() {
    let servers = Servers::new(3);
    let graceful = |builder: leasehold::EngineBuilder| builder.restart_grace(seconds(30));
    let (process, other) = (servers.process_with(graceful).await, servers.process_with(graceful).await);
    pass(seconds(31)).await;
    let lease = process.lock().acquire().await.unwrap();
    pass(millis(10)).await;
    servers.all[0].transport.inner().restart(Restart::DataLost);
    pass(millis(200)).await;
    assert_eq!(lease.tally().held, 2);
    let waiting = tokio::spawn(other.lock().wait(seconds(25)).acquire());
    assert!(waiting.await.unwrap().is_err(), "the empty server grants nothing, and the others are ours");
    pass(seconds(20)).await;
    assert_eq!((lease.is_held(), lease.tally().held), (true, 3), "after the grace it has joined again");
    lease.release().await.unwrap();
}

/// Why `over` asks for the grace: without it, two restarts within a ttl give the lock to two holders.
#[tokio::test(start_paused = true)]
async fn servers_that_restart_empty_without_grace_give_the_lock_twice() {
    let servers = Servers::new(3);
    let (process, other) = (servers.process().await, servers.healthy_process().await);
    servers.all.iter().for_each(|server| {
        server.faults.cut_lane(leasehold::transport::LanePurpose::Renewals, Cut::BlackHole)
    });
    let lease = process.lock().acquire().await.unwrap();
    pass(millis(10)).await;
    // Nobody tells the process of the restarts: it is cut off.
    servers.all.iter().for_each(|server| server.faults.cut(Cut::BlackHole));
    servers.all[..2].iter().for_each(|server| server.transport.inner().restart(Restart::DataLost));
    let second = other.lock().acquire().await.unwrap();
    assert!(lease.is_held() && second.is_held());
}

/// Kleppmann's example: what is never promised. With reserve the same step gives the lock to nobody else.
#[tokio::test(start_paused = true)]
async fn one_server_whose_clock_steps_breaks_a_majority_without_reserve() {
    for reserve in [false, true] {
        let servers = Servers::new(5);
        let (process, other) = (servers.process().await, servers.healthy_process().await);
        if !reserve {
            servers.all[3..].iter().for_each(|server| server.faults.cut(Cut::Refused));
        }
        let lease = process.lock().acquire().await.unwrap();
        pass(millis(10)).await;
        assert_eq!(lease.tally().held, if reserve { 5 } else { 3 });
        servers.all[2].transport.inner().step_server_clock(ClockStep::Forward(seconds(40)));
        let second = other.lock().try_acquire().await.unwrap();
        assert_eq!((lease.is_held(), second.is_some()), (true, !reserve));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_clock_steps_costs_a_member_and_no_lease() {
    for step in [ClockStep::Forward(seconds(40)), ClockStep::Back(seconds(40))] {
        let servers = Servers::new(3);
        let (process, other) = (servers.process().await, servers.healthy_process().await);
        let lease = process.lock().acquire().await.unwrap();
        pass(millis(10)).await;
        servers.all[0].transport.inner().step_server_clock(step);
        for _ in 0..60 {
            pass(seconds(1)).await;
            assert!(lease.is_held(), "{step:?}");
            assert!(other.lock().try_acquire().await.unwrap().is_none(), "{step:?}");
        }
        assert_eq!(lease.tally().held, 3, "{step:?}");
        lease.release().await.unwrap();
        pass(millis(10)).await;
        let (next, took) = timed(other.lock().acquire()).await;
        assert!(took <= millis(300), "{step:?}: {took:?}");
        drop(next.unwrap());
        process.settles_within(45).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_another_owner_holds_is_tried_soon_and_then_every_third_of_the_ttl() {
    let servers = Servers::new(3);
    let (process, other) = (servers.process().await, servers.healthy_process().await);
    let held = other.engines[2].lock("a").acquire().await.unwrap();
    let lease = process.lock().ttl(seconds(9)).acquire().await.unwrap();
    pass(seconds(20)).await;
    assert_eq!(lease.tally().held, 2);
    held.release().await.unwrap();
    pass(millis(3_100)).await;
    assert_eq!(lease.tally().held, 3);
    lease.release().await.unwrap();
    let held = other.engines[2].lock("a").acquire().await.unwrap();
    let lease = process.lock().ttl(seconds(9)).acquire().await.unwrap();
    held.release().await.unwrap();
    pass(millis(350)).await;
    assert_eq!(lease.tally().held, 3, "after a thirtieth of the ttl");
    assert_eq!(lease.release().await.map_err(|error| error.to_string()), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_by_the_release() {
    let servers = Servers::new(3);
    let (process, other) = (servers.process().await, servers.healthy_process().await);
    let mut longest = millis(0);
    for _ in 0..20 {
        let lease = process.lock().acquire().await.unwrap();
        let waiting = tokio::spawn(other.lock().acquire());
        pass(millis(1_000)).await;
        assert!(!waiting.is_finished());
        lease.release().await.unwrap();
        let (next, took) = timed(waiting).await;
        longest = longest.max(took);
        next.unwrap().unwrap().release().await.unwrap();
    }
    assert!(longest <= millis(140), "at most the quiet time of a caller that failed often: {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_and_says_that_the_lock_is_held() {
    let servers = Servers::new(3);
    let (process, other) = (servers.process().await, servers.healthy_process().await);
    let _held = other.lock().acquire().await.unwrap();
    pass(millis(5)).await;
    for wait in [0, 1, 50, 3_000] {
        let (refused, took) = timed(process.lock().wait(millis(wait)).acquire()).await;
        assert!(matches!(refused, Err(AcquireError::TimedOut { .. })), "{refused:?}");
        assert!(took <= millis(wait + 20), "{wait}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_renewal_it_ends_with_its_ttl_and_no_member_is_tried_again() {
    let servers = Servers::new(3);
    let process = servers.process().await;
    let begun = now();
    let lease = process.lock().ttl(seconds(10)).no_renewal().acquire().await.unwrap();
    pass(seconds(1)).await;
    servers.all[0].transport.inner().restart(Restart::DataLost);
    until(begun + millis(9_490)).await;
    assert!(lease.is_held());
    assert_eq!(lease.lost().await, LossReason::Expired);
    let took = now() - begun;
    assert!(took >= millis(9_500) && took <= millis(9_620), "{took:?}");
    pass(seconds(5)).await;
    process.settles_within(2).await;
}

#[tokio::test(start_paused = true)]
async fn after_max_hold_it_is_lost_also_if_members_were_taken_again() {
    let servers = Servers::new(3);
    let process = servers.process().await;
    let begun = now();
    let lease = process.lock().ttl(seconds(6)).max_hold(seconds(30)).acquire().await.unwrap();
    for server in [0, 1] {
        pass(seconds(10)).await;
        servers.all[server].transport.inner().restart(Restart::DataLost);
    }
    pass(seconds(5)).await;
    assert_eq!(lease.tally().held, 3, "taken again");
    let reason = lease.lost().await;
    let took = now() - begun;
    assert_eq!(reason, LossReason::MaxHold);
    assert!(took >= seconds(30) && took <= seconds(36), "{took:?}");
}

/// Builds the engines of three servers: the first on tokio's clock or on the boot clock, the others on the other clock.
async fn on_two_clocks(servers: &Servers, first_on_tokio: bool) -> Quorum {
    let mut engines = vec![];
    for (place, server) in servers.all.iter().enumerate() {
        let builder = Engine::builder(server.transport.inner().clone()).restart_grace(seconds(0));
        let on_tokio = (place == 0) == first_on_tokio;
        let builder = if on_tokio { builder.on_current_runtime() } else { builder };
        engines.push(builder.build().await.unwrap());
    }
    Quorum::over(engines).unwrap()
}

async fn ends_at_max_hold(first_on_tokio: bool) {
    let servers = Servers::new(3);
    let quorum = on_two_clocks(&servers, first_on_tokio).await;
    let lease = quorum.lock("a").ttl(seconds(1)).max_hold(seconds(8)).acquire().await.unwrap();
    for server in [1, 2] {
        tokio::time::sleep(millis(100)).await;
        servers.all[server].transport.inner().restart(Restart::DataLost);
        let taken_again = async {
            while servers.all[server].transport.inner().stored_holds() == 0 {
                tokio::time::sleep(millis(10)).await;
            }
        };
        let taken_again = tokio::time::timeout(seconds(4), taken_again).await;
        assert!(taken_again.is_ok(), "first on tokio's clock: {first_on_tokio}: server {server}");
    }
    let lost = tokio::time::timeout(seconds(20), lease.lost()).await;
    assert_eq!(lost, Ok(LossReason::MaxHold), "first on tokio's clock: {first_on_tokio}");
}

// In real time: only then do the boot clock and tokio's clock run beside each other. The limits are far apart.
#[tokio::test]
async fn after_max_hold_it_is_lost_also_if_its_engines_have_different_clocks() {
    tokio::join!(ends_at_max_hold(true), ends_at_max_hold(false));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_engine_ends_no_quorum() {
    let servers = Servers::new(3);
    let process = servers.process().await;
    let lease = process.lock().ttl(seconds(6)).acquire().await.unwrap();
    pass(millis(5)).await;
    process.engines[0].shutdown(seconds(1)).await;
    pass(seconds(60)).await;
    assert_eq!((lease.is_held(), lease.tally().held), (true, 2));
    assert!(process.lock().try_acquire().await.unwrap().is_none());
    process.engines[1].shutdown(seconds(1)).await;
    assert_eq!(lease.lost().await, LossReason::Shutdown);
    let refused = process.lock().acquire().await;
    assert!(matches!(refused, Err(AcquireError::ShuttingDown)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn run_stops_the_work_when_the_majority_is_gone() {
    let servers = Servers::new(3);
    let process = servers.process().await;
    let lock = process.lock().ttl(seconds(3));
    let done: Result<u8, RunError<&str>> = lock
        .run(async |lease: &QuorumLease| {
            assert!(lease.is_held());
            Ok(7)
        })
        .await;
    assert_eq!(done.unwrap(), 7);
    let work = async |_: &QuorumLease| {
        servers.all[..2].iter().for_each(|server| server.transport.inner().restart(Restart::DataLost));
        pass(seconds(100)).await;
        Ok::<(), &str>(())
    };
    let (done, took) = timed(lock.run(work)).await;
    assert!(matches!(done, Err(RunError::Lost(LossReason::NotOurs))), "{done:?}");
    assert!(took <= millis(250), "{took:?}");
}

async fn dropped_in_flight(polls: usize, refusing: usize) {
    let servers = Servers::new(3);
    let (process, other) = (servers.process().await, servers.healthy_process().await);
    let mut held = vec![];
    for engine in &other.engines[..refusing] {
        held.push(engine.lock("a").acquire().await.unwrap());
    }
    let lock = process.lock();
    {
        let mut acquire = pin!(lock.acquire());
        for _ in 0..polls {
            if poll_once(&mut acquire).await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    drop(held);
    process.settles_within(2).await;
    other.settles_within(2).await;
    assert_eq!(servers.held(), 0, "after {polls} polls, {refusing} refusing");
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_number_of_polls_no_server_keeps_a_hold() {
    for refusing in 0..3 {
        for polls in 0..25 {
            dropped_in_flight(polls, refusing).await;
        }
    }
}

/// Asks of all, and grants of each, of so many processes that contend for two seconds.
async fn contended(processes: usize) -> (u64, Vec<u64>) {
    let servers = Servers::new(3);
    let mut all = vec![];
    for _ in 0..processes {
        all.push(servers.healthy_process().await);
    }
    let mut tasks = vec![];
    for process in &all {
        let lock = process.lock();
        tasks.push(tokio::spawn(async move {
            loop {
                let lease = lock.acquire().await.unwrap();
                pass(millis(1)).await;
                lease.release().await.unwrap();
            }
        }));
    }
    pass(seconds(2)).await;
    tasks.iter().for_each(|task| task.abort());
    let asks = all.iter().flat_map(|process| &process.engines).map(|engine| engine.snapshot().asks).sum();
    (asks, all.iter().map(|process| process.engines[0].snapshot().granted).collect())
}

#[tokio::test(start_paused = true)]
async fn many_contenders_take_turns_at_a_bounded_cost() {
    for (processes, asks_most) in [(1, 3), (3, 12), (8, 24)] {
        let (asks, grants) = contended(processes).await;
        let sum: u64 = grants.iter().sum();
        assert!(sum >= 500, "{processes}: {grants:?} grants");
        assert!(asks <= asks_most * sum, "{processes}: {asks} asks for {sum} grants");
        let share = sum / processes as u64;
        assert!(grants.iter().all(|grants| *grants >= share / 4), "{processes}: {grants:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_acquire_of_a_composition_counts_once_by_its_outcome() {
    let servers = Servers::new(3);
    let process = servers.process_with(|builder| builder.restart_grace(seconds(0)).metrics()).await;
    let lease = process.lock().acquire().await.unwrap();
    assert!(process.lock().try_acquire().await.unwrap().is_none());
    assert!(process.lock().wait(millis(20)).acquire().await.is_err());
    drop(tokio::time::timeout(millis(20), process.lock().acquire()).await);
    assert!(process.quorum.lock("").acquire().await.is_err());
    lease.release().await.unwrap();
    let one = process.engines[0].lock("b");
    MultiLock::of([one]).acquire().await.unwrap().release().await.unwrap();
    let metrics = process.engines[0].metrics().unwrap().read();
    let family = metrics
        .iter()
        .find(|family| family.descriptor.name == "leasehold_composition_acquire_total")
        .unwrap();
    let mut counts: Vec<_> = family
        .samples
        .iter()
        .map(|sample| {
            (sample.labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), &sample.value)
        })
        .filter(|(_, value)| !matches!(value, leasehold::metrics::Value::Number(number) if *number == 0.0))
        .map(|(labels, value)| format!("{labels}: {value:?}"))
        .collect();
    counts.sort();
    let outcomes = [
        "multi acquired",
        "quorum acquired",
        "quorum busy",
        "quorum cancelled",
        "quorum error",
        "quorum timeout",
    ];
    assert_eq!(counts, outcomes.map(|outcome| format!("{outcome}: Number(1.0)")));
}
