use std::{fmt, sync::Arc};

use super::{
    Classes, Elections, EngineEvent, Event, LabelSet, LockEvent, LockLabels, Numbers, RenewalOutcome,
    UserRecorder, count::Count,
};

/// Where the engine records its events. Each event is counted here and nowhere else: in the totals of `snapshot()`, in
/// the metrics, and by the user's recorder.
#[derive(Clone)]
pub(crate) struct Events {
    user: Option<Arc<UserRecorder>>,
    pub(crate) classes: Arc<Classes>,
    pub(crate) numbers: Option<Arc<Numbers>>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) elections: Arc<Elections>,
}

/// Counters since the engine was built, and the gauges that are kept rather than computed.
///
/// `Events` counts each event. The code around the events counts the rest: `callers` and `served`, which have no event;
/// an ask when it is sent and a release when it begins, before their events; and each lease that is taken or given back
/// in `held`, because a limit depends on it.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) granted: Count,
    pub(crate) released: Count,
    pub(crate) lost: Count,
    pub(crate) jeopardies: Count,
    pub(crate) renewals: Count,
    pub(crate) renewals_failed: Count,
    pub(crate) held: Count,
    pub(crate) callers: Count,
    pub(crate) closing: Count,
    pub(crate) asks: Count,
    /// Entries that a driver serves: names with waiting callers.
    pub(crate) served: Count,
}

impl Totals {
    #[inline(always)]
    fn count_lock(&self, event: &LockEvent<'_>) {
        match event {
            LockEvent::Granted { .. } => self.granted.add(1),
            LockEvent::Lost { .. } => {
                self.held.sub(1);
                self.lost.add(1);
            }
            LockEvent::Jeopardy => self.jeopardies.add(1),
            LockEvent::Renewal { outcome, count } => match outcome {
                RenewalOutcome::Renewed => self.renewals.add(*count),
                RenewalOutcome::TooLate | RenewalOutcome::Failed(_) => self.renewals_failed.add(*count),
                RenewalOutcome::NotOurs => {} // counts as lost
            },
            _ => {}
        }
    }

    #[inline(always)]
    fn count_engine(&self, event: &EngineEvent<'_>) {
        match event {
            EngineEvent::Closing { begins: true } => self.closing.add(1),
            EngineEvent::Closing { begins: false } => self.closing.sub(1),
            _ => {}
        }
    }
}

impl Events {
    pub(crate) fn new(
        user: Option<Arc<UserRecorder>>,
        numbers: Option<Arc<Numbers>>,
        classes: Arc<Classes>,
    ) -> Self {
        Self { user, classes, numbers, totals: Arc::default(), elections: Arc::default() }
    }

    // Inlined, so that of each `match` only the arm of the caller's event is left.
    /// Records an event of one lock.
    #[inline(always)]
    pub(crate) fn record_lock(&self, labels: LabelSet, event: LockEvent<'_>) {
        self.totals.count_lock(&event);
        if let Some(numbers) = &self.numbers {
            numbers.count_lock(self.labels(labels), &event);
        }
        if let Some(user) = &self.user {
            user.record(Event::Lock(self.labels(labels), event));
        }
    }

    /// Records an event that belongs to no single lock.
    #[inline(always)]
    pub(crate) fn record_engine(&self, event: EngineEvent<'_>) {
        self.totals.count_engine(&event);
        if let Some(numbers) = &self.numbers {
            numbers.count_engine(&event);
        }
        if let Some(user) = &self.user {
            user.record(Event::Engine(event));
        }
    }

    /// Whether the user's recorder panicked and is not called any more.
    pub(crate) fn recorder_panicked(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.has_panicked())
    }

    /// How many events the user's recorder has missed.
    pub(crate) fn dropped(&self) -> u64 {
        self.user.as_ref().map_or(0, |user| user.dropped())
    }

    /// Resolves when the user's recorder has received every event from before this call.
    pub(crate) async fn caught_up(&self) {
        if let Some(user) = &self.user {
            user.caught_up().await;
        }
    }

    pub(crate) fn labels(&self, labels: LabelSet) -> LockLabels<'_> {
        self.classes.labels(labels)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.totals.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Mutex, time::Duration};

    use super::*;
    use crate::metrics::{
        Recorder,
        descriptors::{ACQUIRES, RENEWALS},
    };

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl Recorder for Heard {
        fn record(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }

    fn events(heard: &Heard) -> Events {
        let classes = Arc::new(Classes::new(&BTreeMap::new()));
        let user = UserRecorder::in_place(Arc::new(heard.clone()), classes.clone());
        Events::new(Some(Arc::new(user)), Some(Arc::new(Numbers::new())), classes)
    }

    #[test]
    fn an_event_counts_once_in_the_totals_the_metrics_and_the_recorder() {
        let heard = Heard::default();
        let events = events(&heard);
        let waited = Duration::from_millis(1);
        events.record_lock(LabelSet::DEFAULT, LockEvent::Granted { waited, contended: false });
        let renewal = LockEvent::Renewal { outcome: RenewalOutcome::Renewed, count: 5 };
        events.record_lock(LabelSet::DEFAULT, renewal);
        events.record_engine(EngineEvent::Closing { begins: true });
        let totals = &events.totals;
        assert_eq!([&totals.granted, &totals.renewals, &totals.closing].map(Count::value), [1, 5, 1]);
        let numbers = events.numbers.as_ref().unwrap();
        let lock = Some(events.labels(LabelSet::DEFAULT));
        assert_eq!([ACQUIRES, RENEWALS].map(|metric| numbers.count(&metric, lock, 0)), [1, 5]);
        let heard = heard.0.lock().unwrap();
        assert_eq!(heard.len(), 3);
        assert!(heard[0].starts_with("Lock(LockLabels") && heard[0].contains("kind: Exclusive"), "{heard:?}");
    }
}
