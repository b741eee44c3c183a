//! What a proxy answers wrongly or refuses costs no lease.

use leasehold::transport::{Call, Effect, LanePurpose, Outcome};
use leasehold_redis::{Address, RedisConfig, RedisTransport};
use leasehold_tests::harness::{
    gateway::{Gateway, Habits, PLAIN, shard_of},
    redis_server::RedisServer,
};

use crate::lanes::{Lanes, open};

/// Two servers that know nothing of each other, and a proxy in front.
struct Shards {
    servers: [RedisServer; 2],
    gateway: Gateway,
}

impl Shards {
    fn behind(habits: Habits) -> Self {
        let servers = [RedisServer::start().expect("a server"), RedisServer::start().expect("a server")];
        let ports = [servers[0].port(), servers[1].port()];
        Self { gateway: Gateway::start(&ports, habits).expect("a proxy"), servers }
    }

    fn single(&self) -> RedisConfig {
        RedisConfig::single("127.0.0.1", self.gateway.port())
    }

    fn cluster(&self) -> RedisConfig {
        RedisConfig::cluster([Address::new("127.0.0.1", self.gateway.port())])
    }

    /// How many scripts a renewal of these holds takes; each is renewed.
    async fn scripts_of_renewal(&self, lanes: &Lanes, holds: &[&Call]) -> usize {
        let before = self.gateway.scripts();
        assert!(lanes.is_renewed(holds).await);
        self.gateway.scripts() - before
    }
}

/// Holds on both servers, by turns; those of one server follow those of the other.
async fn holds_on_both(lanes: &Lanes, names: &str) -> Vec<Call> {
    let names: Vec<_> = (0..20).map(|n| format!("{names}{n}")).collect();
    let on_second = names.iter().filter(|name| shard_of(name.as_bytes(), 2) == 1).count();
    assert!((5..=15).contains(&on_second), "{on_second} of 20 names");
    let mut holds = Vec::new();
    for name in &names {
        let hold = lanes.held(name).await;
        // So that both servers know the script of renewals.
        assert!(lanes.is_renewed(&[&hold]).await);
        holds.push(hold);
    }
    holds
}

#[tokio::test]
async fn not_yours_out_of_a_batch_by_the_first_key_is_asked_again_alone() {
    let shards = Shards::behind(Habits::default());
    let lanes = Lanes::open(shards.single()).await;
    let holds = holds_on_both(&lanes, "lock").await;
    let holds: Vec<&Call> = holds.iter().collect();
    let first = shards.scripts_of_renewal(&lanes, &holds).await;
    assert!((6..=16).contains(&first), "one batch, and one more for each hold of the other server: {first}");
    // From then on by slot: each name has a slot of its own.
    assert_eq!(shards.scripts_of_renewal(&lanes, &holds).await, 20);
}

#[tokio::test]
async fn names_that_share_a_slot_and_no_server_are_renewed_alone() {
    let shards = Shards::behind(Habits::default());
    let lanes = Lanes::open(shards.single()).await;
    let holds = holds_on_both(&lanes, "{tenant}").await;
    let holds: Vec<&Call> = holds.iter().collect();
    for expected in [6..=16, 6..=16, 20..=20] {
        let sent = shards.scripts_of_renewal(&lanes, &holds).await;
        assert!(expected.contains(&sent), "{sent}, not {expected:?}");
    }
}

#[tokio::test]
async fn not_yours_out_of_a_batch_without_keys_is_asked_again_alone() {
    let shards = Shards::behind(Habits { is_cluster: true, ..Habits::default() });
    let lanes = Lanes::open(shards.cluster()).await;
    // Without keys even a batch of one goes to the first server, so one such batch has shown it by now.
    let holds = holds_on_both(&lanes, "lock").await;
    let holds: Vec<&Call> = holds.iter().collect();
    assert_eq!(shards.scripts_of_renewal(&lanes, &holds).await, 20);
}

/// As Alibaba Cloud's proxies say it.
pub(super) const OF_ITS_OWN: Habits = Habits {
    refused_keys: Some(|keys| match keys {
        0 => Some("ERR for redis cluster, eval/evalsha number of keys can't be negative or zero"),
        1 => None,
        _ => Some("ERR eval/evalsha command keys must in same slot"),
    }),
    ..PLAIN
};

#[tokio::test]
async fn a_batch_that_is_refused_in_unknown_words_is_asked_again_alone() {
    let shards = Shards::behind(OF_ITS_OWN);
    let lanes = Lanes::open(shards.single()).await;
    let holds = holds_on_both(&lanes, "lock").await;
    let holds: Vec<&Call> = holds.iter().collect();
    assert_eq!(shards.scripts_of_renewal(&lanes, &holds).await, 21);
    assert_eq!(shards.scripts_of_renewal(&lanes, &holds).await, 20);
}

/// Where one key is refused as its batch was, the others are not asked about.
#[tokio::test]
async fn a_refusal_of_every_script_costs_one_more_command() {
    let shards = Shards::behind(Habits::default());
    let mut lanes = Lanes::open(shards.single()).await;
    let holds = holds_on_both(&lanes, "lock").await;
    let habits = Habits { refused_keys: Some(|_| Some("ERR not today")), ..Habits::default() };
    let refusing = Gateway::start(&[shards.servers[0].port()], habits).expect("a proxy");
    let transport = RedisTransport::new(RedisConfig::single("127.0.0.1", refusing.port()));
    lanes.renewals = open(&transport, LanePurpose::Renewals).await.expect("a lane");
    for expected in [2, 4] {
        let answers = lanes.renew(&holds.iter().collect::<Vec<_>>()).await;
        assert!(answers.iter().all(is_unknown), "{answers:?}");
        assert_eq!(refusing.scripts(), expected);
    }
}

fn is_unknown(answer: &Outcome) -> bool {
    matches!(answer, Outcome::Failed(error) if error.effect != Effect::None)
}

#[tokio::test]
async fn a_lease_that_is_lost_on_a_healthy_server_costs_one_more_command() {
    let server = RedisServer::start().expect("a server");
    let gateway = Gateway::start(&[server.port()], Habits::default()).expect("a proxy");
    let lanes = Lanes::open(RedisConfig::single("127.0.0.1", gateway.port())).await;
    let holds = holds_on_both(&lanes, "lock").await;
    let mut client = server.client().expect("a connection");
    client.command(&["DEL", "lock3", "lock7", "lock8"]).expect("a reply");
    let before = gateway.scripts();
    let answers = lanes.renew(&holds.iter().collect::<Vec<_>>()).await;
    let lost = answers.iter().filter(|answer| matches!(answer, Outcome::NotYours { .. })).count();
    assert_eq!((lost, gateway.scripts() - before), (3, 1 + 3));
    // Nothing was learnt from it.
    let before = gateway.scripts();
    let rest: Vec<&Call> = holds[10..].iter().collect();
    assert!(lanes.is_renewed(&rest).await);
    assert_eq!(gateway.scripts() - before, 1);
}
