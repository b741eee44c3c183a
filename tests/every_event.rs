//! A recorder that runs one function at every event: for tests of user code that panics, blocks or is slow.

use leasehold::{
    Event, Recorder,
    metrics::{EngineEvent, EngineThread, LockEvent, Operation},
};

/// Calls the function with the name of each event.
pub struct EveryEvent<F>(pub F);

impl<F: Fn(&'static str) + Send + Sync + 'static> Recorder for EveryEvent<F> {
    fn record(&self, event: &Event<'_>) {
        (self.0)(match event {
            Event::Lock(_, event) => lock_event(event),
            Event::Engine(event) => engine_event(event),
            other => panic!("{other:?} is not known to this test"),
        });
    }
}

fn lock_event(event: &LockEvent<'_>) -> &'static str {
    match event {
        LockEvent::WaitStarted => "wait_started",
        LockEvent::Granted { .. } => "granted",
        LockEvent::Shared => "shared",
        LockEvent::Refused => "refused",
        LockEvent::TimedOut { .. } => "timed_out",
        LockEvent::Failed { .. } => "failed",
        LockEvent::Cancelled => "cancelled",
        LockEvent::Asked(_) => "asked",
        LockEvent::Released { .. } => "released",
        LockEvent::Lost { .. } => "lost",
        LockEvent::Jeopardy => "jeopardy",
        LockEvent::Renewal { .. } => "renewal",
        LockEvent::MarginLeft { .. } => "margin_left",
        LockEvent::FoundTtl { .. } => "found_ttl",
        LockEvent::TermBegan => "term_began",
        LockEvent::TermEnded { .. } => "term_ended",
        LockEvent::JobEnded { .. } => "job_ended",
        other => panic!("{other:?} is not known to this test"),
    }
}

fn engine_event(event: &EngineEvent<'_>) -> &'static str {
    match event {
        EngineEvent::GrantWithoutCaller => "grant_without_caller",
        EngineEvent::Answered { operation: Operation::Acquire, .. } => "answered acquire",
        EngineEvent::Answered { operation: Operation::Release, .. } => "answered release",
        EngineEvent::Answered { operation: Operation::Renew, .. } => "answered renew",
        EngineEvent::Answered { operation: Operation::Count, .. } => "answered count",
        EngineEvent::Answered { operation: Operation::Beat, .. } => "answered beat",
        EngineEvent::CounterCall { .. } => "counter_call",
        EngineEvent::RenewalBatch { .. } => "renewed",
        EngineEvent::RenewalLate { .. } => "renewal_late",
        EngineEvent::GroupCommit { .. } => "group_commit",
        EngineEvent::NoExpiry => "no_expiry",
        EngineEvent::SubscriptionGap => "subscription_gap",
        EngineEvent::PlaceLost => "place_lost",
        EngineEvent::NodeChanged { .. } => "node_changed",
        EngineEvent::Reconnected { .. } => "reconnected",
        EngineEvent::Closing { .. } => "closing",
        EngineEvent::CompositionEnded { .. } => "composition_ended",
        EngineEvent::TimerLate { thread: EngineThread::Calls, .. } => "timer_late calls",
        EngineEvent::TimerLate { thread: EngineThread::Renewal, .. } => "timer_late renewal",
        other => panic!("{other:?} is not known to this test"),
    }
}
