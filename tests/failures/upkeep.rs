//! What an operator may do to a server at any time: flush its scripts, kill its connections.

use std::time::Duration;

use leasehold::Engine;
use leasehold_tests::harness::deployment::Topology;

use crate::{
    contest::Contest,
    fixture::{Fixture, SECOND, until},
};

leasehold_tests::on_every_topology!(
    s1_scripts_flushed_in_a_loop_cost_nothing_but_time,
    l6_connections_killed_in_a_loop_are_replaced_and_nothing_leaks,
);

/// Disturbs the server again and again while two engines contend; they must get on.
async fn contend_while(engines: &[Engine], every: Duration, disturb: impl Fn()) {
    let contest = Contest::start(engines, "k");
    let mut before = 0;
    for _ in 0..STRETCHES {
        let stretch = std::time::Instant::now();
        while stretch.elapsed() < STRETCH {
            disturb();
            tokio::time::sleep(every).await;
        }
        let grants = contest.grants();
        assert!(grants > before, "no progress in {STRETCH:?} at {grants} grants");
        before = grants;
    }
    let grants = contest.end().await;
    println!("{grants} grants");
    assert!(engines.iter().all(|engine| engine.snapshot().lost == 0));
}

async fn engines(fixture: &Fixture) -> [Engine; 2] {
    [fixture.builder().build().await.expect("an engine"), fixture.stranger().await]
}

async fn s1_scripts_flushed_in_a_loop_cost_nothing_but_time(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engines = engines(&fixture).await;
    let held = engines[0].lock("{k}held").ttl(2 * SECOND).acquire().await.expect("a lease");
    let flush = || assert!(fixture.command(&["SCRIPT", "FLUSH"]).is_ok());
    contend_while(&engines, Duration::from_millis(2), flush).await;
    assert!(held.is_held());
    held.release().await.expect("ours to the end");
    until("no key is left", || fixture.is_empty()).await;
}

async fn l6_connections_killed_in_a_loop_are_replaced_and_nothing_leaks(topology: Topology) {
    let fixture = Fixture::of_topology(topology);
    let engines = engines(&fixture).await;
    let kill = || {
        for kind in ["normal", "pubsub"] {
            fixture.command(&["CLIENT", "KILL", "TYPE", kind]);
        }
    };
    contend_while(&engines, Duration::from_millis(150), kill).await;
    until("no key is left", || fixture.is_empty()).await;
    let ours = || {
        let list = fixture.command(&["CLIENT", "LIST"]).text().expect("a list");
        list.lines().filter(|line| line.contains("name=leasehold")).count()
    };
    until("three connections an engine", || ours() == 3 * engines.len()).await;
    until("nothing in the engines", || {
        engines.iter().map(Engine::snapshot).all(|seen| seen.entries + seen.closing + seen.waiting == 0)
    })
    .await;
    drop(engines);
    until("no connection", || ours() == 0).await;
    until("no channel", || fixture.listeners() == 0).await;
}

const STRETCHES: usize = 4;
const STRETCH: Duration = Duration::from_millis(500);
