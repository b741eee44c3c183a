//! Fault injection around any transport: requests and replies that are lost, delayed, doubled or reordered.
//!
//! A [`Faulty`] transport changes nothing until its [`Faults`] handle is used. A rule says *which* operations are
//! affected ([`Faults::on`] and the conditions added to it) and *what happens to them* ([`Fault`]). If several
//! rules match an operation, the rule that was injected first applies, and the others do not count it. A [`Cut`]
//! comes before all rules.
//!
//! With any fault, the transport contract still holds:
//! - Each call is answered by its `execute_by`, or within the command timeout if it has none, on the lane's clock.
//! - A missing reply is reported as [`Effect::Unknown`](leasehold::transport::Effect::Unknown). Its `not_after` is
//!   never earlier than the last server time at which the request can still be executed. To know that time, the
//!   wrapper reads the server's time with one `inspect` of the same key before it applies the fault. If the
//!   `inspect` fails, the request is not sent, and the caller gets that error.
//! - A late request is sent unchanged. The wrapped transport must not execute it after `execute_by`. The wrapper
//!   refuses it itself in one case: the server's clock was stepped past `not_after` in between.
//! - The topology is that of the wrapped transport, and does not show a cut.
//!
//! # Examples
//! ```
//! use leasehold_memory::{Fault, Faulty, MemoryTransport, Operation};
//!
//! let transport = Faulty::new(MemoryTransport::new());
//! let faults = transport.faults();
//! // The second release of this lock is executed, and its reply never arrives.
//! let lost = faults.on(Operation::Release).key("orders:42").nth(2).inject(Fault::LoseReply);
//! // ... use an engine on `transport`, then: lost.until_fired(1).await
//! assert_eq!(lost.fired(), 0);
//! ```

mod conditions;

mod cuts;
mod execution;
mod fault;
mod lane;
mod line;
mod matching;
mod probe;
mod request;
mod rule;
mod transport;
mod watch;

pub use fault::{Cut, Fault, Operation};
pub use matching::Matching;
pub use request::Answer;
pub use rule::{Faults, Rule};
pub use transport::Faulty;

#[cfg(test)]
mod tests;
