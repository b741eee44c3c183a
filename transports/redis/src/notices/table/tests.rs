//! The life of channels, case by case.

use std::time::Duration;

use fred::bytes_utils::Str;
use leasehold::{
    clock::Instant,
    routing::{slot::Slot, topology::NodeId},
    transport::WatchState,
};
use tokio::sync::watch;

use super::Notices;

const X: NodeId = NodeId(0);
const Y: NodeId = NodeId(1);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn name(text: &'static str) -> Str {
    Str::from_static(text)
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).unwrap()
}

fn notices() -> Notices {
    Notices::new(Duration::from_secs(5), 2)
}

/// A watch of a channel in slot 7, which X serves.
fn watch(notices: &mut Notices, text: &'static str) -> watch::Receiver<WatchState> {
    notices.watch(&name(text), slot(7), Some(X)).0
}

fn take_wanted(notices: &mut Notices) -> Vec<Str> {
    notices.take_wanted(X, 10)
}

fn take_ended(notices: &mut Notices, now: Instant) -> Vec<Str> {
    notices.expire(now);
    notices.ended.remove(&X).unwrap_or_default()
}

#[test]
fn a_watch_is_in_force_when_the_server_has_said_so() {
    let mut notices = notices();
    let watch = watch(&mut notices, "a");
    assert_eq!(*watch.borrow(), WatchState::default());
    let wanted = take_wanted(&mut notices);
    assert_eq!(wanted, [name("a")]);
    assert!(take_wanted(&mut notices).is_empty());
    notices.confirm(X, &wanted);
    notices.notice(&name("a"));
    notices.notice(&name("b"));
    assert_eq!(*watch.borrow(), WatchState { in_force: true, notices: 1, gaps: 0 });
}

#[test]
fn a_loss_is_a_gap_and_everything_watched_is_wanted_again() {
    let mut notices = notices();
    let (a, _) = (watch(&mut notices, "a"), watch(&mut notices, "b"));
    let wanted = take_wanted(&mut notices);
    notices.confirm(X, &wanted);
    notices.unwatch(&name("b"), at(0));
    notices.connection_lost(X);
    assert_eq!(*a.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
    let wanted = take_wanted(&mut notices);
    assert_eq!(wanted, [name("a")]);
    notices.confirm(X, &wanted);
    assert!(a.borrow().in_force);
    assert!(take_ended(&mut notices, at(60_000)).is_empty());
}

#[test]
fn l6_while_a_node_cannot_be_reached_only_what_is_watched_is_kept() {
    let mut notices = notices();
    let kept = watch(&mut notices, "kept");
    notices.connection_lost(X);
    for millis in 0..1_000 {
        for text in ["a", "b"] {
            watch(&mut notices, text);
            notices.unwatch(&name(text), at(millis));
        }
        notices.still_disconnected(X);
    }
    assert_eq!((notices.channels.len(), notices.idle.len(), notices.idle_count), (1, 0, 0));
    assert_eq!(notices.wanted[&X], [name("kept")]);
    assert_eq!(*kept.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
}

#[test]
fn l6_what_is_watched_while_nobody_serves_its_slot_is_forgotten_with_its_last_watch() {
    let mut notices = notices();
    for millis in 0..1_000 {
        notices.watch(&name("a"), slot(7), None);
        notices.unwatch(&name("a"), at(millis));
    }
    assert_eq!((notices.channels.len(), notices.idle.len(), notices.idle_count), (0, 0, 0));
}

#[test]
fn a_lost_connection_concerns_its_own_node_only() {
    let mut notices = notices();
    let here = watch(&mut notices, "a");
    let there = notices.watch(&name("b"), slot(9), Some(Y)).0;
    let changes = notices.take_changes(Y, 10, at(0));
    notices.confirm(Y, &changes.wanted);
    notices.connection_lost(X);
    notices.gap(X);
    assert_eq!(*there.borrow(), WatchState { in_force: true, notices: 0, gaps: 0 });
    assert_eq!(here.borrow().gaps, 2);
}

#[test]
fn l2_a_moved_slot_takes_its_watches_along_and_counts_a_gap() {
    let mut notices = notices();
    let a = watch(&mut notices, "a");
    let idle = watch(&mut notices, "idle");
    let wanted = take_wanted(&mut notices);
    notices.confirm(X, &wanted);
    drop(idle);
    notices.unwatch(&name("idle"), at(0));
    notices.follow_routes(|_| Some(Y));
    assert_eq!(*a.borrow(), WatchState { in_force: false, notices: 0, gaps: 1 });
    let mut moved_away = notices.take_changes(X, 10, at(1)).moved_away;
    moved_away.sort();
    assert_eq!(moved_away, [name("a"), name("idle")]);
    let wanted = notices.take_wanted(Y, 10);
    assert!(wanted.contains(&name("a")));
    notices.confirm(X, &wanted);
    assert!(!a.borrow().in_force, "a late word of the old node");
    notices.confirm(Y, &wanted);
    assert!(a.borrow().in_force);
}

#[test]
fn l2_a_slot_without_a_node_is_subscribed_when_it_has_one() {
    let mut notices = notices();
    let a = notices.watch(&name("a"), slot(7), None).0;
    assert!(take_wanted(&mut notices).is_empty());
    notices.follow_routes(|_| Some(X));
    let wanted = take_wanted(&mut notices);
    notices.confirm(X, &wanted);
    assert!(a.borrow().in_force);
    notices.follow_routes(|_| None);
    assert!(!a.borrow().in_force);
}

#[test]
fn a_node_that_does_not_serve_the_slot_is_asked_again() {
    let mut notices = notices();
    let _a = watch(&mut notices, "a");
    let wanted = take_wanted(&mut notices);
    notices.refuse(X, wanted);
    assert_eq!(take_wanted(&mut notices), [name("a")]);
}

#[test]
fn l2_channels_that_are_refused_again_and_again_keep_no_other_waiting() {
    let mut notices = notices();
    for text in ["a", "b", "c"] {
        watch(&mut notices, text);
    }
    let mut asked = Vec::new();
    for _ in 0..3 {
        let wanted = notices.take_wanted(X, 2);
        asked.extend(wanted.clone());
        notices.refuse(X, wanted);
    }
    let places = ["a", "b", "c", "a", "b", "c"].map(name);
    assert_eq!(asked, places, "each has its turn");
}

#[test]
fn a_warm_subscription_is_in_force_at_once_for_the_next_watch() {
    let mut notices = notices();
    watch(&mut notices, "a");
    let wanted = take_wanted(&mut notices);
    notices.confirm(X, &wanted);
    notices.unwatch(&name("a"), at(0));
    assert!(take_ended(&mut notices, at(4_999)).is_empty());
    assert!(watch(&mut notices, "a").borrow().in_force);
    notices.unwatch(&name("a"), at(4_999));
    assert!(take_ended(&mut notices, at(5_000)).is_empty());
    assert_eq!(take_ended(&mut notices, at(9_999)), [name("a")]);
    assert!(!watch(&mut notices, "a").borrow().in_force);
    assert_eq!(take_wanted(&mut notices), [name("a")]);
}

#[test]
fn beyond_the_bound_the_oldest_go_first() {
    let mut notices = notices();
    for text in ["a", "b", "c", "d"] {
        watch(&mut notices, text);
    }
    let wanted = take_wanted(&mut notices);
    notices.confirm(X, &wanted);
    for (millis, text) in ["a", "b", "c"].into_iter().enumerate() {
        notices.unwatch(&name(text), at(millis as u64));
    }
    assert_eq!(take_ended(&mut notices, at(10)), [name("a")]);
    assert_eq!(notices.idle_count, 2);
}

#[test]
fn more_unconfirmed_ones_than_may_be_idle_are_looked_at_once() {
    let mut notices = notices();
    for text in ["a", "b", "c", "d"] {
        watch(&mut notices, text);
    }
    let asked = take_wanted(&mut notices);
    for text in ["a", "b", "c", "d"] {
        notices.unwatch(&name(text), at(0));
    }
    assert!(take_ended(&mut notices, at(1)).is_empty());
    notices.confirm(X, &asked);
    assert_eq!(take_ended(&mut notices, at(1)).len(), 2);
}

#[test]
fn churn_on_one_key_leaves_one_entry() {
    let mut notices = notices();
    for millis in 0..1_000 {
        watch(&mut notices, "a");
        notices.unwatch(&name("a"), at(millis));
    }
    assert_eq!((notices.idle.len(), notices.wanted[&X].len(), notices.idle_count), (1, 1, 1));
    // The subscription was never sent, so it is forgotten without a command.
    assert!(take_ended(&mut notices, at(60_000)).is_empty());
    assert!(notices.channels.is_empty() && take_wanted(&mut notices).is_empty());
}

#[test]
fn l6_a_busy_name_does_not_keep_others_subscribed() {
    let mut notices = notices();
    let _names = (watch(&mut notices, "busy"), watch(&mut notices, "idle"));
    let wanted = take_wanted(&mut notices);
    notices.confirm(X, &wanted);
    notices.unwatch(&name("busy"), at(0));
    notices.unwatch(&name("idle"), at(0));
    for millis in (1_000..=6_000).step_by(1_000) {
        watch(&mut notices, "busy");
        notices.unwatch(&name("busy"), at(millis));
    }
    assert_eq!(take_ended(&mut notices, at(6_000)), [name("idle")]);
}

#[test]
fn a_subscription_is_not_ended_before_it_was_confirmed() {
    let mut notices = notices();
    watch(&mut notices, "a");
    let asked = take_wanted(&mut notices);
    notices.unwatch(&name("a"), at(0));
    assert!(take_ended(&mut notices, at(6_000)).is_empty());
    notices.confirm(X, &asked);
    assert_eq!(take_ended(&mut notices, at(11_000)), [name("a")]);
}

#[test]
fn an_unconfirmed_channel_that_is_not_kept_warm_is_looked_at_every_100_ms() {
    let mut notices = Notices::new(Duration::ZERO, 2);
    watch(&mut notices, "a");
    let asked = take_wanted(&mut notices);
    notices.unwatch(&name("a"), at(0));
    assert!(take_ended(&mut notices, at(1)).is_empty());
    assert_eq!(notices.next_expiry(), Some(at(101)));
    notices.confirm(X, &asked);
    assert_eq!(take_ended(&mut notices, at(101)), [name("a")]);
}
