//! An operator has a replica take over from a master that is well: it is left at the first news of it.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use leasehold_tests::harness::{
    cluster::Failover, node::Node, polling::found_within, proxy::SeenRequest, raw_client::RawClient,
    sentinel::RedisSentinel,
};

use crate::{
    context::{Context, PATIENCE},
    deployment::Deployment,
    length::{rounds, stretch},
    moment::Moment,
    queue::alone,
    report::Report,
    traffic::Recovery,
};

#[test]
fn l5_after_the_first_notice_of_a_switch_the_old_master_gets_no_command() {
    alone(|| {
        for _ in 0..rounds() {
            let context = Context::on(Deployment::proxied_sentinel());
            let old = context.deployment.master(STRUCK);
            let notice = first_notice(context.deployment.sentinels());
            thread::sleep(stretch());
            let began = Moment::now();
            context.deployment.sentinels().failover().expect("it begins");
            let healed = context.deployment.healed(STRUCK, &[&old]);
            let left = left_by_both(&context, &old, began);
            let notice = notice.recv_timeout(PATIENCE).expect("a notice");
            println!(
                "sentinel failover: another master after {:?}, told after {:?}, left {:?} later",
                healed.since(began),
                notice.since(began),
                left.since(notice)
            );
            assert!(left.since(notice) <= LEFT_WITHIN, "{:?}", left.since(notice));
            let recovery = context.recovered(STRUCK, healed);
            finish("sentinel failover", context, &old, (healed, left), &recovery);
        }
    });
}

#[test]
fn s1_a_planned_failover_of_a_cluster_costs_no_lease_and_lets_nobody_in() {
    alone(|| {
        for _ in 0..rounds() {
            let report = fail_over(Failover::Plain);
            report.assert_nothing_shared();
            report.assert_only(&[STRUCK]);
            assert_eq!(report.lost_on(STRUCK), 0, "{report}");
        }
    });
}

#[test]
fn l5_after_the_news_of_a_forced_failover_the_old_master_gets_no_command() {
    alone(|| {
        for _ in 0..rounds() {
            fail_over(Failover::Force);
        }
    });
}

fn fail_over(how: Failover) -> Report {
    let context = Context::on(Deployment::proxied_cluster());
    let old = context.deployment.master(STRUCK);
    let replica = context.deployment.replica(STRUCK);
    thread::sleep(stretch());
    let began = Moment::now();
    context.deployment.cluster_itself().failover(&replica, how).expect("it begins");
    let healed = context.deployment.healed(STRUCK, &[&old]);
    let left = left_by_both(&context, &old, began);
    println!(
        "{how:?}: another master after {:?}, the old one left {:?} later",
        healed.since(began),
        left.since(healed)
    );
    assert!(left.since(healed) <= LEFT_WITHIN, "{:?}", left.since(healed));
    let recovery = match how {
        Failover::Plain => context.recovered(STRUCK, healed),
        Failover::Force | Failover::Takeover => context.recovered_but_for_lost_releases(STRUCK, healed),
    };
    finish(&format!("cluster failover, {how:?}"), context, &old, (healed, left), &recovery)
}

/// The old master may get nothing that was sent after both engines had left it.
fn finish(
    name: &str,
    context: Context,
    old: &Node,
    (healed, left): (Moment, Moment),
    recovery: &Recovery,
) -> Report {
    thread::sleep(stretch());
    let requests = old.proxy().expect("a proxy").requests();
    let ours = requests.iter().filter(|request| is_ours(request));
    let (after_left, after_healed): (Vec<_>, Vec<_>) = ours
        .filter(|request| Moment::from(request.at) > healed)
        .partition(|request| Moment::from(request.at) > left);
    let report = context.end();
    println!(
        "{name}: {recovery:?}; commands to the old master: {} after the new one could write, {} after it was left; {report}",
        after_healed.len(),
        after_left.len()
    );
    assert!(requests.iter().any(is_ours), "nothing was sent through the proxy at all");
    assert!(after_left.is_empty(), "{}", told(&after_left, left));
    report.assert_only(&[STRUCK]);
    report
}

/// A line for each: how long after `left`, on which connection, and what.
fn told(requests: &[&SeenRequest], left: Moment) -> String {
    let line = |request: &&SeenRequest| {
        let words: Vec<_> =
            request.arguments.iter().take(3).map(|word| String::from_utf8_lossy(word)).collect();
        let (after, client) = (Moment::from(request.at).since(left), request.client.as_deref());
        format!("{after:?} {} {client:?} {words:.60?}\n", request.connection)
    };
    requests.iter().map(line).collect()
}

fn is_ours(request: &SeenRequest) -> bool {
    let is_ours =
        |name: &str| ["leasehold-calls", "leasehold-renewals"].iter().any(|ours| name.starts_with(ours));
    request.client.as_deref().is_some_and(is_ours)
}

/// When the later of the two engines had left it.
fn left_by_both(context: &Context, old: &Node, since: Moment) -> Moment {
    let both = || {
        let [one, other] = context.news.each_ref().map(|news| news.left(old.port(), since));
        Some(one?.max(other?))
    };
    found_within(PATIENCE, both).expect("left within a minute")
}

/// When any sentinel first tells a switch.
fn first_notice(sentinels: &RedisSentinel) -> mpsc::Receiver<Moment> {
    let (sender, receiver) = mpsc::channel();
    for sentinel in sentinels.sentinels() {
        let (listener, sender) = (listener(sentinel), sender.clone());
        thread::spawn(move || tell_the_first(listener, &sender));
    }
    receiver
}

fn listener(sentinel: &Arc<Node>) -> RawClient {
    let mut listener = sentinel.client().expect("a connection");
    listener.command(&["SUBSCRIBE", "+switch-master"]).expect("subscribed");
    listener.wait_for_replies(Some(PATIENCE)).expect("a timeout");
    listener
}

// Ends with the message or the sentinel.
fn tell_the_first(mut listener: RawClient, sender: &mpsc::Sender<Moment>) {
    if listener.read().is_ok() {
        let _ = sender.send(Moment::now());
    }
}

const STRUCK: usize = 0;
/// Far below the time that a caller would notice; the medians are printed.
const LEFT_WITHIN: Duration = Duration::from_secs(1);
