//! Kinds of locks that a transport does not keep.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use leasehold::{
    AcquireError, Engine,
    transport::{BoxFuture, Capabilities, Kinds, Lane, OpenLane, Transport, TransportError},
};
use leasehold_memory::MemoryTransport;

/// The memory transport, as if it kept no lock at all. It counts the lanes that were opened.
#[derive(Default)]
struct WithoutKinds(MemoryTransport, Arc<AtomicU64>);

impl Transport for WithoutKinds {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().with_kinds(Kinds::NONE)
    }

    fn open(&self, open: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.open(open)
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_transport_lacks_is_refused_at_the_call_by_name() {
    let transport = WithoutKinds::default();
    let memory = transport.0.clone();
    let engine = Engine::builder(transport).on_current_runtime().build().await.expect("an engine");
    let refused = engine.lock("a").acquire().await.expect_err("no such kind");
    let AcquireError::Unsupported { kind, transport } = &refused else { panic!("{refused:?}") };
    assert_eq!((*kind, *transport), (Kinds::EXCLUSIVE, "memory"));
    let text = refused.to_string();
    assert!(text.contains("memory") && text.contains("exclusive"), "{text}");
    let refused = engine.lock("a").try_acquire().await.expect_err("no such kind");
    assert!(matches!(refused, AcquireError::Unsupported { .. }), "{refused:?}");
    let all = engine.acquire_all(["a", "b"]).await;
    assert!(
        all.iter().all(|one| matches!(one, Err(AcquireError::Unsupported { .. }))) && all.len() == 2,
        "{all:?}"
    );
    assert_eq!((memory.stored_holds(), memory.watched_keys()), (0, 0), "nothing was sent");
}
