//! What an engine says of its nodes, and when: which address it had left by then.

use std::sync::{Arc, Mutex, PoisonError};

use leasehold::{Event, Recorder, metrics::EngineEvent};

use crate::moment::Moment;

#[derive(Clone, Default)]
pub(crate) struct News(Arc<Mutex<Vec<Item>>>);

struct Item {
    at: Moment,
    port: u16,
    connected: bool,
}

impl News {
    /// When the node at this port was first not connected any more, at or after `since`.
    pub(crate) fn left(&self, port: u16, since: Moment) -> Option<Moment> {
        let items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = items.iter().find(|item| item.port == port && !item.connected && item.at >= since);
        left.map(|item| item.at)
    }
}

impl Recorder for News {
    fn record(&self, event: &Event<'_>) {
        let Event::Engine(EngineEvent::NodeChanged { address, connected, .. }) = event else { return };
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("host:port");
        let item = Item { at: Moment::now(), port, connected: *connected };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }
}
