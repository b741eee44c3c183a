//! Too few are left to decide anything: masters of a cluster, sentinels.

use std::thread;

use crate::{
    deployment::Deployment,
    field::Field,
    length::{rounds, stretch},
    moment::Moment,
    queue::alone,
};

#[test]
fn l5_a_cluster_that_lost_its_majority_says_what_was_lost_and_works_again_once_healed() {
    alone(|| {
        for _ in 0..rounds() {
            let field = Field::on(Deployment::cluster());
            let stopped = [field.deployment.master(0), field.deployment.master(1)];
            let fault = Moment::now();
            stopped.iter().for_each(|master| master.stop().expect("stopped"));
            // Longer than any ttl: whatever can be lost is.
            thread::sleep(OUTAGE + stretch());
            stopped.iter().for_each(|master| master.cont().expect("continued"));
            let continued = Moment::now();
            let recovered: Vec<_> = field
                .deployment
                .parts()
                .map(|part| {
                    let healed = field.deployment.healed(part, &[]);
                    (healed.since(continued), field.recovered(part, healed))
                })
                .collect();
            thread::sleep(stretch());
            let masters = [field.deployment.master(0), field.deployment.master(1)];
            let failed_over = masters.iter().zip(&stopped).any(|(now, before)| now.port() != before.port());
            let report = field.end();
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
            let field = Field::on(Deployment::sentinel());
            let sentinels = field.deployment.sentinels().sentinels();
            for dead in &sentinels[..2] {
                dead.kill().expect("killed");
                let killed = Moment::now();
                thread::sleep(stretch());
                assert!(field.traffic.grants(0, killed) > 0, "work goes on");
                field.wait_for_a_period();
                field.leases.assert_untouched();
            }
            for dead in &sentinels[..2] {
                dead.restart().expect("restarted");
            }
            field.deployment.sentinels().wait_until_whole().expect("whole again");
            let old = field.deployment.master(0);
            let fault = Moment::now();
            old.kill().expect("killed");
            let healed = field.deployment.healed(0, &[&old]);
            let recovery = field.recovered(0, healed);
            let report = field.end();
            println!(
                "sentinels back, kill -9: another master after {:?}, then {recovery:?}; {report}",
                healed.since(fault)
            );
        }
    });
}

const LEASES: usize = crate::field::LEASES;
const OUTAGE: std::time::Duration = std::time::Duration::from_secs(6);
