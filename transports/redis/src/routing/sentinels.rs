//! Listens to all sentinels: whoever tells a failover first is believed, since the old master must not be used for a
//! moment longer.
//!
//! A sentinel that says nothing is asked every few seconds, and several times a second while there is no master: the
//! message may have been lost. Sentinels that the configuration does not name are learnt from the others.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    bytes_utils::Str,
    types::{Message, Resp3Frame as Frame, Value},
};
use futures_util::{
    future::{join, join_all},
    stream::{FuturesUnordered, StreamExt},
};
use leasehold::transport::{ErrorKind, OpenLane, TransportError};
use tokio::sync::broadcast::error::RecvError;

use super::{
    atlas::Atlas,
    poll::{Poll, Told, Verdict},
    roster::{Roster, Turnover},
};
use crate::{
    config::Address,
    connection::{
        backoff::Backoff,
        dialling::{LinkKind, Login, Target},
        link::{Failure, Link},
        watchdog::{PROBE_TIMEOUT, Probe, watch_over},
    },
    lane::{Nodes, Task},
    wire::{
        refusal::{refusal, refused},
        reply,
        sentinel::{MasterWord, Switch, sentinels},
    },
};

/// Asks all configured sentinels at once. The master is that of the highest epoch once most of them have named one; see
/// [`Poll`].
///
/// # Errors
/// Not one of them names a master.
pub(crate) async fn find_master(atlas: &Atlas, lane: OpenLane) -> Result<(), TransportError> {
    let sentinels = &atlas.config.addresses;
    let poll = ask_all(atlas, sentinels, lane).await;
    if poll.verdict(true) == Verdict::Failed {
        return Err(poll.into_error().unwrap_or_else(no_address));
    }
    if poll.verdict(false) != Verdict::Decided {
        let (silent, configured) = (poll.silent(), sentinels.len());
        tracing::warn!(
            silent,
            configured,
            "the master is that of a minority of the configured sentinels, whose word may be old: look at the others"
        );
    }
    for told in poll.into_told() {
        atlas.handle_word(&told.by, told.word, sentinels.len(), told.moments);
    }
    Ok(())
}

async fn ask_all(atlas: &Atlas, sentinels: &[Address], lane: OpenLane) -> Poll {
    let mut poll = Poll::of(sentinels.len());
    let ask = |sentinel, pause| ask_after(pause, atlas, sentinel, lane);
    let mut answers: FuturesUnordered<_> =
        sentinels.iter().map(|sentinel| ask(sentinel, Duration::ZERO)).collect();
    let mut patience = pin!(tokio::time::sleep(lane.command_timeout));
    let mut is_over = false;
    while poll.verdict(is_over) == Verdict::Open {
        tokio::select! {
            Some((sentinel, answer)) = answers.next() => match answer {
                Ok(told) => poll.hear(told),
                Err(error) if poll.fail(sentinel, error) => answers.push(ask(sentinel, PAUSE_REFUSED)),
                Err(_) => {}
            },
            () = &mut patience, if !is_over => is_over = true,
        }
    }
    poll
}

async fn ask_after<'a>(
    pause: Duration,
    atlas: &Atlas,
    sentinel: &'a Address,
    lane: OpenLane,
) -> (&'a Address, Result<Told, TransportError>) {
    tokio::time::sleep(pause).await;
    let answer = async {
        let link = open(atlas, sentinel, LinkKind::Commands, lane).await?;
        ask(atlas, sentinel, &link, lane).await
    };
    (sentinel, answer.await)
}

fn no_address() -> TransportError {
    let detail = "`addresses` is empty: give one at least";
    TransportError::without_effect(ErrorKind::Misconfigured, None, detail)
}

async fn open(
    atlas: &Atlas,
    sentinel: &Address,
    kind: LinkKind,
    lane: OpenLane,
) -> Result<Link, TransportError> {
    let target = Target { config: &atlas.config, address: sentinel, login: Login::Sentinel };
    Link::open(target, kind, lane.clock, lane.command_timeout).await
}

/// Asks one sentinel for the master.
async fn ask(atlas: &Atlas, sentinel: &Address, link: &Link, lane: OpenLane) -> Result<Told, TransportError> {
    let (service, asked) = (service(atlas), lane.clock.now());
    // In this order: an address from before the epoch would be that of the old master with the epoch of the new one.
    let (master, address) = join(
        question(link, "MASTER", service, lane.command_timeout),
        question(link, "GET-MASTER-ADDR-BY-NAME", service, lane.command_timeout),
    )
    .await;
    let told = |answer: Result<Frame, Failure>| answer.map_err(|failure| explain(sentinel, service, failure));
    let word = MasterWord::read(&told(master)?, &told(address)?).ok_or_else(|| {
        let detail = format!("sentinel {sentinel} named its master in a shape that makes no sense");
        TransportError::without_effect(ErrorKind::Protocol, None, detail)
    })?;
    Ok(Told { by: sentinel.clone(), word, moments: (asked, lane.clock.now()) })
}

/// What the first sentinel that answers says of the master, everything of it.
pub(crate) async fn ask_sentinels(atlas: &Atlas, lane: OpenLane) -> Option<Frame> {
    for sentinel in &atlas.config.addresses {
        if let Ok(link) = open(atlas, sentinel, LinkKind::Commands, lane).await {
            if let Ok(frame) = question(&link, "MASTER", service(atlas), lane.command_timeout).await {
                return Some(frame);
            }
        }
    }
    None
}

/// Tries all that is asked of the configured sentinels. What is the matter with each that does not do it.
pub(crate) async fn try_sentinels(atlas: &Atlas, lane: OpenLane) -> Vec<(Address, TransportError)> {
    let tries = atlas.config.addresses.iter().map(|sentinel| async move {
        let trouble = try_sentinel(atlas, sentinel, lane).await.err();
        trouble.map(|trouble| (sentinel.clone(), trouble))
    });
    join_all(tries).await.into_iter().flatten().collect()
}

async fn try_sentinel(atlas: &Atlas, sentinel: &Address, lane: OpenLane) -> Result<(), TransportError> {
    let (ear, step) = (Ear::open(atlas, lane, sentinel).await?, lane.command_timeout);
    let told =
        |answer: Result<Frame, Failure>| answer.map_err(|failure| explain(sentinel, service(atlas), failure));
    for what in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS"] {
        told(question(&ear.questions, what, service(atlas), step).await)?;
    }
    // As fred does when it connects; without them a connection works, but the sentinel logs each as denied.
    for (command, word) in [("CLIENT", "ID"), ("INFO", "server")] {
        told(ear.questions.request(command, 0, vec![Value::from_static_str(word)], step).await)?;
    }
    Ok(())
}

async fn question(link: &Link, what: &'static str, service: &str, step: Duration) -> Result<Frame, Failure> {
    let args = vec![Value::from_static_str(what), Value::String(Str::from(service))];
    link.request("SENTINEL", 0, args, step).await
}

fn service(atlas: &Atlas) -> &str {
    atlas.config.service_name.as_deref().unwrap_or_default()
}

fn explain(sentinel: &Address, service: &str, failure: Failure) -> TransportError {
    let (kind, detail) = match failure {
        Failure::Refused(text) => match refusal(&text) {
            Some(refusal) => return refused(&sentinel.to_string(), refusal, &text),
            None if text.contains("No such master") => (
                ErrorKind::Misconfigured,
                format!(
                    "sentinel {sentinel} knows no master `service_name` = {service:?}; see SENTINEL MASTERS"
                ),
            ),
            None => (ErrorKind::NotReady, format!("sentinel {sentinel} refused to name the master: {text}")),
        },
        Failure::TimedOut => (ErrorKind::TimedOut, format!("sentinel {sentinel}: no answer in time")),
        Failure::Lost(error) => (ErrorKind::Unreachable, format!("sentinel {sentinel}: {error}")),
    };
    TransportError::without_effect(kind, None, detail)
}

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

/// Connections to one sentinel.
struct Ear {
    questions: Link,
    messages: Link,
    pings: AtomicU64,
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

    async fn ask(&self, sentinel: &Address, ear: &Ear) -> Result<(), TransportError> {
        let told = ask(&self.atlas, sentinel, &ear.questions, self.lane).await?;
        self.atlas.handle_word(sentinel, told.word, self.known(), told.moments);
        Ok(())
    }

    // The sooner the worse things are.
    fn pause(&self) -> Duration {
        if self.nodes.is_whole() { PERIOD } else { PAUSE_BROKEN }
    }
}

async fn listen(vigil: Arc<Vigil>, sentinel: Address) {
    let mut backoff = Backoff::at_once();
    loop {
        let now = vigil.lane.clock.now();
        tokio::time::sleep(backoff.next_delay(now)).await;
        match Ear::open(&vigil.atlas, vigil.lane, &sentinel).await {
            Ok(ear) => {
                let since = vigil.lane.clock.now();
                vigil.roster().reached(&sentinel);
                attend(&vigil, &sentinel, &ear).await;
                vigil.roster().lost(&sentinel, vigil.lane.clock.now());
                tracing::warn!(%sentinel, "lost the connection to a sentinel");
                backoff = Backoff::after(vigil.lane.clock.now() - since);
            }
            Err(error) => tracing::debug!(%sentinel, %error, "cannot connect to a sentinel"),
        }
    }
}

/// Until one of the connections ends.
async fn attend(vigil: &Arc<Vigil>, sentinel: &Address, ear: &Ear) {
    tokio::select! {
        _ = ear.questions.ended() => {}
        _ = ear.messages.ended() => {}
        _ = watch_over(ear, vigil.lane.clock) => {}
        _ = hear(vigil, sentinel, ear) => {}
        _ = keep_asking(vigil, sentinel, ear) => {}
    }
}

async fn keep_asking(vigil: &Arc<Vigil>, sentinel: &Address, ear: &Ear) {
    loop {
        if let Err(error) = vigil.ask(sentinel, ear).await {
            tracing::warn!(%sentinel, %error, "a sentinel does not name the master");
            if error.kind == ErrorKind::Unreachable || error.kind == ErrorKind::TimedOut {
                return;
            }
        }
        if let Ok(frame) = question(&ear.questions, "SENTINELS", service(&vigil.atlas), PROBE_TIMEOUT).await {
            vigil.handle_list(sentinel, &sentinels(&frame));
        }
        tokio::time::sleep(vigil.pause()).await;
    }
}

async fn hear(vigil: &Arc<Vigil>, sentinel: &Address, ear: &Ear) {
    let mut messages = ear.messages.messages();
    loop {
        match messages.recv().await {
            Ok(message) => handle_message(vigil, sentinel, &message),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        ear.messages.hear();
        let _ = vigil.ask(sentinel, ear).await;
    }
}

fn handle_message(vigil: &Vigil, sentinel: &Address, message: &Message) {
    let payload = message.value.as_str();
    let switch = payload.as_deref().and_then(Switch::read);
    if let Some(switch) = switch.filter(|switch| switch.service == service(&vigil.atlas)) {
        vigil.atlas.handle_switch(sentinel, &switch, vigil.lane.clock.now());
    }
}

impl Ear {
    /// Subscribed when this returns.
    async fn open(atlas: &Atlas, lane: OpenLane, sentinel: &Address) -> Result<Self, TransportError> {
        let (questions, messages) = tokio::try_join!(
            open(atlas, sentinel, LinkKind::Commands, lane),
            open(atlas, sentinel, LinkKind::Notices, lane),
        )?;
        let ear = Self { questions, messages, pings: AtomicU64::new(0) };
        let subscribed = async {
            ear.messages.subscribe(vec![Str::from_static("+switch-master")], lane.command_timeout).await?;
            ear.probe().await
        };
        match subscribed.await {
            Ok(()) => Ok(ear),
            Err(failure) => Err(deaf(explain(sentinel, service(atlas), failure))),
        }
    }
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

    async fn probe(&self) -> Result<(), Failure> {
        let number = self.pings.fetch_add(1, Ordering::Relaxed).to_string();
        let args = vec![Value::String(number.clone().into())];
        let frame = self.messages.request("PING", 0, args, PROBE_TIMEOUT).await?;
        if reply::pong(&frame) != Some(&number) {
            self.messages.kill();
        }
        Ok(())
    }
}

/// How soon a sentinel that could not be reached when a lane is opened is asked again.
const PAUSE_REFUSED: Duration = Duration::from_millis(100);
const PERIOD: Duration = Duration::from_secs(5);
const PAUSE_BROKEN: Duration = Duration::from_millis(150);
