use std::sync::Arc;

use leasehold::transport::{
    BoxFuture, Capabilities, ErrorKind, Lane, LanePurpose, OpenLane, Transport, TransportError,
};

use super::{Cut, Faults, lane::FaultyLane, line::Line};

/// A wrapper around any transport that injects faults.
#[derive(Clone, Debug)]
pub struct Faulty<T> {
    inner: T,
    faults: Faults,
}

impl<T: Transport> Faulty<T> {
    /// Wraps `inner`. Without a rule or a cut it changes nothing except the cost.
    pub fn new(inner: T) -> Self {
        Self { inner, faults: Faults::default() }
    }

    /// Returns the handle that injects faults, before and while lanes are open.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// Returns the wrapped transport.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

impl<T: Transport> Transport for Faulty<T> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities().with_group_commit() // a fault may be a delay, which calls can share
    }

    fn open(&self, open: OpenLane) -> BoxFuture<'static, Result<Arc<dyn Lane>, TransportError>> {
        let (opening, faults) = (self.inner.open(open), self.faults.clone());
        Box::pin(async move {
            if let Some(cut) = faults.cut_of(open.purpose) {
                return Err(fail_to_open(cut, open).await);
            }
            let line = Line::new(opening.await?, faults, open);
            Ok(Arc::new(FaultyLane::new(line)) as Arc<dyn Lane>)
        })
    }
}

async fn fail_to_open(cut: Cut, open: OpenLane) -> TransportError {
    let kind = match cut {
        Cut::Refused | Cut::Reset => ErrorKind::Unreachable,
        Cut::BlackHole | Cut::RepliesLost => {
            open.clock.sleep_until(open.clock.now() + open.command_timeout).await;
            ErrorKind::TimedOut
        }
    };
    let lane = match open.purpose {
        LanePurpose::Calls => "calls",
        LanePurpose::Renewals => "renewals",
    };
    TransportError::without_effect(kind, None, format!("injected fault: the lane for {lane} is cut off"))
}
