//! Two lanes of one transport, and requests to send over them.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::Clock,
    key::LockKey,
    owner::OwnerMint,
    transport::{
        Acquire, AcquireReply, Fencing, Lane, LanePurpose, OpenLane, Release, ReleaseReply, Renewal,
        RenewalAnswer, Transport, TransportError,
    },
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
    pub(crate) fn wish(&self, name: &str) -> Acquire {
        Acquire {
            key: LockKey::new("", name).expect("a name"),
            owner: self.mint.mint(),
            ttl: TTL,
            fencing: Fencing::ServerClock,
            execute_by: Clock::Boot.now() + TIMEOUT,
        }
    }

    /// Asks for it now.
    pub(crate) async fn acquire(&self, wish: &Acquire) -> Result<AcquireReply, TransportError> {
        let execute_by = Clock::Boot.now() + TIMEOUT;
        self.calls.acquire(Acquire { execute_by, ..wish.clone() }).await
    }

    /// A hold that was granted.
    pub(crate) async fn held(&self, name: &str) -> Acquire {
        let wish = self.wish(name);
        let reply = self.acquire(&wish).await;
        assert!(matches!(reply, Ok(AcquireReply::Granted { .. })), "{name}: {reply:?}");
        wish
    }

    pub(crate) async fn release(&self, hold: &Acquire) -> Result<ReleaseReply, TransportError> {
        self.calls.release(Release { key: hold.key.clone(), owner: hold.owner }).await
    }

    pub(crate) async fn is_released(&self, hold: &Acquire) -> bool {
        matches!(self.release(hold).await, Ok(ReleaseReply::Released { .. }))
    }

    /// Renews all in one batch, to be sent to who serves the first, for twice their ttl. Answers in the order of `holds`.
    pub(crate) async fn renew(&self, holds: &[&Acquire]) -> Vec<RenewalAnswer> {
        let node = {
            let topology = self.renewals.topology().borrow().clone();
            topology.serving(holds[0].key.slot()).expect("a node").id
        };
        let batch = holds.iter().zip(0..).map(|(hold, ticket)| renewal(hold, ticket)).collect();
        let mut answered = self.renewals.renew(node, batch).await;
        answered.sort_by_key(|member| member.ticket);
        assert_eq!(answered.len(), holds.len());
        answered.into_iter().map(|member| member.answer).collect()
    }

    /// After trouble, in which a connection may have been lost.
    pub(crate) async fn until_renewed(&self, holds: &[&Acquire]) {
        let renewed = async {
            while !self.is_renewed(holds).await {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, renewed).await.expect("renewed in time");
    }

    pub(crate) async fn is_renewed(&self, holds: &[&Acquire]) -> bool {
        let answers = self.renew(holds).await;
        let all = answers.iter().all(|answer| matches!(answer, RenewalAnswer::Renewed { .. }));
        if !all {
            println!("{answers:?}");
        }
        all
    }
}

pub(crate) async fn open(
    transport: &RedisTransport,
    purpose: LanePurpose,
) -> Result<Arc<dyn Lane>, TransportError> {
    transport.open(OpenLane::new(purpose, Clock::Boot, TIMEOUT)).await
}

fn renewal(hold: &Acquire, ticket: u64) -> Renewal {
    Renewal {
        key: hold.key.clone(),
        owner: hold.owner,
        ttl: 2 * TTL,
        execute_by: Clock::Boot.now() + TIMEOUT,
        ticket,
        answer: RenewalAnswer::None,
    }
}

pub(crate) const TTL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_secs(2);
