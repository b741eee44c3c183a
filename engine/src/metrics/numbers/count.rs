//! Which event counts where.

use std::time::Duration;

use super::{Numbers, layout};
use crate::{
    fencing::FencingToken,
    lease::state::LossReason,
    metrics::{
        Ask, AskAnswer, AskCause, EngineThread, LockClass, Operation, Recorder, ReleaseOutcome,
        RenewalOutcome,
        descriptors::{
            ACQUIRE_OUTCOME, ERROR, LOSS_REASON, Label, OPERATION, RELEASE_OUTCOME, RENEWAL_RESULT, RESULT,
            THREAD, WAIT_OUTCOME, WAKEUP_RESULT, WAKEUP_SOURCE,
        },
    },
    transport::{Effect, ErrorKind, TransportError},
};

impl Recorder for Numbers {
    fn wait_started(&self, class: &LockClass) {
        self.of(class).add(layout::ACQUIRE_STARTED, 0, 1);
    }

    fn granted(&self, class: &LockClass, waited: Duration, contended: bool) {
        const ACQUIRED: usize = at(ACQUIRE_OUTCOME, "acquired");
        const WAITED: usize = at(WAIT_OUTCOME, "acquired");
        let tally = self.of(class);
        tally.add(layout::ACQUIRES, ACQUIRED, 1);
        tally.put(layout::ACQUIRE_WAIT, WAITED, nanos(waited));
        if contended {
            tally.add(layout::ACQUIRE_CONTENDED, 0, 1);
        }
    }

    fn shared(&self, class: &LockClass) {
        const REENTRANT: usize = at(ACQUIRE_OUTCOME, "reentrant");
        self.of(class).add(layout::ACQUIRES, REENTRANT, 1);
    }

    fn refused(&self, class: &LockClass) {
        const BUSY: usize = at(ACQUIRE_OUTCOME, "busy");
        self.of(class).add(layout::ACQUIRES, BUSY, 1);
    }

    fn timed_out(&self, class: &LockClass, waited: Duration) {
        const TIMEOUT: usize = at(ACQUIRE_OUTCOME, "timeout");
        const WAITED: usize = at(WAIT_OUTCOME, "timeout");
        let tally = self.of(class);
        tally.add(layout::ACQUIRES, TIMEOUT, 1);
        tally.put(layout::ACQUIRE_WAIT, WAITED, nanos(waited));
    }

    fn failed(&self, class: &LockClass, _: Option<&TransportError>) {
        const FAILED: usize = at(ACQUIRE_OUTCOME, "error");
        self.of(class).add(layout::ACQUIRES, FAILED, 1);
    }

    fn cancelled(&self, class: &LockClass) {
        const CANCELLED: usize = at(ACQUIRE_OUTCOME, "cancelled");
        self.of(class).add(layout::ACQUIRES, CANCELLED, 1);
    }

    fn grant_without_caller(&self) {
        self.of_all().add(layout::GRANTS_WITHOUT_CALLER, 0, 1);
    }

    fn asked(&self, class: &LockClass, ask: &Ask<'_>) {
        let tally = self.of(class);
        tally.add(layout::ACQUIRE_ATTEMPTS, 0, 1);
        self.count_command(Operation::Acquire, ask.took, ask.answer.err());
        if let Some(source) = source(ask.cause) {
            let result = result(ask.answer);
            tally.add(layout::WAKEUPS, source * WAKEUP_RESULT.values.len() + result, 1);
        }
        if let (Some(since), Ok(AskAnswer::Granted)) = (ask.since_notice, ask.answer) {
            tally.put(layout::WAKEUP_TO_ACQUIRE, 0, nanos(since));
        }
    }

    fn answered(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {
        self.count_command(operation, took, last_error);
    }

    fn released(&self, class: &LockClass, held: Duration, outcome: ReleaseOutcome) {
        let tally = self.of(class);
        let outcome = match outcome {
            ReleaseOutcome::Released => const { at(RELEASE_OUTCOME, "released") },
            ReleaseOutcome::Dropped => const { at(RELEASE_OUTCOME, "dropped") },
            ReleaseOutcome::AlreadyLost => const { at(RELEASE_OUTCOME, "already_lost") },
            ReleaseOutcome::ReleasedOrLost => const { at(RELEASE_OUTCOME, "released_or_lost") },
            ReleaseOutcome::Unknown => const { at(RELEASE_OUTCOME, "unknown") },
        };
        tally.add(layout::RELEASES, outcome, 1);
        tally.put(layout::HOLD, 0, nanos(held));
    }

    fn lost(
        &self,
        class: &LockClass,
        reason: LossReason,
        _: FencingToken,
        held: Duration,
        late: Option<Duration>,
    ) {
        let tally = self.of(class);
        let reason = match reason {
            LossReason::Expired => const { at(LOSS_REASON, "expired") },
            LossReason::NotOurs => const { at(LOSS_REASON, "not_ours") },
            LossReason::MaxHold => const { at(LOSS_REASON, "max_hold") },
            LossReason::Shutdown => const { at(LOSS_REASON, "shutdown") },
            LossReason::RenewalStopped => const { at(LOSS_REASON, "renewal_stopped") },
        };
        tally.add(layout::LEASES_LOST, reason, 1);
        tally.put(layout::HOLD, 0, nanos(held));
        if let Some(late) = late {
            self.of_all().put(layout::LEASE_LOST_DETECTED, 0, nanos(late));
        }
    }

    fn jeopardy(&self, class: &LockClass) {
        self.of(class).add(layout::LEASE_JEOPARDY, 0, 1);
    }

    fn renewed(&self, members: usize, took: Duration, answered: bool) {
        let tally = self.of_all();
        let result = if answered { const { at(RESULT, "ok") } } else { const { at(RESULT, "error") } };
        tally.put(layout::RENEW, result, nanos(took));
        tally.put(layout::RENEW_BATCH_SIZE, 0, members as u64);
    }

    fn renewal(&self, class: &LockClass, outcome: RenewalOutcome, count: u64) {
        const FAILED: usize = at(RENEWAL_RESULT, "unreachable"); // and the other errors, in their order
        let result = match outcome {
            RenewalOutcome::Renewed => const { at(RENEWAL_RESULT, "renewed") },
            RenewalOutcome::NotOurs => const { at(RENEWAL_RESULT, "not_ours") },
            RenewalOutcome::TooLate => const { at(RENEWAL_RESULT, "too_late") },
            RenewalOutcome::Failed(kind) => FAILED + error_at(kind),
        };
        self.of(class).add(layout::RENEWALS, result, count);
    }

    fn margin_left(&self, class: &LockClass, share: f64) {
        self.of(class).put(layout::RENEW_MARGIN, 0, (share.max(0.0) * 1e9) as u64);
    }

    fn renewal_late(&self, late: Duration) {
        self.of_all().put(layout::RENEW_LATENESS, 0, nanos(late));
    }

    fn found_ttl(&self, class: &LockClass, _: Duration, _: Duration, _: Duration) {
        self.of(class).add(layout::TTL_SURPRISES, 0, 1);
    }

    fn no_expiry(&self) {
        self.of_all().add(layout::PEERS_WITHOUT_EXPIRY, 0, 1);
    }

    fn subscription_gap(&self) {
        self.of_all().add(layout::SUBSCRIPTION_GAPS, 0, 1);
    }

    fn reconnected(&self, _: &str) {
        self.of_all().add(layout::BACKEND_RECONNECTS, 0, 1);
    }

    fn timer_late(&self, thread: EngineThread, late: Duration) {
        let thread = match thread {
            EngineThread::Calls => const { at(THREAD, "calls") },
            EngineThread::Renewal => const { at(THREAD, "renewal") },
        };
        self.of_all().put(layout::RUNTIME_STALL, thread, nanos(late));
    }
}

impl Numbers {
    #[inline(always)]
    fn count_command(&self, operation: Operation, took: Duration, last_error: Option<&TransportError>) {
        let of_operation = operation_at(operation);
        let result =
            if last_error.is_none() { const { at(RESULT, "ok") } } else { const { at(RESULT, "error") } };
        self.of_all().put(layout::BACKEND_COMMAND, of_operation * RESULT.values.len() + result, nanos(took));
        if let Some(last_error) = last_error {
            self.count_trouble(of_operation, last_error);
        }
    }

    #[cold]
    fn count_trouble(&self, operation: usize, last_error: &TransportError) {
        let (tally, error) = (self.of_all(), operation * ERROR.values.len() + error_at(last_error.kind));
        tally.add(layout::BACKEND_ERRORS, error, 1);
        if last_error.effect != Effect::None {
            tally.add(layout::ATTEMPTS_UNKNOWN, operation, 1);
        }
    }
}

fn source(cause: AskCause) -> Option<usize> {
    Some(match cause {
        AskCause::Arrival => return None,
        AskCause::Notice => const { at(WAKEUP_SOURCE, "notice") },
        AskCause::Turn => const { at(WAKEUP_SOURCE, "turn") },
        AskCause::Expiry => const { at(WAKEUP_SOURCE, "expiry") },
        AskCause::SafetyPoll => const { at(WAKEUP_SOURCE, "safety_poll") },
        AskCause::Resync => const { at(WAKEUP_SOURCE, "resync") },
        AskCause::Retry => const { at(WAKEUP_SOURCE, "retry") },
    })
}

fn result(answer: Result<AskAnswer, &TransportError>) -> usize {
    match answer {
        Ok(AskAnswer::Granted) => const { at(WAKEUP_RESULT, "acquired") },
        Ok(AskAnswer::Held) => const { at(WAKEUP_RESULT, "lost_race") },
        Ok(AskAnswer::TooLate) | Err(_) => const { at(WAKEUP_RESULT, "unanswered") },
    }
}

fn operation_at(operation: Operation) -> usize {
    match operation {
        Operation::Acquire => const { at(OPERATION, "acquire") },
        Operation::Release => const { at(OPERATION, "release") },
        Operation::Renew => const { at(OPERATION, "renew") },
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

/// The number of a value among those of its label; a value that is none of them does not compile.
const fn at(label: Label, value: &str) -> usize {
    let mut number = 0;
    while !layout::is_same(label.values[number], value) {
        number += 1;
    }
    number
}

// In 64 bits: `as_nanos` has 128, which costs in every sum. Nothing here lasts 584 years.
fn nanos(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(time.subsec_nanos().into())
}
