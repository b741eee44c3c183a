use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use super::*;
use crate::{
    calls_runtime::CallsRuntime,
    clock::Clock,
    config::EngineConfig,
    metrics::{Classes, Events},
    transport::Capabilities,
};

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Routed for Counted {
    fn slot(&self) -> Slot {
        Slot::of(b"a")
    }
}

impl Work for Counted {
    fn begin(self: Box<Self>, _: Permit) {
        panic!("the service never ran");
    }

    fn reject(self: Box<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn core() -> Arc<Core> {
    let events = Events::new(None, None, Arc::new(Classes::new(&BTreeMap::new())));
    let capabilities = Capabilities::new("test", Duration::from_secs(86_400));
    let runtime = CallsRuntime::users(tokio::runtime::Handle::current());
    Arc::new(Core::new(Clock::Tokio, EngineConfig::default(), capabilities, events, runtime))
}

// Queued work keeps its engine alive, and the engine keeps the dispatcher: work that nothing takes out of the queue would keep
// both for ever.
#[tokio::test]
async fn a_service_dropped_before_its_first_poll_rejects_all_work() {
    let core = core();
    let (dispatcher, rejected) = (Arc::new(Dispatcher::new(&core.config, core.capabilities)), Arc::default());
    let call = || [Box::new(Counted(Arc::clone(&rejected))) as Box<dyn Work>];
    let service = run(core.clone(), dispatcher.clone());
    dispatcher.add_bulk(&core, call());
    drop(service);
    assert_eq!(rejected.load(Ordering::Relaxed), 1, "queued before the end");
    dispatcher.add_bulk(&core, call());
    assert_eq!(rejected.load(Ordering::Relaxed), 2, "after the end");
}
