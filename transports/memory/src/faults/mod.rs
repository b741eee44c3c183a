//! Faults on demand, around any transport: requests and answers that are lost, late, doubled or out of order.
//!
//! A [`Faulty`] transport passes everything on until its [`Faults`] handle is told otherwise. A rule says *which*
//! operations ([`Faults::on`] and the conditions behind it) and *what happens to them* ([`Fault`]). Of the rules that
//! match an operation, the first one injected decides; later ones do not see it. A [`Cut`] goes before all rules.
//!
//! What stays as the contract says, whatever the fault:
//! - Each call is answered by its `execute_by`, those without one within the command timeout, on the lane's clock.
//! - An answer that does not come is [`Effect::Unknown`](leasehold::transport::Effect::Unknown), and its `not_after`
//!   is never earlier than the last server time at which the request can still be executed. To know that, the
//!   wrapper reads the server's time with one `inspect` of the same key before it harms a request. If that fails,
//!   the request is not sent, and the caller gets that error.
//! - A late request goes out unchanged: that it is not executed after `execute_by` is the wrapped transport's work.
//!   The wrapper refuses it itself in one case, a server clock that was stepped past `not_after` in between.
//! - The topology is the wrapped transport's own, and does not show a cut.
//!
//! # Examples
//! ```
//! use leasehold_memory::{Fault, Faulty, MemoryTransport, Operation};
//!
//! let transport = Faulty::new(MemoryTransport::new());
//! let faults = transport.faults();
//! // The second release of this lock is executed, and its answer never arrives.
//! let lost = faults.on(Operation::Release).key("orders:42").nth(2).inject(Fault::LoseReply);
//! // ... use an engine on `transport`, then: lost.until_fired(1).await
//! assert_eq!(lost.fired(), 0);
//! ```

mod conditions;
mod course;
mod cuts;
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
