use std::time::Duration;

use leasehold::{
    clock::{Clock, Instant},
    owner::OwnerMint,
    routing::topology::{ClockId, NodeId},
    transport::HoldKind,
};

use super::*;
use leasehold::key::Family;

const TTL: Duration = Duration::from_secs(30);

/// All fair locks of one server, and its time.
struct World {
    locks: FairLocks,
    mint: OwnerMint,
    limit: Instant,
    ms: u64,
}

impl World {
    fn new() -> Self {
        Self { locks: FairLocks::default(), mint: OwnerMint::new(), limit: Clock::Boot.now(), ms: 0 }
    }

    fn at(&self) -> ServerTime {
        ServerTime { micros: 1_000_000 + self.ms * 1_000, clock: ClockId { node: NodeId(0), epoch: 0 } }
    }

    fn call(&mut self, name: &str, op: Op, owner: Owner) -> Outcome {
        let key = LockKey::with_family("", name, Family::Fair).expect("a valid name");
        let call = Call::new(key, HoldKind::Fair, op, owner, self.limit);
        match self.locks.execute(&call, None, self.at()) {
            Asked::Granted => {
                Outcome::Granted { token: leasehold::FencingToken::at_server_micros(1), at: self.at() }
            }
            Asked::Other(outcome) => outcome,
        }
    }

    fn queue(&mut self, name: &str, owner: Owner) -> Outcome {
        self.call(name, Op::Queue { ttl: TTL, place: place() }, owner)
    }

    fn owners<const N: usize>(&self) -> [Owner; N] {
        std::array::from_fn(|_| self.mint.mint())
    }
}

fn place() -> PlaceTerms {
    PlaceTerms::new(Duration::from_secs(300), Duration::from_millis(1_500))
}

#[test]
fn a_turn_is_told_to_the_head_of_a_free_lock_alone() {
    let mut world = World::new();
    let [holder, head, other] = world.owners();
    for owner in [holder, head, other] {
        world.queue("a", owner);
        assert_eq!(world.locks.take_turn(), None);
    }
    world.call("a", Op::Release, holder);
    assert_eq!((world.locks.take_turn(), world.locks.take_turn()), (Some(head), None));
    world.queue("a", other);
    assert_eq!(world.locks.take_turn(), Some(head), "whoever asks reminds it");
    world.queue("a", head);
    assert_eq!(world.locks.take_turn(), None);
}

#[test]
fn a_head_that_is_judged_silent_passes_its_turn_on() {
    let mut world = World::new();
    let [holder, silent, next] = world.owners();
    [holder, silent, next].into_iter().for_each(|owner| drop(world.queue("a", owner)));
    world.call("a", Op::Release, holder);
    for ms in [1_000, 2_000, 3_000, 4_000, 4_500] {
        world.ms = ms;
        let beat = world.call("a", Op::Beat { place: place() }, next);
        match ms {
            4_500 => assert!(matches!(beat, Outcome::Turn { .. }), "{beat:?}"),
            _ => assert!(matches!(beat, Outcome::Queued { ahead: 1, .. }), "at {ms}: {beat:?}"),
        }
    }
}

#[test]
fn a_lock_that_nobody_holds_or_wants_is_forgotten() {
    let mut world = World::new();
    let [one, two] = world.owners();
    world.queue("a", one);
    world.queue("a", two);
    assert_eq!(world.locks.stored(), 2);
    world.call("a", Op::Release, two);
    world.call("a", Op::Release, one);
    assert_eq!((world.locks.stored(), world.locks.locks.len()), (0, 0));
    let [tries, beats] = world.owners();
    world.call("b", Op::Beat { place: place() }, beats);
    world.call("b", Op::Release, tries);
    assert_eq!(world.locks.locks.len(), 0, "nothing is made by asking");
}

#[test]
fn locks_that_ran_out_are_swept() {
    let mut world = World::new();
    for n in 0..10_000 {
        let [owner, waits] = world.owners();
        world.queue(&n.to_string(), owner);
        world.queue(&n.to_string(), waits);
        world.ms += 1_000;
    }
    let live = 2 * (300 + 30); // as many places and holds as a wait and a ttl have seconds, about
    assert!(world.locks.stored() <= 2 * live + 2 * LEFTOVERS_MAX, "{}", world.locks.stored());
}
