//! Long histories of many owners and two peers, at random: after each step the server has what the model has.

use crate::{
    model::{Answer, Model, Op},
    redisson::Version,
    world::World,
};

const PEERS: [usize; 2] = [100, 110];

pub(crate) fn actors() -> Vec<usize> {
    (0..20).chain(PEERS).collect()
}

/// A generator of random numbers, so that a seed is enough to repeat a run.
pub(crate) struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// What one of ours does; most wait.
const OURS: [Op; 9] = [
    Op::Queue(20_000),
    Op::Queue(20_000),
    Op::Queue(20_000),
    Op::Acquire(10_000),
    Op::Release,
    Op::Release,
    Op::Beat,
    Op::Beat,
    Op::Force,
];
const OF_PEER: [Op; 5] = [
    Op::Lock(20_000, 60_000),
    Op::Lock(20_000, 300_000),
    Op::TryLock(20_000, 60_000),
    Op::Unlock,
    Op::GiveUp(60_000),
];
/// The last is rare: it ends most lines.
const PASSES: [i64; 9] = [0, 1, 100, 400, 700, 1_000, 1_600, 3_000, 90_000];

pub(crate) fn run(world: &mut World, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let (mut model, mut granted) = (Model::default(), 0);
    let peers = random.below(3);
    world.client.ok(&["FLUSHALL"]);
    for step in 0..steps {
        let told = format!("seed {seed}, step {step}");
        match random.below(10) {
            0..3 => model = pass(world, &model, &mut random),
            3..6 => model = beat_all(world, &model, &mut random, &told),
            6 if peers > 0 => model = act(world, &model, random.of(&PEERS), random.of(&OF_PEER), &told).1,
            _ => {
                let op = random.of(&OURS);
                let actor = actor_of(&model, op, &mut random);
                let (answer, after) = act(world, &model, actor, op, &told);
                granted += usize::from(answer == Answer::Granted);
                model = after;
            }
        }
        let placed: std::collections::BTreeSet<_> = model.line.iter().collect();
        assert_eq!(placed, model.deadlines.keys().collect(), "{told}");
        assert_eq!(placed.len(), model.line.len(), "{told}: twice in line");
    }
    assert!(granted > 3, "seed {seed}: {granted} grants");
}

/// Whose turn it is more often than another.
fn actor_of(model: &Model, op: Op, random: &mut Random) -> usize {
    let of_turn = match op {
        Op::Release => model.hold.as_ref().map(|hold| hold.actor),
        _ => model.line.first().copied(),
    };
    let of_turn = of_turn.filter(|actor| !PEERS.contains(actor) && random.below(3) > 0);
    of_turn.unwrap_or_else(|| usize::try_from(random.below(20)).unwrap())
}

fn pass(world: &mut World, model: &Model, random: &mut Random) -> Model {
    let ms = random.of(&PASSES);
    let ms = if ms == 90_000 && random.below(6) > 0 { 50 } else { ms };
    world.pass(ms);
    model.step(0, Op::Pass(ms)).1
}

fn act(world: &mut World, model: &Model, actor: usize, op: Op, told: &str) -> (Answer, Model) {
    let mut found = world.act(actor, op);
    let wanted = model.step(actor, op);
    if world.version == Version::V3_27
        && matches!((found.0, wanted.0), (Answer::Number(_), Answer::Number(_)))
    {
        found.0 = wanted.0;
    }
    assert_eq!(found, wanted, "{told}: {actor} does {op:?} in {model:?}");
    (wanted.0, wanted.1)
}

/// Of one engine, but for some.
fn beat_all(world: &mut World, model: &Model, random: &mut Random, told: &str) -> Model {
    let first = random.of(&[0, 10]);
    let actors: Vec<_> = (first..first + 10).filter(|_| random.below(6) > 0).collect();
    if actors.is_empty() {
        return model.clone();
    }
    let found = world.act_together(&actors);
    let wanted = model.step_beat(&actors);
    assert_eq!(found, wanted, "{told}: beats of {actors:?} in {model:?}");
    wanted.1
}

#[test]
fn random_histories_leave_what_the_model_says() {
    let mut world = World::start(&actors());
    for seed in 0..30 {
        world.version = if seed % 2 == 0 { Version::V4_7 } else { Version::V3_27 };
        println!("seed {seed}");
        run(&mut world, seed, 400);
    }
}
