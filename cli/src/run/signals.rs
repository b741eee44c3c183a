//! The signals that this process passes on to the command.

use std::io;

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Receives the signals. While it lives they do not end this process.
pub(crate) struct Signals {
    received: mpsc::UnboundedReceiver<Signal>,
}

/// These signals have no effect on this process from now on. A program that it starts has the default again.
pub(super) fn ignore(kinds: &[SignalKind]) -> io::Result<()> {
    // The handler stays when the listener is dropped.
    kinds.iter().try_for_each(|kind| signal(*kind).map(drop))
}

/// The signals of a terminal that suspend a process.
pub(super) fn stops() -> [SignalKind; 3] {
    [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(|signal| SignalKind::from_raw(signal.as_raw()))
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen() -> io::Result<Self> {
        let (sender, received) = mpsc::unbounded_channel();
        let kinds = [
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
        ];
        for (kind, number) in kinds {
            let (mut signals, sender) = (signal(kind)?, sender.clone());
            tokio::spawn(
                async move { while signals.recv().await.is_some() && sender.send(number).is_ok() {} },
            );
        }
        ignore(&stops())?;
        Ok(Self { received })
    }

    /// The next signal.
    ///
    /// # Cancel safety
    /// Dropping the future loses no signal.
    pub(crate) async fn next(&mut self) -> Signal {
        match self.received.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next signal that asks to end.
    ///
    /// # Cancel safety
    /// Dropping the future loses no such signal.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ![Signal::USR1, Signal::USR2].contains(&signal) {
                return signal;
            }
        }
    }
}
