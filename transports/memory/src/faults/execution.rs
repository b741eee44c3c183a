//! The execution of one request with a fault.
//!
//! It runs as a separate task, because it outlives its caller: the caller gets an answer in time in any case, and a
//! late request is still on its way then.

use std::sync::Arc;

use leasehold::transport::ErrorKind;
use tokio::sync::oneshot;

use super::{Answer, Fault, Rule, line::Line, probe::Probe, request::Request};

/// Starts `request`, and returns the receiver of its answer. The receiver gets an answer in time in any case.
pub(super) fn start(
    line: &Arc<Line>,
    fault: Fault,
    rule: Option<Rule>,
    request: Request,
) -> oneshot::Receiver<Answer> {
    let (reply_tx, reply_rx) = oneshot::channel();
    let execution = Execution { line: line.clone(), passed_before: line.passed(), rule, request };
    line.runtime.spawn(execution.run(fault, reply_tx));
    reply_rx
}

struct Execution {
    line: Arc<Line>,
    /// How many operations had passed when the call was made.
    passed_before: u64,
    rule: Option<Rule>,
    request: Request,
}

impl Execution {
    async fn run(self, fault: Fault, reply_tx: oneshot::Sender<Answer>) {
        if let Fault::Refuse(kind) = fault {
            self.count_fired();
            return send(reply_tx, self.request.refused(kind));
        }
        match self.line.probe(&self.request).await {
            Ok(probe) if fault == Fault::Reset => {
                self.count_fired();
                send(reply_tx, self.request.unknown(ErrorKind::Unreachable, probe));
            }
            Ok(probe) => self.answer_in_time(fault, probe, reply_tx).await,
            Err(error) => send(reply_tx, self.request.failed(|_| error.clone())),
        }
    }

    async fn answer_in_time(self, fault: Fault, probe: Probe, reply_tx: oneshot::Sender<Answer>) {
        let (clock, answer_by) = (self.line.clock, self.line.answer_by(&self.request));
        let unknown = self.request.clone().unknown(ErrorKind::TimedOut, probe);
        let (answer_tx, answer_rx) = oneshot::channel();
        self.line.runtime.clone().spawn(self.apply(fault, probe, answer_tx));
        tokio::select! {
            biased;
            Ok(answer) = answer_rx => send(reply_tx, answer),
            () = clock.sleep_until(answer_by) => send(reply_tx, unknown),
        }
    }

    /// Applies the fault. `answer_tx` takes the answer. If it is dropped without one, the caller waits for its
    /// timeout.
    async fn apply(self, fault: Fault, probe: Probe, answer_tx: oneshot::Sender<Answer>) {
        match fault {
            Fault::DelayRequest(time) => {
                self.count_fired();
                self.line.sleep(time).await;
                send(answer_tx, self.execute_late(probe).await);
            }
            Fault::DelayReply(time) => {
                let answer = self.execute().await;
                self.count_fired();
                self.line.sleep(time).await;
                send(answer_tx, answer);
            }
            Fault::LoseRequest => self.count_fired(),
            Fault::LoseReply => {
                self.execute().await;
                self.count_fired();
            }
            Fault::LoseHalf => {
                self.request.clone().halved().send(&*self.line.inner).await;
                self.count_fired();
            }
            Fault::Repeat => {
                self.execute().await;
                let second = self.execute().await;
                self.count_fired();
                send(answer_tx, second);
            }
            Fault::RepeatLater(time) => {
                send(answer_tx, self.execute().await);
                self.line.sleep(time).await;
                self.execute_late(probe).await;
                self.count_fired();
            }
            Fault::Reorder(count) => {
                self.count_fired();
                self.line.until_passed(self.passed_before.saturating_add(count)).await;
                send(answer_tx, self.execute_late(probe).await);
            }
            Fault::Hold => self.hold(probe, answer_tx).await,
            Fault::Refuse(_) | Fault::Reset => unreachable!("answered before"),
        }
    }

    async fn hold(mut self, probe: Probe, answer_tx: oneshot::Sender<Answer>) {
        let (release_tx, release_rx) = oneshot::channel();
        // The rule is not kept: when its last handle is dropped, the held request is dropped too.
        if let Some(rule) = self.rule.take() {
            rule.keep_back(release_tx);
            rule.count_fired();
        }
        let Ok(deliver_tx) = release_rx.await else { return };
        let answer = self.execute_late(probe).await;
        send(answer_tx, answer.clone());
        send(deliver_tx, answer);
    }

    async fn execute(&self) -> Answer {
        self.request.clone().send(&*self.line.inner).await
    }

    async fn execute_late(&self, before: Probe) -> Answer {
        let now = self.line.probe(&self.request).await.ok();
        let stepped = now.and_then(|now| now.stepped_past(before, self.request.execute_by()));
        match stepped.and_then(|at| self.request.clone().too_late(at)) {
            Some(too_late) => too_late,
            None => self.execute().await,
        }
    }

    fn count_fired(&self) {
        if let Some(rule) = &self.rule {
            rule.count_fired();
        }
    }
}

// The receiver may have been dropped.
fn send(reply_tx: oneshot::Sender<Answer>, answer: Answer) {
    let _ = reply_tx.send(answer);
}
