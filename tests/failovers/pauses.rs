//! A master stands still, is replaced, and wakes up with requests in its sockets.

use std::{thread, time::Duration};

use leasehold_tests::harness::{
    monitor::{Monitor, server_micros},
    polling::holds_within,
    stall::no_stall_excuses,
};

use crate::{
    context::{Context, PATIENCE},
    deployment::Deployment,
    length::{rounds, stretch},
    moment::Moment,
    monitor::Executed,
    queue::alone,
};

#[test]
fn s5_a_stopped_master_of_sentinels_executes_nothing_late_when_it_wakes() {
    alone(|| {
        for _ in 0..rounds() {
            stop_the_master_of_the_first_part("sentinel", Deployment::sentinel());
        }
    });
}

#[test]
fn s5_a_stopped_master_of_a_cluster_executes_nothing_late_when_it_wakes() {
    alone(|| {
        for _ in 0..rounds() {
            stop_the_master_of_the_first_part("cluster", Deployment::cluster());
        }
    });
}

/// The retries of its leases take nothing from the others.
#[test]
fn l5_a_stopped_master_that_nobody_replaces_costs_its_own_leases_and_no_other_is_late() {
    alone(|| {
        let context = Context::holding(Deployment::cluster_without_replicas(), MANY);
        context.leases.assert_untouched();
        let stopped = context.deployment.master(STRUCK);
        stopped.stop().expect("stopped");
        thread::sleep(TWO_TTLS);
        stopped.cont().expect("continued");
        let recovery = context.recovered(STRUCK, context.deployment.healed(STRUCK, &[]));
        let report = context.end();
        println!("{} leases, one of three masters stopped: {recovery:?}; {report}", 3 * MANY);
        report.assert_only(&[STRUCK]);
        assert_eq!(report.lost[&STRUCK], [("expired", MANY)].into(), "{report}");
        report.assert_nothing_shared();
    });
}

fn stop_the_master_of_the_first_part(name: &str, deployment: Deployment) {
    let context = Context::on(deployment);
    thread::sleep(stretch());
    let old = context.deployment.master(STRUCK);
    let monitor = Monitor::start(&old);
    let fault = Moment::now();
    old.stop().expect("stopped");
    let healed = context.deployment.healed(STRUCK, &[&old]);
    let recovery = context.recovered(STRUCK, healed);
    let woken = server_micros();
    old.cont().expect("continued");
    let follows =
        || old.info("replication", "master_link_status").is_ok_and(|up| up.as_deref() == Some("up"));
    assert!(holds_within(PATIENCE, follows), "the old master follows the new one");
    let executed = Executed::since(woken, &monitor.end());
    thread::sleep(stretch());
    let report = context.end();
    println!(
        "{name}, SIGSTOP: another master after {:?}, then {recovery:?}; executed after SIGCONT: {executed:?}; {report}",
        healed.since(fault)
    );
    // There were some; none of them did anything. A server runs one script at a time, so the stop interrupts one at most:
    // that one looked at the clock in time, and writes when the server goes on (GUARANTEES.md, "A stop inside a script").
    assert!(executed.acquires > 0 && executed.renewals > 0, "{executed:?}");
    no_stall_excuses(|| assert_eq!(executed.writes, 0, "{executed:?}"));
    no_stall_excuses(|| assert!(executed.interrupted <= 1, "{executed:?}"));
    report.assert_only(&[STRUCK]);
}

const STRUCK: usize = 0;
const MANY: usize = 500;
/// Of the longest ttl.
const TWO_TTLS: Duration = Duration::from_secs(10);
