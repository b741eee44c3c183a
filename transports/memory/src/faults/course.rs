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
    let (tell, told) = oneshot::channel();
    let course = Course { line: line.clone(), passed_before: line.passed(), rule, request };
    line.runtime.spawn(course.run(fault, tell));
    told
}

struct Course {
    line: Arc<Line>,
    /// How many operations had passed when the call was made.
    passed_before: u64,
    rule: Option<Rule>,
    request: Request,
}

impl Course {
    async fn run(self, fault: Fault, tell: oneshot::Sender<Answer>) {
        if let Fault::Refuse(kind) = fault {
            self.fire();
            return send(tell, self.request.refused(kind));
        }
        match self.line.probe(&self.request).await {
            Ok(probe) if fault == Fault::Reset => {
                self.fire();
                send(tell, self.request.unknown(ErrorKind::Unreachable, probe));
            }
            Ok(probe) => self.answer_in_time(fault, probe, tell).await,
            Err(error) => send(tell, self.request.failed(|_| error.clone())),
        }
    }

    async fn answer_in_time(self, fault: Fault, probe: Probe, tell: oneshot::Sender<Answer>) {
        let (clock, answer_by) = (self.line.clock, self.line.answer_by(&self.request));
        let unknown = self.request.clone().unknown(ErrorKind::TimedOut, probe);
        let (arrive, arrived) = oneshot::channel();
        self.line.runtime.clone().spawn(self.go(fault, probe, arrive));
        tokio::select! {
            biased;
            Ok(answer) = arrived => send(tell, answer),
            () = clock.sleep_until(answer_by) => send(tell, unknown),
        }
    }

    /// Applies the fault. `arrive` takes the answer. If it is dropped without one, the caller waits for its
    /// timeout.
    async fn go(self, fault: Fault, probe: Probe, arrive: oneshot::Sender<Answer>) {
        match fault {
            Fault::DelayRequest(time) => {
                self.fire();
                self.line.sleep(time).await;
                send(arrive, self.execute_late(probe).await);
            }
            Fault::DelayReply(time) => {
                let answer = self.execute().await;
                self.fire();
                self.line.sleep(time).await;
                send(arrive, answer);
            }
            Fault::LoseRequest => self.fire(),
            Fault::LoseReply => {
                self.execute().await;
                self.fire();
            }
            Fault::LoseHalf => {
                self.request.clone().halved().send(&*self.line.inner).await;
                self.fire();
            }
            Fault::Repeat => {
                self.execute().await;
                let second = self.execute().await;
                self.fire();
                send(arrive, second);
            }
            Fault::RepeatLater(time) => {
                send(arrive, self.execute().await);
                self.line.sleep(time).await;
                self.execute_late(probe).await;
                self.fire();
            }
            Fault::Reorder(count) => {
                self.fire();
                self.line.until_passed(self.passed_before.saturating_add(count)).await;
                send(arrive, self.execute_late(probe).await);
            }
            Fault::Hold => self.hold(probe, arrive).await,
            Fault::Refuse(_) | Fault::Reset => unreachable!("answered before"),
        }
    }

    async fn hold(mut self, probe: Probe, arrive: oneshot::Sender<Answer>) {
        let (go, gone) = oneshot::channel();
        // The rule is not kept: when its last handle is dropped, the held request is dropped too.
        if let Some(rule) = self.rule.take() {
            rule.keep_back(go);
            rule.count_fired();
        }
        let Ok(ask) = gone.await else { return };
        let answer = self.execute_late(probe).await;
        send(arrive, answer.clone());
        send(ask, answer);
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

    fn fire(&self) {
        if let Some(rule) = &self.rule {
            rule.count_fired();
        }
    }
}

// The receiver may have been dropped.
fn send(tell: oneshot::Sender<Answer>, answer: Answer) {
    let _ = tell.send(answer);
}
