use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{ClassId, Classes, LockClass, Numbers, Recorder, UserRecorder};

/// Where the engine's code tells its events: the user's recorder, the numbers, and the totals of `snapshot()`.
#[derive(Clone)]
pub(crate) struct Events {
    recorder: Arc<dyn Recorder>,
    user: Option<Arc<UserRecorder>>,
    pub(crate) classes: Arc<Classes>,
    pub(crate) numbers: Option<Arc<Numbers>>,
    pub(crate) totals: Arc<Totals>,
}

/// Counters since the engine was built, and the gauges that are kept rather than computed.
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
    /// Entries that a driver serves: names that somebody here waits for.
    pub(crate) served: Count,
}

/// One number that many threads change.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Adds one. The value before.
    pub(crate) fn add_one(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds one unless it is `most` already.
    pub(crate) fn add_one_up_to(&self, most: u64) -> bool {
        let up =
            |value: u64| (value < most || i64::try_from(value).is_err()).then_some(value.wrapping_add(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, up).is_ok()
    }

    pub(crate) fn sub(&self, by: u64) {
        self.0.fetch_sub(by, Ordering::Relaxed);
    }

    /// Who takes a share back may come before who gave it; for that moment the number is below zero, told as zero.
    pub(crate) fn value(&self) -> u64 {
        let value = self.0.load(Ordering::Relaxed);
        if i64::try_from(value).is_ok() { value } else { 0 }
    }
}

struct Silent;
impl Recorder for Silent {}

impl Events {
    pub(crate) fn new(
        user: Option<Arc<UserRecorder>>,
        numbers: Option<Arc<Numbers>>,
        classes: Arc<Classes>,
    ) -> Self {
        let recorder: Arc<dyn Recorder> = match (user.clone(), numbers.clone()) {
            (None, None) => Arc::new(Silent),
            (Some(user), None) => user,
            (None, Some(numbers)) => numbers,
            (Some(user), Some(numbers)) => Arc::new(super::numbers::Tee { numbers, user }),
        };
        Self { recorder, user, classes, numbers, totals: Arc::default() }
    }

    /// Whether the user's recorder panicked and is not called any more.
    pub(crate) fn recorder_panicked(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.has_panicked())
    }

    /// How many events the user's recorder was not told.
    pub(crate) fn dropped(&self) -> u64 {
        self.user.as_ref().map_or(0, |user| user.dropped())
    }

    /// Resolves when the user's recorder has been told everything that happened before this call.
    pub(crate) async fn caught_up(&self) {
        if let Some(user) = &self.user {
            user.caught_up().await;
        }
    }

    pub(crate) fn class(&self, id: ClassId) -> &LockClass {
        self.classes.class(id)
    }
}

impl Deref for Events {
    type Target = dyn Recorder;
    fn deref(&self) -> &Self::Target {
        &*self.recorder
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.totals.fmt(f)
    }
}
