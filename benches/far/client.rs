//! What the callers acquire and release with.

use std::time::Duration;

use leasehold::{AcquireError, Engine, Lease};
use leasehold_redis::RedisTransport;
use rslock::{Lock, LockManager};

pub(super) const OURS: &str = "ours";
pub(super) const PEER: &str = "rslock";

#[derive(Clone)]
pub(super) enum Client {
    Ours(Engine),
    Peer(LockManager),
}

pub(super) enum Held {
    Ours(Lease),
    Peer(LockManager, Lock),
}

/// Why there is no lock.
pub(super) enum Refusal {
    Unavailable,
    Other,
}

impl Client {
    /// Connected: an engine connects when it is built, and rslock at its first lock.
    pub(super) async fn connect(client: &str, url: &str) -> Self {
        if client == PEER {
            let peer = LockManager::new(vec![url.to_owned()]);
            let lock = peer.lock("far:first", TTL).await.expect("free");
            peer.unlock(&lock).await;
            return Self::Peer(peer);
        }
        let transport = RedisTransport::from_url(url).expect("a good URL");
        Self::Ours(Engine::builder(transport).ttl(TTL).build().await.expect("the server is up"))
    }

    pub(super) async fn acquire(self, name: String) -> Result<Held, Refusal> {
        match self {
            Self::Ours(engine) => match engine.lock(name).acquire().await {
                Ok(lease) => Ok(Held::Ours(lease)),
                Err(AcquireError::Unavailable { .. }) => Err(Refusal::Unavailable),
                Err(_) => Err(Refusal::Other),
            },
            Self::Peer(peer) => match peer.lock(name.as_str(), TTL).await {
                Ok(lock) => Ok(Held::Peer(peer, lock)),
                Err(_) => Err(Refusal::Other),
            },
        }
    }
}

impl Held {
    /// Whether the server has confirmed it. rslock does not say.
    pub(super) async fn release(self) -> bool {
        match self {
            Self::Ours(lease) => lease.release().await.is_ok(),
            Self::Peer(peer, lock) => {
                peer.unlock(&lock).await;
                true
            }
        }
    }
}

const TTL: Duration = Duration::from_secs(30);
