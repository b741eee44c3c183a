//! What goes wrong on an engine's way to the servers during a run.

use leasehold::transport::{ErrorKind, LanePurpose};
use leasehold_memory::{Cut, Fault, Faults, Operation};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use super::history::History;
use crate::fixture::{millis, pass};

/// Harms one engine's way to the server, until it is dropped.
pub async fn harm(faults: Faults, history: History, mut rng: StdRng) {
    loop {
        pass(millis(rng.random_range(20..1_200))).await;
        history.count(|totals| totals.faults += 1);
        if rng.random_ratio(1, 8) {
            cut(&faults, &mut rng).await;
        } else {
            inject(&faults, &mut rng);
        }
    }
}

async fn cut(faults: &Faults, rng: &mut StdRng) {
    let cut = *[Cut::Refused, Cut::Reset, Cut::BlackHole, Cut::RepliesLost].choose(rng).expect("some");
    match rng.random_range(0..3) {
        0 => faults.cut(cut),
        1 => faults.cut_lane(LanePurpose::Calls, cut),
        _ => faults.cut_lane(LanePurpose::Renewals, cut),
    }
    pass(millis(rng.random_range(5..3_500))).await;
    faults.heal();
}

fn inject(faults: &Faults, rng: &mut StdRng) {
    let operation = *OPERATIONS.choose(rng).expect("some");
    let late = millis(rng.random_range(1..2_500));
    let mut fates = vec![
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::LoseHalf,
        Fault::Reset,
        Fault::Repeat,
        Fault::DelayRequest(late),
        Fault::DelayReply(late),
        Fault::Reorder(rng.random_range(1..5)),
        Fault::Refuse(ErrorKind::NotReady),
    ];
    if operation != Operation::Acquire {
        // An acquire that was answered is never sent again, by us or by TCP.
        fates.push(Fault::RepeatLater(late));
    }
    let fate = *fates.choose(rng).expect("some");
    faults.on(operation).times(rng.random_range(1..4)).inject(fate);
}

const OPERATIONS: [Operation; 8] = [
    Operation::Acquire,
    Operation::Acquire,
    Operation::Release,
    Operation::Release,
    Operation::Renew,
    Operation::Renew,
    Operation::Beat,
    Operation::Notice,
];
