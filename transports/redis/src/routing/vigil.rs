//! Listens to all sentinels: the first that tells a failover is believed, since the old master must not be used for a
//! moment longer.
//!
//! Each sentinel is asked every few seconds, and several times a second when there is no master: a message may have been
//! lost. Its messages come on a second connection, which is not needed: a sentinel that refuses SUBSCRIBE is asked all
//! the same. Sentinels that the configuration does not name are learnt from the others.
//!
//! Both connections must end at the same sentinel, told by its run id: behind an address that several sentinels share,
//! the word of one must not be taken for the correction of another one's message. By the same id a sentinel that is
//! reached under two addresses is listened to once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    bytes_utils::Str,
    types::{Message, Value},
};
use leasehold::{
    log,
    transport::{ErrorKind, OpenLane, TransportError},
};
use tokio::sync::broadcast::error::RecvError;
use tracing::Level;

use super::{
    atlas::Atlas,
    pace::{PERIOD, Pace, Refusals},
    roster::{Roster, Turnover},
    sentinels::{SentinelLink, ask, explain, question, service},
    succession::SentinelId,
};
use crate::{
    config::Address,
    connection::{
        backoff::Backoff,
        dialling::LinkKind,
        link::{Failure, Link},
        watchdog::{Probe, watch_over},
    },
    lane::{Nodes, Task},
    wire::{
        reply,
        sentinel::{Switch, sentinels},
    },
};

/// Listens to all of them, for ever.
pub(crate) async fn keep_listening(atlas: Arc<Atlas>, lane: OpenLane, nodes: Arc<Nodes>) {
    let configured = atlas.config.addresses.clone();
    let roster = Mutex::new(Roster::configured(&configured, lane.clock.now()));
    let vigil = Arc::new(Vigil { atlas, lane, nodes, roster, ears: Mutex::default() });
    vigil.turn_over(Turnover { joined: configured, left: Vec::new() });
    // Its ears live as long as this does.
    let _ears = Ears(vigil);
    std::future::pending::<()>().await;
}

/// Who is listened to.
struct Vigil {
    atlas: Arc<Atlas>,
    lane: OpenLane,
    nodes: Arc<Nodes>,
    roster: Mutex<Roster>,
    ears: Mutex<HashMap<Address, Task>>,
}

struct Ears(Arc<Vigil>);

impl Drop for Ears {
    fn drop(&mut self) {
        let ears = std::mem::take(&mut *self.0.ears());
        drop(ears);
    }
}

impl Vigil {
    /// A sentinel has named the others.
    fn handle_list(self: &Arc<Self>, by: &Address, named: &[Address]) {
        let turnover = self.roster().handle_list(by, named, self.lane.clock.now());
        self.turn_over(turnover);
    }

    /// Listens to those that are new, and to those that left no more. All of it runs on one thread.
    fn turn_over(self: &Arc<Self>, turnover: Turnover) {
        let mut ears = self.ears();
        let ended: Vec<_> = turnover.left.iter().filter_map(|sentinel| ears.remove(sentinel)).collect();
        for sentinel in turnover.joined {
            let task = Task::spawn(listen(self.clone(), sentinel.clone()));
            ears.insert(sentinel, task);
        }
        drop(ears);
        drop(ended);
    }

    fn known(&self) -> usize {
        self.roster().count()
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ears(&self) -> MutexGuard<'_, HashMap<Address, Task>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, sentinel: &Address, questions: &SentinelLink) -> Result<(), TransportError> {
        let told = ask(&self.atlas, sentinel, questions, self.lane).await?;
        self.atlas.handle_word(&told.id, told.word, self.known(), told.moments);
        Ok(())
    }
}

async fn listen(vigil: Arc<Vigil>, sentinel: Address) {
    let mut backoff = Backoff::at_once();
    loop {
        let now = vigil.lane.clock.now();
        tokio::time::sleep(backoff.next_delay(now)).await;
        match SentinelLink::open(&vigil.atlas, &sentinel, LinkKind::Commands, vigil.lane).await {
            Ok(questions) => {
                let since = vigil.lane.clock.now();
                attend_once(&vigil, &sentinel, &questions).await;
                backoff = Backoff::after(vigil.lane.clock.now() - since);
            }
            Err(error) => {
                let sentinel = sentinel.clone();
                log::line(Level::DEBUG, move || {
                    tracing::debug!(%sentinel, %error, "cannot connect to a sentinel");
                });
            }
        }
    }
}

/// A sentinel that is reached under another address, too, is attended to under one of them.
async fn attend_once(vigil: &Arc<Vigil>, sentinel: &Address, questions: &SentinelLink) {
    if !vigil.roster().reached(sentinel, &questions.id) {
        questions.link.kill();
        while vigil.roster().is_reached(&questions.id) {
            tokio::time::sleep(PERIOD).await;
        }
        return;
    }
    attend(vigil, sentinel, questions).await;
    vigil.roster().lost(sentinel, vigil.lane.clock.now());
    let lost = sentinel.clone();
    log::line(Level::WARN, move || tracing::warn!(sentinel = %lost, "lost the connection to a sentinel"));
}

/// Until the connection for questions ends.
async fn attend(vigil: &Arc<Vigil>, sentinel: &Address, questions: &SentinelLink) {
    tokio::select! {
        () = questions.link.ended() => {}
        () = keep_asking(vigil, sentinel, questions) => {}
        () = keep_hearing(vigil, sentinel, questions) => {}
    }
}

async fn keep_asking(vigil: &Arc<Vigil>, sentinel: &Address, questions: &SentinelLink) {
    let mut pace = Pace::of_sentinels();
    loop {
        if let Err(error) = vigil.ask(sentinel, questions).await {
            let (sentinel, kind) = (sentinel.clone(), error.kind);
            log::line(Level::WARN, move || {
                tracing::warn!(%sentinel, %error, "a sentinel does not name the master");
            });
            if kind == ErrorKind::Unreachable || kind == ErrorKind::TimedOut {
                return;
            }
        }
        let list =
            question(&questions.link, "SENTINELS", service(&vigil.atlas), vigil.lane.command_timeout).await;
        if let Ok(frame) = list {
            let named: Vec<_> =
                sentinels(&frame).iter().map(|named| vigil.atlas.config.reachable(named)).collect();
            vigil.handle_list(sentinel, &named);
        }
        let pause = pace.next_pause(vigil.nodes.is_whole(), vigil.lane.clock.now());
        tokio::time::sleep(pause).await;
    }
}

/// Hears the sentinel's messages, over one connection after the other; never returns.
async fn keep_hearing(vigil: &Arc<Vigil>, sentinel: &Address, questions: &SentinelLink) {
    let (mut backoff, mut refusals, mut is_told) = (Backoff::at_once(), Refusals::default(), false);
    loop {
        tokio::time::sleep(backoff.next_delay(vigil.lane.clock.now())).await;
        match Ear::open(&vigil.atlas, vigil.lane, sentinel, &questions.id).await {
            Ok(ear) => {
                let since = vigil.lane.clock.now();
                is_told = false;
                hear_out(vigil, sentinel, questions, &ear).await;
                backoff = Backoff::after(vigil.lane.clock.now() - since);
            }
            Err(Deaf::ForNow(error)) => {
                let sentinel = sentinel.clone();
                log::line(Level::DEBUG, move || {
                    tracing::debug!(%sentinel, %error, "cannot connect to a sentinel for its messages");
                });
            }
            Err(Deaf::Refused(error)) => {
                if !std::mem::replace(&mut is_told, true) {
                    let sentinel = sentinel.clone();
                    log::line(Level::WARN, move || {
                        tracing::warn!(%sentinel, %error, "a sentinel refuses its messages: it is only asked every 5 s");
                    });
                }
                tokio::time::sleep(refusals.next_pause(vigil.lane.clock.now())).await;
            }
        }
    }
}

async fn hear_out(vigil: &Arc<Vigil>, sentinel: &Address, questions: &SentinelLink, ear: &Ear) {
    tokio::select! {
        () = ear.messages.ended() => {}
        () = watch_over(ear, vigil.lane.clock) => {}
        () = hear(vigil, sentinel, questions, ear) => {}
    }
}

async fn hear(vigil: &Arc<Vigil>, sentinel: &Address, questions: &SentinelLink, ear: &Ear) {
    let mut messages = ear.messages.messages();
    // What was told before may have been missed.
    let _ = vigil.ask(sentinel, questions).await;
    loop {
        match messages.recv().await {
            Ok(message) => handle_message(vigil, &questions.id, &message),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        let _ = vigil.ask(sentinel, questions).await;
    }
}

fn handle_message(vigil: &Vigil, by: &SentinelId, message: &Message) {
    let payload = message.value.as_str();
    let switch = payload.as_deref().and_then(Switch::read);
    if let Some(switch) = switch.filter(|switch| switch.service == service(&vigil.atlas)) {
        let config = &vigil.atlas.config;
        let (from, to) = (config.reachable(&switch.from), config.reachable(&switch.to));
        vigil.atlas.handle_switch(by, &Switch { from, to, ..switch }, vigil.lane.clock.now());
    }
}

/// The connection for the messages of one sentinel.
pub(super) struct Ear {
    messages: Link,
    pings: AtomicU64,
}

/// Why the messages of a sentinel are not heard.
#[derive(Debug)]
pub(super) enum Deaf {
    /// It could not be reached, or another sentinel answers at its address.
    ForNow(TransportError),
    /// It refuses.
    Refused(TransportError),
}

impl Ear {
    /// Subscribed when this returns, at the sentinel `id`.
    async fn open(atlas: &Atlas, lane: OpenLane, sentinel: &Address, id: &SentinelId) -> Result<Self, Deaf> {
        let link =
            SentinelLink::open(atlas, sentinel, LinkKind::Notices, lane).await.map_err(Deaf::ForNow)?;
        if link.id != *id {
            return Err(Deaf::ForNow(another_sentinel(sentinel)));
        }
        Self::on(link, atlas, lane, sentinel).await
    }

    /// Subscribes on this connection, and has done so when it returns.
    pub(super) async fn on(
        link: SentinelLink,
        atlas: &Atlas,
        lane: OpenLane,
        sentinel: &Address,
    ) -> Result<Self, Deaf> {
        let ear = Self { messages: link.link, pings: AtomicU64::new(0) };
        let subscribed = async {
            ear.messages.subscribe(vec![Str::from_static("+switch-master")], lane.command_timeout).await?;
            ear.probe(lane.command_timeout).await
        };
        match subscribed.await {
            Ok(()) => Ok(ear),
            Err(failure @ Failure::Refused(_)) => {
                Err(Deaf::Refused(deaf(explain(sentinel, service(atlas), failure))))
            }
            Err(failure) => Err(Deaf::ForNow(explain(sentinel, service(atlas), failure))),
        }
    }
}

impl Deaf {
    pub(super) fn into_error(self) -> TransportError {
        match self {
            Deaf::ForNow(error) | Deaf::Refused(error) => error,
        }
    }
}

fn another_sentinel(sentinel: &Address) -> TransportError {
    let detail = format!("sentinel {sentinel}: another sentinel than before answers at this address");
    TransportError::without_effect(ErrorKind::NotReady, None, detail)
}

/// A channel that may not be listened to is not named by the server.
fn deaf(error: TransportError) -> TransportError {
    let detail =
        format!("{}; to hear of failovers it takes +subscribe, +ping, &+switch-master", error.detail);
    TransportError { detail: detail.into(), ..error }
}

impl Probe for Ear {
    fn link(&self) -> &Link {
        &self.messages
    }

    async fn probe(&self, timeout: Duration) -> Result<(), Failure> {
        let number = self.pings.fetch_add(1, Ordering::Relaxed).to_string();
        let args = vec![Value::String(number.clone().into())];
        let frame = self.messages.request("PING", 0, args, timeout).await?;
        if reply::pong(&frame) != Some(&number) {
            self.messages.kill();
        }
        Ok(())
    }
}
