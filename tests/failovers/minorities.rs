//! Too few are left to decide anything: masters of a cluster, sentinels.

use std::thread;

use crate::{
    context::Context,
    deployment::Deployment,
    length::{rounds, stretch},
    moment::Moment,
    queue::alone,
};

#[test]
fn l5_a_cluster_that_lost_its_majority_says_what_was_lost_and_works_again_once_healed() {
    alone(|| {
        for _ in 0..rounds() {
            let context = Context::on(Deployment::cluster());
            let stopped = [context.deployment.master(0), context.deployment.master(1)];
            let fault = Moment::now();
            stopped.iter().for_each(|master| master.stop().expect("stopped"));
            // Longer than any ttl: whatever can be lost is.
            thread::sleep(OUTAGE + stretch());
            stopped.iter().for_each(|master| master.cont().expect("continued"));
            let continued = Moment::now();
            let recovered: Vec<_> = context
                .deployment
                .parts()
                .map(|part| {
                    let healed = context.deployment.healed(part, &[]);
                    (healed.since(continued), context.recovered(part, healed))
                })
                .collect();
            thread::sleep(stretch());
            let masters = [context.deployment.master(0), context.deployment.master(1)];
            let failed_over = masters.iter().zip(&stopped).any(|(now, before)| now.port() != before.port());
            let report = context.end();
            println!(
                "majority lost for {:?}: per part healed after, then {recovered:?}; failed over: {failed_over}; {report}",
                continued.since(fault)
            );
            assert!([0, 1].iter().all(|part| report.lost_on(*part) == LEASES), "{report}");
            assert!(failed_over || report.overlaps.is_empty(), "{:?}", report.overlaps);
        }
    });
}

#[test]
fn l5_dead_sentinels_cost_nothing_and_once_back_they_fail_over() {
    alone(|| {
        for _ in 0..rounds() {
            let context = Context::on(Deployment::sentinel());
            let sentinels = context.deployment.sentinels().sentinels();
            for dead in &sentinels[..2] {
                dead.kill().expect("killed");
                let killed = Moment::now();
                thread::sleep(stretch());
                assert!(context.traffic.grants(0, killed) > 0, "work goes on");
                context.wait_for_a_period();
                context.leases.assert_untouched();
            }
            for dead in &sentinels[..2] {
                dead.restart().expect("restarted");
            }
            context.deployment.sentinels().wait_until_whole().expect("whole again");
            let old = context.deployment.master(0);
            let fault = Moment::now();
            old.kill().expect("killed");
            let healed = context.deployment.healed(0, &[&old]);
            let recovery = context.recovered(0, healed);
            let report = context.end();
            println!(
                "sentinels back, kill -9: another master after {:?}, then {recovery:?}; {report}",
                healed.since(fault)
            );
        }
    });
}

const LEASES: usize = crate::context::LEASES;
const OUTAGE: std::time::Duration = std::time::Duration::from_secs(6);
