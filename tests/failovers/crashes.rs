//! A master is killed.

use crate::{
    context::Context,
    deployment::Deployment,
    length::{rounds, stretch},
    moment::Moment,
    queue::alone,
};

#[test]
fn l5_a_killed_master_of_sentinels_is_replaced_and_work_goes_on() {
    alone(|| {
        for _ in 0..rounds() {
            kill_the_master_of_the_first_part("sentinel", Deployment::sentinel());
        }
    });
}

#[test]
fn l5_a_killed_master_of_a_cluster_is_replaced_and_the_others_notice_nothing() {
    alone(|| {
        for _ in 0..rounds() {
            kill_the_master_of_the_first_part("cluster", Deployment::cluster());
        }
    });
}

fn kill_the_master_of_the_first_part(name: &str, deployment: Deployment) {
    let context = Context::on(deployment);
    std::thread::sleep(stretch());
    let old = context.deployment.master(STRUCK);
    let fault = Moment::now();
    old.kill().expect("killed");
    let healed = context.deployment.healed(STRUCK, &[&old]);
    let recovery = context.recovered(STRUCK, healed);
    std::thread::sleep(stretch());
    let report = context.end();
    println!(
        "{name}, kill -9: another master after {:?}, then a new name after {:?}, every contended one after {:?}; {report}",
        healed.since(fault),
        recovery.fresh,
        recovery.contended
    );
    report.assert_only(&[STRUCK]);
}

const STRUCK: usize = 0;
