//! Two lanes of one transport, and requests to send over them.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::{Clock, Instant},
    key::LockKey,
    owner::OwnerMint,
    routing::topology::NodeId,
    transport::{Call, HoldKind, Lane, LanePurpose, Op, OpenLane, Outcome, Transport, TransportError},
};
use leasehold_redis::{RedisConfig, RedisTransport};

pub(crate) struct Lanes {
    pub(crate) calls: Arc<dyn Lane>,
    pub(crate) renewals: Arc<dyn Lane>,
    mint: OwnerMint,
}

impl Lanes {
    pub(crate) async fn open(config: RedisConfig) -> Self {
        let transport = RedisTransport::new(config);
        let lane = async |purpose| open(&transport, purpose).await.expect("a lane");
        let (calls, renewals) = (lane(LanePurpose::Calls).await, lane(LanePurpose::Renewals).await);
        Self { calls, renewals, mint: OwnerMint::new() }
    }

    /// A hold to ask for, of an owner of its own.
    pub(crate) fn wish(&self, name: &str) -> Call {
        self.wish_for(HoldKind::Exclusive, name)
    }

    /// The same, of this kind.
    pub(crate) fn wish_for(&self, kind: HoldKind, name: &str) -> Call {
        let key = LockKey::with_family("", name, kind.family()).expect("a name");
        Call::new(key, kind, Op::Acquire { ttl: TTL }, self.mint.mint(), soon())
    }

    /// Asks for it now.
    pub(crate) async fn acquire(&self, wish: &Call) -> Result<Outcome, TransportError> {
        self.calls.call_one(call(wish, wish.op)).await.into_result()
    }

    /// A hold that was granted.
    pub(crate) async fn held(&self, name: &str) -> Call {
        self.granted(self.wish(name)).await
    }

    /// The same, of this kind.
    pub(crate) async fn held_for(&self, kind: HoldKind, name: &str) -> Call {
        self.granted(self.wish_for(kind, name)).await
    }

    /// The hold that was wished for.
    pub(crate) async fn granted(&self, wish: Call) -> Call {
        let reply = self.acquire(&wish).await;
        assert!(matches!(reply, Ok(Outcome::Granted { .. })), "{}: {reply:?}", wish.key.name());
        wish
    }

    pub(crate) async fn release(&self, hold: &Call) -> Result<Outcome, TransportError> {
        self.calls.call_one(call(hold, Op::Release)).await.into_result()
    }

    pub(crate) async fn is_released(&self, hold: &Call) -> bool {
        matches!(self.release(hold).await, Ok(Outcome::Released { .. }))
    }

    /// Renews all in one batch, to be sent to who serves the first, for twice their ttl. Answers in the order of `holds`.
    pub(crate) async fn renew(&self, holds: &[&Call]) -> Vec<Outcome> {
        let node = node_of(&self.renewals, holds[0]).expect("a node");
        renew_at(&self.renewals, node, holds).await
    }

    /// After trouble, in which each lane may have lost its connection.
    pub(crate) async fn until_renewed(&self, holds: &[&Call]) {
        let renewed = async {
            for lane in [&self.renewals, &self.calls] {
                while !is_renewed_over(lane, holds).await {
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        tokio::time::timeout(PATIENCE, renewed).await.expect("renewed in time");
    }

    pub(crate) async fn is_renewed(&self, holds: &[&Call]) -> bool {
        is_renewed_over(&self.renewals, holds).await
    }
}

async fn is_renewed_over(lane: &Arc<dyn Lane>, holds: &[&Call]) -> bool {
    // While a master is replaced, there may be none.
    let Some(node) = node_of(lane, holds[0]) else { return false };
    let answers = renew_at(lane, node, holds).await;
    let all = answers.iter().all(|answer| matches!(answer, Outcome::Renewed { .. }));
    if !all {
        println!("{answers:?}");
    }
    all
}

fn node_of(lane: &Arc<dyn Lane>, hold: &Call) -> Option<NodeId> {
    lane.topology().borrow().serving(hold.key.slot()).map(|node| node.id)
}

async fn renew_at(lane: &Arc<dyn Lane>, node: NodeId, holds: &[&Call]) -> Vec<Outcome> {
    let batch = holds.iter().zip(0..).map(|(hold, ticket)| renewal(hold, ticket)).collect();
    let mut answered = lane.call(node, batch).await;
    answered.sort_by_key(|member| member.ticket);
    assert_eq!(answered.len(), holds.len());
    answered.into_iter().map(|member| member.outcome).collect()
}

pub(crate) async fn open(
    transport: &RedisTransport,
    purpose: LanePurpose,
) -> Result<Arc<dyn Lane>, TransportError> {
    transport.open(OpenLane::new(purpose, Clock::Boot, TIMEOUT)).await
}

fn renewal(hold: &Call, ticket: u64) -> Call {
    call(hold, Op::Renew { ttl: 2 * TTL }).with_ticket(ticket)
}

/// Another operation on a hold.
pub(crate) fn call(hold: &Call, op: Op) -> Call {
    Call::new(hold.key.clone(), hold.kind, op, hold.owner, soon())
}

fn soon() -> Instant {
    Clock::Boot.now() + TIMEOUT
}

pub(crate) const TTL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_secs(2);
