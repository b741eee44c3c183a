//! Many locks asked for, or given back, in one call: how many of them are under way on each node, and what waits for it.
//!
//! A list of 100,000 names must not put 100,000 commands in front of the next single caller, so each node has so many
//! rooms (`bulk_in_flight_max`), for all lists together. An acquire keeps its room until its first definite answer: who
//! waits for a lock that is held occupies none. A release keeps it until it is answered. A room that gets free goes to
//! who waits longest for that node.
//!
//! A node that has answered nothing from its rooms for `unavailable_after` would take that long again for each further
//! round. So what waits in front of it is told `Unavailable` as well; releases are left to the closer.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{
    arrival::{self, Asked, Call},
    caller::{CallerId, Patience},
    release::{self, UnderWay},
    seat::{ListSender, PlaceInList, Seat},
    wards::Wards,
};
use crate::{
    clock::Instant,
    error::{AcquireError, ReleaseError},
    key::LockKey,
    lease::shared::{LeaseCore, Terms},
    metrics::ClassId,
    routing::{slot::Slot, topology::NodeId},
    supervisor,
    transport::TransportError,
    works::Works,
};

/// The rooms of all nodes, and who waits for one.
#[derive(Debug)]
pub(crate) struct Rooms {
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Debug)]
struct Inner {
    /// To be looked at: new, or in front of a node that has room now.
    ready: VecDeque<Guest>,
    wards: Wards<Guest>,
    /// Since when each node has said nothing definite from its rooms.
    silent_since: HashMap<Option<NodeId>, Instant>,
    topology_epoch: Option<u64>,
    closed: bool,
}

/// What wants a room.
#[derive(Debug)]
pub(crate) enum Guest {
    Acquire(Arrival),
    Release(Departure),
}

/// One name of a list that is asked for.
pub(crate) struct Arrival {
    pub(crate) key: Arc<LockKey>,
    pub(crate) place: usize,
    pub(crate) list: Arc<List>,
}

/// What the names of a list have in common.
pub(crate) struct List {
    pub(crate) terms: Terms,
    /// What all names count as; `None`: each as the rules say.
    pub(crate) class: Option<ClassId>,
    pub(crate) asked: Asked,
    /// Counted for each name from when it is queued.
    pub(crate) wait: Option<Duration>,
    /// The caller of its first name; the others follow.
    pub(crate) first: CallerId,
    pub(crate) answers_to: ListSender,
}

/// One lease of many that has ended and is to be released.
pub(crate) struct Departure {
    pub(crate) under_way: UnderWay,
    pub(crate) lease: Arc<LeaseCore>,
    pub(crate) answer_to: oneshot::Sender<Result<(), ReleaseError>>,
}

/// A room that is occupied. Dropping it leaves it.
pub(crate) struct Room {
    works: Arc<Works>,
    node: Option<NodeId>,
    last_error: Option<Box<TransportError>>,
}

impl Rooms {
    /// So many on each node.
    pub(crate) fn new(most: usize) -> Self {
        let inner = Inner {
            ready: VecDeque::new(),
            wards: Wards::new(most),
            silent_since: HashMap::new(),
            topology_epoch: None,
            closed: false,
        };
        Self { inner: Mutex::new(inner), news: Notify::new() }
    }

    /// Takes them in, in this order; after the end of the engine, nobody.
    pub(crate) fn add(&self, guests: impl IntoIterator<Item = Guest>) {
        let mut guests: VecDeque<Guest> = guests.into_iter().collect();
        let mut inner = self.lock();
        if !inner.closed {
            inner.ready.append(&mut guests);
        }
        drop(inner);
        guests.into_iter().for_each(Guest::turn_away);
        self.news.notify_one();
    }

    /// Acquires that have not begun never will; their callers are told.
    pub(crate) fn turn_away(&self) {
        let mut inner = self.lock();
        let (releases, acquires): (Vec<_>, Vec<_>) =
            inner.take_all().into_iter().partition(|guest| matches!(guest, Guest::Release(_)));
        inner.ready.extend(releases);
        drop(inner);
        acquires.into_iter().for_each(Guest::turn_away);
        self.news.notify_one();
    }

    fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let rest = inner.take_all();
        drop(inner);
        rest.into_iter().for_each(Guest::turn_away);
    }

    fn take_next(&self, works: &Arc<Works>) -> Option<(Guest, Room)> {
        let (topology, now) = (works.calls.topology(), works.clock.now());
        let mut inner = self.lock();
        inner.handle_topology(topology.as_ref().map(|topology| topology.epoch()));
        while let Some(guest) = inner.ready.pop_front() {
            let node = topology.as_ref().and_then(|topology| topology.serving(guest.slot()));
            let node = node.map(|node| node.id);
            if let Some(guest) = inner.enter(node, guest, now) {
                return Some((guest, Room { works: works.clone(), node, last_error: None }));
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    // Who waits in front of a node may find room at another one.
    fn handle_topology(&mut self, epoch: Option<u64>) {
        if std::mem::replace(&mut self.topology_epoch, epoch) != epoch {
            let waiting = self.wards.take_waiting();
            self.ready.extend(waiting);
        }
    }

    fn enter(&mut self, node: Option<NodeId>, guest: Guest, now: Instant) -> Option<Guest> {
        self.silent_since.entry(node).or_insert(now);
        self.wards.enter(node, guest)
    }

    fn leave(&mut self, node: Option<NodeId>) {
        match self.wards.leave(node) {
            Some(next) => self.ready.push_front(next),
            None if self.wards.is_empty(node) => drop(self.silent_since.remove(&node)),
            None => {}
        }
    }

    // Who waits for a node that has been silent for so long.
    fn take_hopeless(&mut self, node: Option<NodeId>, now: Instant, patience: Duration) -> Vec<Guest> {
        let silent = self.silent_since.get(&node).is_some_and(|since| now - *since >= patience);
        if silent { self.wards.take_waiting_at(node) } else { Vec::new() }
    }

    fn take_all(&mut self) -> VecDeque<Guest> {
        let waiting = self.wards.take_waiting();
        let mut all = std::mem::take(&mut self.ready);
        all.extend(waiting);
        all
    }
}

impl Guest {
    fn slot(&self) -> Slot {
        match self {
            Self::Acquire(arrival) => arrival.key.slot(),
            Self::Release(departure) => departure.lease.key.slot(),
        }
    }

    fn begin(self, works: &Arc<Works>, room: Room) {
        match self {
            Self::Acquire(arrival) => arrival.begin(works, room),
            Self::Release(departure) => departure.begin(works, room),
        }
    }

    // A seat or a release that is dropped tells whoever waits for it.
    fn turn_away(self) {
        match self {
            Self::Acquire(arrival) => drop(arrival.seat(Instant::default())),
            Self::Release(departure) => drop(departure),
        }
    }

    fn give_up(self, works: &Arc<Works>, last_error: TransportError) {
        match self {
            Self::Acquire(arrival) => {
                let after = works.config.unavailable_after();
                arrival
                    .seat(works.clock.now())
                    .tell(Err(AcquireError::Unavailable { after, last_error: Some(last_error) }));
            }
            Self::Release(Departure { under_way, lease, answer_to }) => {
                let _ = answer_to.send(release::give_up(under_way, &lease, last_error));
                works.table.with(&lease.key, |slot| slot.poke());
            }
        }
    }
}

impl Arrival {
    fn seat(&self, joined: Instant) -> PlaceInList {
        PlaceInList::new(self.place, joined, self.list.answers_to.clone())
    }

    // Its ask goes out in a task of its own, which keeps the room.
    fn begin(self, works: &Arc<Works>, room: Room) {
        self.queue_up(works, false, Some(room));
    }

    /// Queues it. `ahead`: at the head, because a grant came too late for it.
    pub(crate) fn queue_up(self, works: &Arc<Works>, ahead: bool, room: Option<Room>) {
        let now = works.clock.now();
        let mut seat = Some(Seat::InList(self.seat(now)));
        let id = self.list.caller(self.place);
        let call = self.call(works, now);
        let queued = arrival::queue_up(works, &call, (id, &mut seat), ahead, room);
        if let (Err(error), Some(Seat::InList(place))) = (queued, seat) {
            place.tell(Err(error));
        }
    }

    fn call(self, works: &Works, now: Instant) -> Call {
        let List { terms, asked, wait, .. } = *self.list;
        let terms = Terms { class: self.list.class_of(works, &self.key), ..terms };
        let patience = Patience::Wait(wait.map(|time| now + time));
        Call { key: self.key, terms, asked, patience, scope: None, joined: now }
    }
}

impl List {
    /// What this name of it counts as.
    pub(crate) fn class_of(&self, works: &Works, key: &LockKey) -> ClassId {
        self.class.unwrap_or_else(|| works.events.classes.by_rule(key.name()))
    }

    /// The caller of the name at this place.
    pub(crate) fn caller(&self, place: usize) -> CallerId {
        CallerId(self.first.0 + place as u64)
    }
}

impl Departure {
    fn begin(self, works: &Arc<Works>, room: Room) {
        let Self { under_way, lease, answer_to } = self;
        let key = lease.key.clone();
        works.spawn(async move {
            let result = release::send(under_way, &lease).await;
            let last_error = match &result {
                Err(ReleaseError::Unknown { last_error, .. }) => last_error.clone().map(Box::new),
                Ok(()) | Err(ReleaseError::AlreadyLost(_) | ReleaseError::ReleasedOrLost) => None,
            };
            drop(room.after(last_error));
            let _ = answer_to.send(result);
        });
        // The next caller is asked for behind the release, on the same connection.
        works.table.with(&key, |slot| slot.poke());
    }
}

impl Room {
    /// What a send has come to: with a definite answer the room is free.
    pub(crate) fn after(mut self, last_error: Option<Box<TransportError>>) -> Option<Self> {
        self.last_error = last_error;
        Some(self).filter(Self::is_troubled)
    }

    /// Whether the last send was not answered.
    pub(crate) fn is_troubled(&self) -> bool {
        self.last_error.is_some()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let (works, node, now) = (&self.works, self.node, self.works.clock.now());
        let mut inner = works.rooms.lock();
        let hopeless = match &self.last_error {
            Some(_) => inner.take_hopeless(node, now, works.config.unavailable_after()),
            None => {
                inner.silent_since.insert(node, now);
                Vec::new()
            }
        };
        inner.leave(node);
        drop(inner);
        works.rooms.news.notify_one();
        if let Some(last_error) = self.last_error.take() {
            hopeless.into_iter().for_each(|guest| guest.give_up(works, (*last_error).clone()));
        }
    }
}

/// Serves the rooms until the engine has ended. One task, on the calls thread.
pub(crate) async fn run(works: Arc<Works>) {
    let _closing = ClosesRooms(works.clone());
    supervisor::run(works, "bulk calls", serve).await;
}

async fn serve(works: Arc<Works>) {
    let mut begun = 0_usize;
    loop {
        while let Some((guest, room)) = works.rooms.take_next(&works) {
            guest.begin(&works, room);
            begun += 1;
            if begun % BREATH == 0 {
                tokio::task::yield_now().await;
            }
        }
        tokio::select! {
            () = works.rooms.news.notified() => {}
            () = works.calls.topology_changed() => {}
        }
    }
}

struct ClosesRooms(Arc<Works>);

impl Drop for ClosesRooms {
    fn drop(&mut self) {
        self.0.rooms.close();
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arrival({:?})", self.key)
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Departure({:?})", self.lease.key)
    }
}

/// So many are begun in one go; then the thread's other tasks have their turn.
const BREATH: usize = 64;
