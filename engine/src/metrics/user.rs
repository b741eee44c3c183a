//! The user's recorder, called so that it harms no lease: it can panic, block or be slow.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    Ask, Classes, EngineThread, LockClass, Operation, Recorder, ReleaseOutcome, RenewalOutcome, events::Count,
};
use crate::{fencing::FencingToken, guard, lease::state::LossReason, log, transport::TransportError};

/// How many events wait for the recorder at most.
pub const EVENTS_MAX: usize = 1 << 17;

/// Passes every event on to the user's recorder.
pub(crate) struct UserRecorder {
    way: Way,
    state: Arc<State>,
}

/// How events reach the recorder.
enum Way {
    /// Where they happen: an engine on the runtime of a test.
    InPlace(Arc<dyn Recorder>),
    /// On a thread of their own.
    Queue(SyncSender<Event>),
}

/// What the recorder's thread and the engine share.
struct State {
    classes: Arc<Classes>,
    panicked: AtomicBool,
    dropped: Count,
}

type Event = Box<dyn FnOnce(&dyn Recorder, &Classes) + Send>;

impl UserRecorder {
    /// Calls the recorder where events happen.
    pub(crate) fn in_place(recorder: Arc<dyn Recorder>, classes: Arc<Classes>) -> Self {
        Self { way: Way::InPlace(recorder), state: State::new(classes) }
    }

    /// Calls the recorder on a thread of its own, which ends with the engine.
    ///
    /// # Errors
    /// No thread is to be had.
    pub(crate) fn on_its_thread(recorder: Arc<dyn Recorder>, classes: Arc<Classes>) -> io::Result<Self> {
        let state = State::new(classes);
        let (events, queued) = sync_channel(EVENTS_MAX);
        let shared = state.clone();
        let name = "leasehold-recorder".to_owned();
        thread::Builder::new().name(name).spawn(move || shared.tell_all(&*recorder, &queued))?;
        Ok(Self { way: Way::Queue(events), state })
    }

    /// Whether it panicked and is not called any more.
    pub(crate) fn has_panicked(&self) -> bool {
        self.state.panicked.load(Ordering::Relaxed)
    }

    /// How many events it was not told.
    pub(crate) fn dropped(&self) -> u64 {
        self.state.dropped.value()
    }

    /// Resolves when the recorder has been told everything that happened before this call. Not while it blocks.
    pub(crate) async fn caught_up(&self) {
        let Way::Queue(events) = &self.way else { return };
        let (tell, told) = oneshot::channel();
        let mut mark: Event = Box::new(move |_, _| drop(tell));
        while let Err(std::sync::mpsc::TrySendError::Full(refused)) = events.try_send(mark) {
            mark = refused;
            tokio::time::sleep(BREATH).await;
        }
        let _: Result<(), _> = told.await;
    }

    fn tell(&self, event: impl FnOnce(&dyn Recorder, &Classes) + Send + 'static) {
        if self.has_panicked() {
            return self.state.dropped.add(1);
        }
        match &self.way {
            Way::InPlace(recorder) => self.state.call(&**recorder, event),
            Way::Queue(events) if events.try_send(Box::new(event)).is_err() => self.state.dropped.add(1),
            Way::Queue(_) => {}
        }
    }

    fn tell_class(&self, class: &LockClass, event: impl FnOnce(&dyn Recorder, &LockClass) + Send + 'static) {
        let class = class.id();
        self.tell(move |recorder, classes| event(recorder, classes.class(class)));
    }
}

impl State {
    fn new(classes: Arc<Classes>) -> Arc<Self> {
        Arc::new(Self { classes, panicked: AtomicBool::new(false), dropped: Count::default() })
    }

    // Woken once for all that has come in a while: a wake-up costs the engine's threads more than an event.
    fn tell_all(&self, recorder: &dyn Recorder, queued: &Receiver<Event>) {
        while let Ok(event) = queued.recv() {
            self.call_queued(recorder, event);
            queued.try_iter().for_each(|event| self.call_queued(recorder, event));
            thread::sleep(BREATH);
        }
    }

    fn call_queued(&self, recorder: &dyn Recorder, event: Event) {
        match self.panicked.load(Ordering::Relaxed) {
            true => self.dropped.add(1),
            false => self.call(recorder, event),
        }
    }

    fn call(&self, recorder: &dyn Recorder, event: impl FnOnce(&dyn Recorder, &Classes)) {
        if guard::call(|| event(recorder, &self.classes)).is_some() {
            return;
        }
        self.dropped.add(1);
        if !self.panicked.swap(true, Ordering::Relaxed) {
            log::line(tracing::Level::ERROR, || {
                tracing::error!("the recorder panicked and is not called any more; its numbers stand still");
            });
        }
    }
}

impl Recorder for UserRecorder {
    fn wait_started(&self, class: &LockClass) {
        self.tell_class(class, |user, class| user.wait_started(class));
    }
    fn granted(&self, class: &LockClass, waited: Duration, contended: bool) {
        self.tell_class(class, move |user, class| user.granted(class, waited, contended));
    }
    fn shared(&self, class: &LockClass) {
        self.tell_class(class, |user, class| user.shared(class));
    }
    fn refused(&self, class: &LockClass) {
        self.tell_class(class, |user, class| user.refused(class));
    }
    fn timed_out(&self, class: &LockClass, waited: Duration) {
        self.tell_class(class, move |user, class| user.timed_out(class, waited));
    }
    fn failed(&self, class: &LockClass, last_error: Option<&TransportError>) {
        let last_error = last_error.cloned();
        self.tell_class(class, move |user, class| user.failed(class, last_error.as_ref()));
    }
    fn cancelled(&self, class: &LockClass) {
        self.tell_class(class, |user, class| user.cancelled(class));
    }
    fn grant_without_caller(&self) {
        self.tell(|user, _| user.grant_without_caller());
    }
    fn asked(&self, class: &LockClass, ask: &Ask<'_>) {
        let Ask { cause, took, since_notice, .. } = *ask;
        let answer = ask.answer.map_err(TransportError::clone);
        self.tell_class(class, move |user, class| {
            let answer = answer.as_ref().copied();
            user.asked(class, &Ask { cause, took, answer, since_notice });
        });
    }
    fn answered(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {
        let last_error = last_error.cloned();
        self.tell(move |user, _| user.answered(operation, took, last_error.as_ref()));
    }
    fn released(&self, class: &LockClass, held: Duration, outcome: ReleaseOutcome) {
        self.tell_class(class, move |user, class| user.released(class, held, outcome));
    }
    fn lost(
        &self,
        class: &LockClass,
        reason: LossReason,
        token: FencingToken,
        held: Duration,
        late: Option<Duration>,
    ) {
        self.tell_class(class, move |user, class| user.lost(class, reason, token, held, late));
    }
    fn jeopardy(&self, class: &LockClass) {
        self.tell_class(class, |user, class| user.jeopardy(class));
    }
    fn renewed(&self, members: usize, took: Duration, answered: bool) {
        self.tell(move |user, _| user.renewed(members, took, answered));
    }
    fn renewal(&self, class: &LockClass, outcome: RenewalOutcome, count: u64) {
        self.tell_class(class, move |user, class| user.renewal(class, outcome, count));
    }
    fn margin_left(&self, class: &LockClass, share: f64) {
        self.tell_class(class, move |user, class| user.margin_left(class, share));
    }
    fn renewal_late(&self, late: Duration) {
        self.tell(move |user, _| user.renewal_late(late));
    }
    fn found_ttl(&self, class: &LockClass, found: Duration, least: Duration, most: Duration) {
        self.tell_class(class, move |user, class| user.found_ttl(class, found, least, most));
    }
    fn no_expiry(&self) {
        self.tell(|user, _| user.no_expiry());
    }
    fn subscription_gap(&self) {
        self.tell(|user, _| user.subscription_gap());
    }
    fn node_changed(&self, address: &str, connected: bool) {
        let address: Box<str> = address.into();
        self.tell(move |user, _| user.node_changed(&address, connected));
    }
    fn reconnected(&self, address: &str) {
        let address: Box<str> = address.into();
        self.tell(move |user, _| user.reconnected(&address));
    }
    fn closing(&self, begins: bool) {
        self.tell(move |user, _| user.closing(begins));
    }
    fn timer_late(&self, thread: EngineThread, late: Duration) {
        self.tell(move |user, _| user.timer_late(thread, late));
    }
}

/// How long the recorder's thread lets events gather.
const BREATH: Duration = Duration::from_millis(5);
