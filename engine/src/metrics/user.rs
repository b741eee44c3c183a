//! Calls the user's recorder so that a recorder that panics, blocks or is slow delays no lease.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Ask, AskAnswer, Classes, EngineEvent, Event, LabelSet, LockEvent, Recorder, count::Count};
use crate::{guard, log, transport::TransportError};

/// At most this many events wait for the recorder.
pub const EVENTS_MAX: usize = 1 << 17;

/// Passes every event on to the user's recorder.
pub(crate) struct UserRecorder {
    way: Way,
    state: Arc<State>,
}

/// How events reach the recorder.
enum Way {
    /// In place, where each event happens: an engine on the runtime of a test.
    InPlace(Arc<dyn Recorder>),
    /// On the recorder's own thread.
    Queue(SyncSender<Box<Queued>>),
}

/// What the recorder's thread and the engine share.
struct State {
    classes: Arc<Classes>,
    panicked: AtomicBool,
    dropped: Count,
}

/// An event on its way to the recorder's thread. What the event borrowed is kept beside it: an error, or an address.
enum Queued {
    Lock(LabelSet, LockEvent<'static>, Option<TransportError>),
    Engine(EngineEvent<'static>, Option<TransportError>, Box<str>),
    /// Not an event. The engine waits until it is dropped: then the recorder has received every event before it.
    Mark(#[allow(dead_code, reason = "dropped, to tell its receiver")] oneshot::Sender<()>),
}

impl UserRecorder {
    /// Calls the recorder in place, where each event happens.
    pub(crate) fn in_place(recorder: Arc<dyn Recorder>, classes: Arc<Classes>) -> Self {
        Self { way: Way::InPlace(recorder), state: State::new(classes) }
    }

    /// Calls the recorder on a thread of its own, which ends with the engine.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(crate) fn on_its_thread(recorder: Arc<dyn Recorder>, classes: Arc<Classes>) -> io::Result<Self> {
        let state = State::new(classes);
        let (events, queued) = sync_channel(EVENTS_MAX);
        let shared = state.clone();
        let name = "leasehold-recorder".to_owned();
        thread::Builder::new().name(name).spawn(move || shared.tell_all(&*recorder, &queued))?;
        Ok(Self { way: Way::Queue(events), state })
    }

    /// Whether the recorder panicked and is not called any more.
    pub(crate) fn has_panicked(&self) -> bool {
        self.state.panicked.load(Ordering::Relaxed)
    }

    /// How many events the recorder has missed.
    pub(crate) fn dropped(&self) -> u64 {
        self.state.dropped.value()
    }

    /// Resolves when the recorder has received every event from before this call. It does not
    /// resolve while the recorder blocks.
    pub(crate) async fn caught_up(&self) {
        let Way::Queue(events) = &self.way else { return };
        let (mark, told) = oneshot::channel();
        let mut mark = Box::new(Queued::Mark(mark));
        while let Err(TrySendError::Full(refused)) = events.try_send(mark) {
            mark = refused;
            tokio::time::sleep(GATHER).await;
        }
        let _: Result<(), _> = told.await;
    }

    // Not inlined: engines without a recorder keep the code of their events short.
    /// Tells the recorder, or queues the event for its thread.
    #[cold]
    #[inline(never)]
    pub(super) fn record(&self, event: Event<'_>) {
        if self.has_panicked() {
            return self.state.dropped.add(1);
        }
        match &self.way {
            Way::InPlace(recorder) => self.state.call(&**recorder, &event),
            Way::Queue(events) if events.try_send(Box::new(Queued::of(event))).is_err() => {
                self.state.dropped.add(1);
            }
            Way::Queue(_) => {}
        }
    }
}

impl Queued {
    fn of(event: Event<'_>) -> Self {
        match event {
            Event::Lock(lock, event) => {
                let (event, error) = detach_lock(event);
                Self::Lock(lock.set(), event, error.cloned())
            }
            Event::Engine(event) => {
                let (event, error, address) = detach_engine(event);
                Self::Engine(event, error.cloned(), address.into())
            }
        }
    }

    fn attach<'a>(&'a self, classes: &'a Classes) -> Option<Event<'a>> {
        match self {
            Self::Lock(labels, event, error) => {
                Some(Event::Lock(classes.labels(*labels), attach_lock(*event, error.as_ref())))
            }
            Self::Engine(event, error, address) => {
                Some(Event::Engine(attach_engine(*event, error.as_ref(), address)))
            }
            Self::Mark(_) => None,
        }
    }
}

// The error, and the event without it.
fn detach_lock(event: LockEvent<'_>) -> (LockEvent<'static>, Option<&TransportError>) {
    let event = match event {
        LockEvent::Failed { last_error } => return (LockEvent::Failed { last_error: None }, last_error),
        LockEvent::Asked(ask) => {
            let Ask { cause, took, since_notice, answer } = ask;
            let unanswered = AskAnswer::TooLate; // in the place of the error
            let kept = Ask { cause, took, since_notice, answer: Ok(answer.unwrap_or(unanswered)) };
            return (LockEvent::Asked(kept), answer.err());
        }
        LockEvent::WaitStarted => LockEvent::WaitStarted,
        LockEvent::Granted { waited, contended } => LockEvent::Granted { waited, contended },
        LockEvent::Shared => LockEvent::Shared,
        LockEvent::Refused => LockEvent::Refused,
        LockEvent::TimedOut { waited } => LockEvent::TimedOut { waited },
        LockEvent::Cancelled => LockEvent::Cancelled,
        LockEvent::Released { held, outcome } => LockEvent::Released { held, outcome },
        LockEvent::Lost { reason, token, held, late } => LockEvent::Lost { reason, token, held, late },
        LockEvent::Jeopardy => LockEvent::Jeopardy,
        LockEvent::Renewal { outcome, count } => LockEvent::Renewal { outcome, count },
        LockEvent::MarginLeft { share } => LockEvent::MarginLeft { share },
        LockEvent::FoundTtl { found, least, most } => LockEvent::FoundTtl { found, least, most },
        LockEvent::TermBegan => LockEvent::TermBegan,
        LockEvent::TermEnded { end, led } => LockEvent::TermEnded { end, led },
        LockEvent::JobEnded { end } => LockEvent::JobEnded { end },
    };
    (event, None)
}

fn attach_lock<'a>(event: LockEvent<'static>, error: Option<&'a TransportError>) -> LockEvent<'a> {
    match (event, error) {
        (LockEvent::Failed { .. }, last_error) => LockEvent::Failed { last_error },
        (LockEvent::Asked(ask), Some(error)) => LockEvent::Asked(Ask { answer: Err(error), ..ask }),
        (event, _) => event,
    }
}

// The error and the address, and the event without them.
fn detach_engine(event: EngineEvent<'_>) -> (EngineEvent<'static>, Option<&TransportError>, &str) {
    let event = match event {
        EngineEvent::Answered { operation, took, last_error } => {
            return (EngineEvent::Answered { operation, took, last_error: None }, last_error, "");
        }
        EngineEvent::NodeChanged { address, connected } => {
            return (EngineEvent::NodeChanged { address: "", connected }, None, address);
        }
        EngineEvent::Reconnected { address } => {
            return (EngineEvent::Reconnected { address: "" }, None, address);
        }
        EngineEvent::GrantWithoutCaller => EngineEvent::GrantWithoutCaller,
        EngineEvent::RenewalBatch { members, took, answered } => {
            EngineEvent::RenewalBatch { members, took, answered }
        }
        EngineEvent::RenewalLate { late } => EngineEvent::RenewalLate { late },
        EngineEvent::CounterCall { counter, outcome, waited } => {
            EngineEvent::CounterCall { counter, outcome, waited }
        }
        EngineEvent::GroupCommit { calls } => EngineEvent::GroupCommit { calls },
        EngineEvent::NoExpiry => EngineEvent::NoExpiry,
        EngineEvent::SubscriptionGap => EngineEvent::SubscriptionGap,
        EngineEvent::PlaceLost => EngineEvent::PlaceLost,
        EngineEvent::Closing { begins } => EngineEvent::Closing { begins },
        EngineEvent::CompositionEnded { composition, outcome } => {
            EngineEvent::CompositionEnded { composition, outcome }
        }
        EngineEvent::TimerLate { thread, late } => EngineEvent::TimerLate { thread, late },
    };
    (event, None, "")
}

fn attach_engine<'a>(
    event: EngineEvent<'static>,
    last_error: Option<&'a TransportError>,
    address: &'a str,
) -> EngineEvent<'a> {
    match event {
        EngineEvent::Answered { operation, took, .. } => {
            EngineEvent::Answered { operation, took, last_error }
        }
        EngineEvent::NodeChanged { connected, .. } => EngineEvent::NodeChanged { address, connected },
        EngineEvent::Reconnected { .. } => EngineEvent::Reconnected { address },
        event => event,
    }
}

impl State {
    fn new(classes: Arc<Classes>) -> Arc<Self> {
        Arc::new(Self { classes, panicked: AtomicBool::new(false), dropped: Count::default() })
    }

    // The thread sleeps after each round, so that it is woken once for many events: a wake-up costs the engine's
    // threads more than an event.
    fn tell_all(&self, recorder: &dyn Recorder, queued: &Receiver<Box<Queued>>) {
        while let Ok(event) = queued.recv() {
            self.tell(recorder, event);
            queued.try_iter().for_each(|event| self.tell(recorder, event));
            thread::sleep(GATHER);
        }
    }

    fn tell(&self, recorder: &dyn Recorder, queued: Box<Queued>) {
        match (queued.attach(&self.classes), self.panicked.load(Ordering::Relaxed)) {
            (Some(_), true) => self.dropped.add(1),
            (Some(event), false) => self.call(recorder, &event),
            (None, _) => drop(guard::call(|| drop(queued))), // dropping a mark wakes its task, whose waker may panic
        }
    }

    fn call(&self, recorder: &dyn Recorder, event: &Event<'_>) {
        if guard::call(|| recorder.record(event)).is_some() {
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

/// How long the recorder's thread lets events gather.
const GATHER: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        future::Future,
        pin::pin,
        task::{Context, Wake, Waker},
    };

    use super::*;
    use crate::{
        metrics::{AskCause, Operation},
        transport::ErrorKind,
    };

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }

    struct Silent;

    impl Recorder for Silent {
        fn record(&self, _: &Event<'_>) {}
    }

    #[test]
    fn a_waker_that_panics_does_not_end_the_thread_of_the_recorder() {
        let (events, queued) = sync_channel(2);
        let (mark, told) = oneshot::channel();
        let mut told = pin!(told);
        let waker = Waker::from(Arc::new(Panics));
        assert!(told.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        events.send(Box::new(Queued::Mark(mark))).unwrap();
        events.send(Box::new(Queued::of(Event::Engine(EngineEvent::NoExpiry)))).unwrap();
        drop(events);
        let state = State::new(Arc::new(Classes::new(&BTreeMap::new())));
        assert_eq!(guard::call(|| state.tell_all(&Silent, &queued)), Some(()));
        assert_eq!(state.dropped.value(), 0, "the recorder heard the event behind the mark");
    }

    #[test]
    fn a_queued_event_is_told_as_it_happened() {
        let classes = Classes::new(&BTreeMap::new());
        let error = TransportError::without_effect(ErrorKind::Denied, None, "no right");
        let (took, since_notice) = (Duration::from_millis(1), None);
        let ask = |answer| LockEvent::Asked(Ask { cause: AskCause::Arrival, took, answer, since_notice });
        let answered = |last_error| EngineEvent::Answered { operation: Operation::Release, took, last_error };
        let of_lock =
            [LockEvent::Failed { last_error: Some(&error) }, ask(Err(&error)), ask(Ok(AskAnswer::Held))];
        let of_engine = [
            answered(Some(&error)),
            answered(None),
            EngineEvent::NodeChanged { address: "redis:1", connected: true },
            EngineEvent::Reconnected { address: "redis:1" },
        ];
        let lock = classes.labels(LabelSet::DEFAULT);
        let of_lock = of_lock.into_iter().map(|event| Event::Lock(lock, event));
        for event in of_lock.chain(of_engine.into_iter().map(Event::Engine)) {
            let queued = Queued::of(event);
            let told = queued.attach(&classes).expect("an event");
            assert_eq!(format!("{told:?}"), format!("{event:?}"));
        }
    }
}
