//! Which metrics each event counts in.

use std::time::Duration;

use super::{EventCells, Numbers, layout};
use crate::{
    lease::state::LossReason,
    metrics::{
        Ask, AskAnswer, AskCause, Composition, CountOutcome, EngineEvent, EngineThread, LockEvent,
        LockLabels, Operation, ReleaseOutcome, RenewalOutcome,
        descriptors::{
            ACQUIRE_OUTCOME, COMPOSITION, COMPOSITION_OUTCOME, COUNT_OUTCOME, COUNTER, ERROR, LOSS_REASON,
            Label, OPERATION, RELEASE_OUTCOME, RENEWAL_RESULT, RESULT, THREAD, WAIT_OUTCOME, WAKEUP_RESULT,
            WAKEUP_SOURCE, is_same,
        },
    },
    transport::{Counter, Effect, ErrorKind, TransportError},
};

impl Numbers {
    /// Counts an event of one lock.
    #[inline(always)]
    pub(crate) fn count_lock(&self, lock: LockLabels<'_>, event: &LockEvent<'_>) {
        let cells = self.of_lock(lock);
        match event {
            LockEvent::WaitStarted => cells.add(layout::ACQUIRE_STARTED, 0, 1),
            LockEvent::Granted { waited, contended } => {
                cells.add(layout::ACQUIRES, const { at(ACQUIRE_OUTCOME, "acquired") }, 1);
                cells.put(layout::ACQUIRE_WAIT, const { at(WAIT_OUTCOME, "acquired") }, nanos(*waited));
                if *contended {
                    cells.add(layout::ACQUIRE_CONTENDED, 0, 1);
                }
            }
            LockEvent::Shared => cells.add(layout::ACQUIRES, const { at(ACQUIRE_OUTCOME, "reentrant") }, 1),
            LockEvent::Refused => cells.add(layout::ACQUIRES, const { at(ACQUIRE_OUTCOME, "busy") }, 1),
            LockEvent::TimedOut { waited } => {
                cells.add(layout::ACQUIRES, const { at(ACQUIRE_OUTCOME, "timeout") }, 1);
                cells.put(layout::ACQUIRE_WAIT, const { at(WAIT_OUTCOME, "timeout") }, nanos(*waited));
            }
            LockEvent::Failed { .. } => {
                cells.add(layout::ACQUIRES, const { at(ACQUIRE_OUTCOME, "error") }, 1)
            }
            LockEvent::Cancelled => {
                cells.add(layout::ACQUIRES, const { at(ACQUIRE_OUTCOME, "cancelled") }, 1)
            }
            LockEvent::Asked(ask) => self.count_ask(&cells, ask),
            LockEvent::Released { held, outcome } => {
                cells.add(layout::RELEASES, release_outcome(*outcome), 1);
                cells.put(layout::HOLD, 0, nanos(*held));
            }
            LockEvent::Lost { reason, held, late, .. } => {
                cells.add(layout::LEASES_LOST, loss_reason(*reason), 1);
                cells.put(layout::HOLD, 0, nanos(*held));
                if let Some(late) = late {
                    self.of_engine().put(layout::LEASE_LOST_DETECTED, 0, nanos(*late));
                }
            }
            LockEvent::Jeopardy => cells.add(layout::LEASE_JEOPARDY, 0, 1),
            LockEvent::Renewal { outcome, count } => {
                cells.add(layout::RENEWALS, renewal_result(*outcome), *count);
            }
            LockEvent::MarginLeft { share } => {
                cells.put(layout::RENEW_MARGIN, 0, (share.max(0.0) * 1e9) as u64);
            }
            LockEvent::FoundTtl { .. } => cells.add(layout::TTL_SURPRISES, 0, 1),
            LockEvent::TermBegan => cells.add(layout::TERMS_BEGUN, 0, 1),
            LockEvent::TermEnded { end, .. } => cells.add(layout::TERMS_ENDED, *end as usize, 1),
            LockEvent::JobEnded { end } => cells.add(layout::JOB_RUNS, *end as usize, 1),
        }
    }

    /// Counts an event that belongs to no single lock.
    #[inline(always)]
    pub(crate) fn count_engine(&self, event: &EngineEvent<'_>) {
        let cells = self.of_engine();
        match event {
            EngineEvent::GrantWithoutCaller => cells.add(layout::GRANTS_WITHOUT_CALLER, 0, 1),
            EngineEvent::Answered { operation, took, last_error } => {
                self.count_command(*operation, *took, *last_error);
            }
            EngineEvent::RenewalBatch { members, took, answered } => {
                cells.put(layout::RENEW, result(*answered), nanos(*took));
                cells.put(layout::RENEW_BATCH_SIZE, 0, *members as u64);
            }
            EngineEvent::RenewalLate { late } => cells.put(layout::RENEW_LATENESS, 0, nanos(*late)),
            EngineEvent::CounterCall { counter, outcome, waited } => {
                self.count_counter(*counter, *outcome, *waited);
            }
            EngineEvent::GroupCommit { calls } => cells.put(layout::GROUP_COMMIT_SIZE, 0, *calls as u64),
            EngineEvent::NoExpiry => cells.add(layout::PEERS_WITHOUT_EXPIRY, 0, 1),
            EngineEvent::SubscriptionGap => cells.add(layout::SUBSCRIPTION_GAPS, 0, 1),
            EngineEvent::PlaceLost => cells.add(layout::PLACES_LOST, 0, 1),
            EngineEvent::Reconnected { .. } => cells.add(layout::BACKEND_RECONNECTS, 0, 1),
            EngineEvent::TimerLate { thread, late } => {
                cells.put(layout::RUNTIME_STALL, thread_at(*thread), nanos(*late));
            }
            EngineEvent::CompositionEnded { composition, outcome } => {
                let combination = composition_at(*composition) + *outcome as usize;
                cells.add(layout::COMPOSITION_ACQUIRES, combination, 1);
            }
            // Gauges, read from the topology and the totals.
            EngineEvent::NodeChanged { .. } | EngineEvent::Closing { .. } => {}
        }
    }

    fn count_counter(&self, counter: Counter, outcome: CountOutcome, waited: Duration) {
        let (cells, of_counter) = (self.of_engine(), counter_at(counter));
        let combination = of_counter * COUNT_OUTCOME.values.len() + count_outcome(outcome);
        cells.add(layout::COUNTER_CALLS, combination, 1);
        if outcome == CountOutcome::Done {
            cells.put(layout::COUNTER_WAIT, of_counter, nanos(waited));
        }
    }

    #[inline(always)]
    fn count_ask(&self, cells: &EventCells<'_, { layout::OF_LOCK }>, ask: &Ask<'_>) {
        cells.add(layout::ACQUIRE_ATTEMPTS, 0, 1);
        self.count_command(Operation::Acquire, ask.took, ask.answer.err());
        if let Some(source) = wakeup_source(ask.cause) {
            let combination = source * WAKEUP_RESULT.values.len() + wakeup_result(ask.answer);
            cells.add(layout::WAKEUPS, combination, 1);
        }
        if let (Some(since), Ok(AskAnswer::Granted)) = (ask.since_notice, ask.answer) {
            cells.put(layout::WAKEUP_TO_ACQUIRE, 0, nanos(since));
        }
    }

    #[inline(always)]
    fn count_command(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {
        let of_operation = operation_at(operation);
        let combination = of_operation * RESULT.values.len() + result(last_error.is_none());
        self.of_engine().put(layout::BACKEND_COMMAND, combination, nanos(took));
        if let Some(last_error) = last_error {
            self.count_error(of_operation, last_error);
        }
    }

    #[cold]
    fn count_error(&self, operation: usize, last_error: &TransportError) {
        let (cells, error) = (self.of_engine(), operation * ERROR.values.len() + error_at(last_error.kind));
        cells.add(layout::BACKEND_ERRORS, error, 1);
        if last_error.effect != Effect::None {
            cells.add(layout::ATTEMPTS_UNKNOWN, operation, 1);
        }
    }
}

fn composition_at(composition: Composition) -> usize {
    const OUTCOMES: usize = COMPOSITION_OUTCOME.values.len();
    match composition {
        Composition::Multi => const { at(COMPOSITION, "multi") * OUTCOMES },
        Composition::Quorum => const { at(COMPOSITION, "quorum") * OUTCOMES },
    }
}

fn wakeup_source(cause: AskCause) -> Option<usize> {
    Some(match cause {
        AskCause::Arrival => return None,
        AskCause::Notice => const { at(WAKEUP_SOURCE, "notice") },
        AskCause::Turn => const { at(WAKEUP_SOURCE, "turn") },
        AskCause::Expiry => const { at(WAKEUP_SOURCE, "expiry") },
        AskCause::SafetyPoll => const { at(WAKEUP_SOURCE, "safety_poll") },
        AskCause::Poll => const { at(WAKEUP_SOURCE, "poll") },
        AskCause::Resync => const { at(WAKEUP_SOURCE, "resync") },
        AskCause::Retry => const { at(WAKEUP_SOURCE, "retry") },
    })
}

fn wakeup_result(answer: Result<AskAnswer, &TransportError>) -> usize {
    match answer {
        Ok(AskAnswer::Granted) => const { at(WAKEUP_RESULT, "acquired") },
        Ok(AskAnswer::Held) => const { at(WAKEUP_RESULT, "lost_race") },
        Ok(AskAnswer::TooLate) | Err(_) => const { at(WAKEUP_RESULT, "unanswered") },
    }
}

fn result(is_answered: bool) -> usize {
    if is_answered { const { at(RESULT, "ok") } } else { const { at(RESULT, "error") } }
}

fn release_outcome(outcome: ReleaseOutcome) -> usize {
    match outcome {
        ReleaseOutcome::Released => const { at(RELEASE_OUTCOME, "released") },
        ReleaseOutcome::Dropped => const { at(RELEASE_OUTCOME, "dropped") },
        ReleaseOutcome::HandedOff => const { at(RELEASE_OUTCOME, "handed_off") },
        ReleaseOutcome::AlreadyLost => const { at(RELEASE_OUTCOME, "already_lost") },
        ReleaseOutcome::ReleasedOrLost => const { at(RELEASE_OUTCOME, "released_or_lost") },
        ReleaseOutcome::Unknown => const { at(RELEASE_OUTCOME, "unknown") },
    }
}

fn counter_at(counter: Counter) -> usize {
    match counter {
        Counter::Semaphore => const { at(COUNTER, "semaphore") },
        Counter::Latch => const { at(COUNTER, "latch") },
        Counter::PermitTotal => const { at(COUNTER, "permits") },
    }
}

fn count_outcome(outcome: CountOutcome) -> usize {
    match outcome {
        CountOutcome::Done => const { at(COUNT_OUTCOME, CountOutcome::Done.as_str()) },
        CountOutcome::Busy => const { at(COUNT_OUTCOME, CountOutcome::Busy.as_str()) },
        CountOutcome::TimedOut => const { at(COUNT_OUTCOME, CountOutcome::TimedOut.as_str()) },
        CountOutcome::Cancelled => const { at(COUNT_OUTCOME, CountOutcome::Cancelled.as_str()) },
        CountOutcome::Unknown => const { at(COUNT_OUTCOME, CountOutcome::Unknown.as_str()) },
        CountOutcome::Failed => const { at(COUNT_OUTCOME, CountOutcome::Failed.as_str()) },
    }
}

fn loss_reason(reason: LossReason) -> usize {
    match reason {
        LossReason::Expired => const { at(LOSS_REASON, "expired") },
        LossReason::NotOurs => const { at(LOSS_REASON, "not_ours") },
        LossReason::MaxHold => const { at(LOSS_REASON, "max_hold") },
        LossReason::Shutdown => const { at(LOSS_REASON, "shutdown") },
        // A forked child records nothing.
        LossReason::RenewalStopped | LossReason::Forked => const { at(LOSS_REASON, "renewal_stopped") },
    }
}

fn renewal_result(outcome: RenewalOutcome) -> usize {
    const FAILED: usize = at(RENEWAL_RESULT, "unreachable"); // and the other errors, in their order
    match outcome {
        RenewalOutcome::Renewed => const { at(RENEWAL_RESULT, "renewed") },
        RenewalOutcome::NotOurs => const { at(RENEWAL_RESULT, "not_ours") },
        RenewalOutcome::TooLate => const { at(RENEWAL_RESULT, "too_late") },
        RenewalOutcome::Failed(kind) => FAILED + error_at(kind),
    }
}

fn thread_at(thread: EngineThread) -> usize {
    match thread {
        EngineThread::Calls => const { at(THREAD, "calls") },
        EngineThread::Renewal => const { at(THREAD, "renewal") },
    }
}

fn operation_at(operation: Operation) -> usize {
    match operation {
        Operation::Acquire => const { at(OPERATION, "acquire") },
        Operation::Release => const { at(OPERATION, "release") },
        Operation::Renew => const { at(OPERATION, "renew") },
        Operation::Count => const { at(OPERATION, "count") },
        Operation::Beat => const { at(OPERATION, "beat") },
    }
}

fn error_at(kind: ErrorKind) -> usize {
    match kind {
        ErrorKind::Unreachable => const { at(ERROR, "unreachable") },
        ErrorKind::TimedOut => const { at(ERROR, "timed_out") },
        ErrorKind::NotReady => const { at(ERROR, "not_ready") },
        ErrorKind::Denied => const { at(ERROR, "denied") },
        ErrorKind::WrongType => const { at(ERROR, "wrong_type") },
        ErrorKind::Misconfigured => const { at(ERROR, "misconfigured") },
        ErrorKind::Protocol => const { at(ERROR, "protocol") },
    }
}

/// The number of a value among the values of its label. An unknown value does not compile.
const fn at(label: Label, value: &str) -> usize {
    let mut number = 0;
    while !is_same(label.values[number], value) {
        number += 1;
    }
    number
}

// `as_nanos` returns 128 bits, which makes every sum slower. 64 bits last for 584 years.
fn nanos(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(time.subsec_nanos().into())
}
