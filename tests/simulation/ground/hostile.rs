//! User code that panics, blocks and is slow, under every test of this binary: a `tracing` subscriber for the process, and
//! a recorder for each engine that a test gives none. No result of any test may depend on them.
//!
//! What an engine gets is a matter of its test's name and of how many the test has built before: the same in each run.

use std::{
    cell::Cell,
    hash::{DefaultHasher, Hash, Hasher},
    panic::resume_unwind,
    sync::{
        Once,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use leasehold::{EngineBuilder, Recorder, clock::Clock};
use leasehold_tests::every_event::EveryEvent;
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter, span, subscriber::Interest};

/// A builder with the recorder that is this engine's lot; the subscriber is there from now on.
pub fn beset(builder: EngineBuilder) -> EngineBuilder {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        tracing::subscriber::set_global_default(Panics::default()).expect("the only one");
    });
    match lot() % 4 {
        0 => builder.recorder(at_event(lot() % 40, || resume_unwind(Box::new("a recorder that panics")))),
        // Time of this machine; no virtual time passes.
        1 => builder.recorder(at_event(lot() % 40, || thread::sleep(Duration::from_millis(20)))),
        2 => builder.recorder(slow()),
        _ => builder,
    }
}

fn lot() -> u64 {
    thread_local! {
        static DRAWN: Cell<u64> = const { Cell::new(0) };
    }
    let drawn = DRAWN.replace(DRAWN.get() + 1);
    let mut hasher = DefaultHasher::new();
    (thread::current().name(), drawn).hash(&mut hasher);
    hasher.finish()
}

fn at_event(number: u64, act: impl Fn() + Send + Sync + 'static) -> impl Recorder {
    let count = AtomicU64::new(0);
    EveryEvent(move |_| {
        if count.fetch_add(1, Relaxed) == number {
            act();
        }
    })
}

/// 50 µs an event, for so many events that a test of a million does not take a minute.
fn slow() -> impl Recorder {
    let count = AtomicU64::new(0);
    EveryEvent(move |_| {
        let begun = Clock::Boot.now();
        let is_slow = count.fetch_add(1, Relaxed) < 200;
        while is_slow && Clock::Boot.now() - begun < Duration::from_micros(50) {
            std::hint::spin_loop();
        }
    })
}

/// Panics at every 13th call, whatever the call is.
#[derive(Default)]
struct Panics {
    calls: AtomicU64,
    spans: AtomicU64,
}

impl Panics {
    fn act(&self) {
        if self.calls.fetch_add(1, Relaxed) % 13 == 12 {
            resume_unwind(Box::new("a subscriber that panics"));
        }
    }
}

impl Subscriber for Panics {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        self.act();
        true
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        self.act();
        span::Id::from_u64(self.spans.fetch_add(1, Relaxed) + 1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {
        self.act();
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {
        self.act();
    }
    fn event(&self, _: &Event<'_>) {
        self.act();
    }
    fn enter(&self, _: &span::Id) {
        self.act();
    }
    fn exit(&self, _: &span::Id) {
        self.act();
    }
    fn clone_span(&self, id: &span::Id) -> span::Id {
        self.act();
        id.clone()
    }
    fn try_close(&self, _: span::Id) -> bool {
        self.act();
        false
    }
}
