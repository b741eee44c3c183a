//! Which servers a lane keeps connections to while a cluster changes.

use std::ops::RangeInclusive;

use super::*;
use crate::config::RedisConfig;

const LOWER: RangeInclusive<u16> = 0..=8_191;
const UPPER: RangeInclusive<u16> = 8_192..=16_383;

fn address(port: u16) -> Address {
    Address::new("10.0.0.1", port)
}

fn master(port: u16, epoch: u64, slots: Option<RangeInclusive<u16>>) -> Described {
    let (address, slots) = (address(port), slots.into_iter().collect());
    Described {
        id: port.to_string(),
        line: address.clone(),
        address,
        is_preferred: false,
        is_myself: port == ASKED,
        is_master: true,
        is_out: false,
        is_failed: false,
        epoch,
        slots,
    }
}

fn replica(port: u16, epoch: u64) -> Described {
    Described { is_master: false, ..master(port, epoch, None) }
}

struct Cluster(Deployment);

impl Cluster {
    fn after(views: &[&[Described]]) -> Self {
        let cluster = Self(Deployment::new(RedisConfig::cluster([address(ASKED)])));
        views.iter().for_each(|view| cluster.apply(view));
        cluster
    }

    fn apply(&self, view: &[Described]) {
        assert!(self.0.handle_view(&address(ASKED), view, Instant::default()));
    }

    fn redirect(&self, kind: RedirectKind, slot_number: u16, (by, to): (u16, u16)) {
        let by = self.0.server_at(&mut self.0.lock(), &address(by)).id;
        let redirect = Redirect { kind, slot: slot(slot_number), to: address(to) };
        self.0.handle_redirect(&redirect, by, Instant::default());
    }

    fn ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.0.routes().servers.iter().map(|server| server.address.port).collect();
        ports.sort_unstable();
        ports
    }
}

#[tokio::test]
async fn l5_a_master_that_was_replaced_is_not_connected_while_the_others_take_it_for_an_empty_one() {
    let before = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 2, Some(UPPER)), replica(HEIR, 2)];
    let failed_over = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 2, None), master(HEIR, 3, Some(UPPER))];
    let cluster = Cluster::after(&[&before, &failed_over]);
    assert_eq!(cluster.ports(), [ASKED, HEIR]);
    cluster.apply(&[master(ASKED, 1, Some(LOWER)), replica(STRUCK, 3), master(HEIR, 3, Some(UPPER))]);
    assert_eq!(cluster.ports(), [ASKED, HEIR]);
}

#[tokio::test]
async fn a_new_master_without_slots_is_connected_ahead() {
    let (old, new) = (master(ASKED, 1, Some(0..=16_383)), master(HEIR, 0, None));
    assert_eq!(Cluster::after(&[&[old, new]]).ports(), [ASKED, HEIR]);
}

#[tokio::test]
async fn a_master_that_gave_all_its_slots_away_is_connected_again_by_a_redirect_and_stays() {
    let before = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 2, Some(UPPER))];
    let emptied = [master(ASKED, 3, Some(0..=16_383)), master(STRUCK, 2, None)];
    let cluster = Cluster::after(&[&before, &emptied]);
    assert_eq!(cluster.ports(), [ASKED]);
    cluster.redirect(RedirectKind::Ask, 9_000, (ASKED, STRUCK));
    assert_eq!(cluster.ports(), [ASKED, STRUCK]);
    cluster.apply(&emptied);
    assert_eq!(cluster.ports(), [ASKED, STRUCK], "the slot may still be on its way");
}

#[tokio::test]
async fn a_master_that_serves_again_is_connected_again() {
    let before = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 2, Some(UPPER)), replica(HEIR, 2)];
    let switched = [master(ASKED, 1, Some(LOWER)), replica(STRUCK, 3), master(HEIR, 3, Some(UPPER))];
    let back = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 4, Some(UPPER)), master(HEIR, 3, None)];
    let cluster = Cluster::after(&[&before, &switched, &back]);
    assert_eq!(cluster.ports(), [ASKED, STRUCK], "and its former heir is left");
}

/// The view of a node of another cluster, in which it serves all slots.
fn foreign() -> [Described; 1] {
    [Described { id: "foreign".into(), ..master(ASKED, 1, Some(0..=16_383)) }]
}

#[tokio::test]
async fn s1_a_node_of_another_cluster_at_a_known_address_takes_no_slot() {
    let before = [master(ASKED, 7, Some(LOWER)), master(STRUCK, 8, Some(UPPER))];
    let cluster = Cluster::after(&[&before]);
    assert!(!cluster.0.handle_view(&address(ASKED), &foreign(), at(60)));
    assert_eq!(cluster.ports(), [ASKED, STRUCK]);
    // A node that another member has named in the meantime is a member.
    let newcomer = master(HEIR, 9, None);
    let met = [before[0].clone(), before[1].clone(), newcomer.clone()];
    assert!(cluster.0.handle_view(&address(ASKED), &met, at(61)));
    let of_newcomer = met.map(|node| Described { is_myself: node.id == newcomer.id, ..node });
    assert!(cluster.0.handle_view(&address(HEIR), &of_newcomer, at(62)));
}

#[tokio::test]
async fn a_cluster_that_was_built_anew_is_believed_when_no_old_node_was_heard_for_a_minute() {
    let before = [master(ASKED, 7, Some(LOWER)), master(STRUCK, 8, Some(UPPER))];
    let cluster = Cluster::after(&[&before]);
    assert!(!cluster.0.handle_view(&address(ASKED), &foreign(), at(60)));
    assert!(cluster.0.handle_view(&address(ASKED), &foreign(), at(61)));
    assert_eq!(cluster.ports(), [ASKED]);
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

/// The node with the address that `CLUSTER SLOTS` gives to clients.
fn named(node: Described) -> Described {
    Described { address: Address::new("host", node.address.port), is_preferred: true, ..node }
}

#[tokio::test]
async fn l5_a_failed_master_that_has_lost_its_name_is_the_same_server() {
    let [asked, struck] = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 5, Some(UPPER))].map(named);
    let heir = master(HEIR, 3, Some(UPPER));
    let cluster = Cluster::after(&[&[asked.clone(), struck, named(replica(HEIR, 2))]]);
    assert_eq!(cluster.ports(), [ASKED, STRUCK]);
    // The node has not failed. It is left out, as in an old view in which it had no slots. The lower epoch is not
    // believed.
    cluster.apply(&[asked.clone(), master(STRUCK, 5, None), named(heir.clone())]);
    assert_eq!(cluster.ports(), [ASKED, STRUCK], "it is not unknown, so its claim stands");
    cluster.apply(&[asked, Described { is_failed: true, ..master(STRUCK, 5, None) }, named(heir)]);
    assert_eq!(cluster.ports(), [ASKED, HEIR], "it is the one that has failed");
}

#[tokio::test]
async fn l5_a_node_that_was_set_up_anew_under_its_name_is_not_the_one_that_has_failed() {
    let [asked, anew] = [master(ASKED, 1, Some(LOWER)), master(STRUCK, 2, Some(UPPER))].map(named);
    let before =
        Described { id: "before".into(), is_failed: true, slots: Vec::new(), epoch: 9, ..anew.clone() };
    let cluster = Cluster::after(&[&[asked.clone(), anew]]);
    cluster.apply(&[asked, before, named(master(STRUCK, 2, None)), named(master(HEIR, 1, Some(UPPER)))]);
    assert_eq!(cluster.ports(), [ASKED, STRUCK], "nobody has said that it has failed");
}

/// The node that describes the cluster.
const ASKED: u16 = 7_001;
/// A master that loses its slots.
const STRUCK: u16 = 7_002;
/// The node that takes over those slots later.
const HEIR: u16 = 7_003;
