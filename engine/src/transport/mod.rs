//! The boundary between the engine and the servers: what a transport must do, and what each answer proves.
//!
//! # The contract
//!
//! **Locks.** A transport keeps, for each key of the family [`Exclusive`](crate::key::Family::Exclusive), at most one
//! *hold*: an owner and the time at which the hold runs out. For a key of the family
//! [`ReadWrite`](crate::key::Family::ReadWrite) it keeps one write hold or any number of read holds, each with its own
//! time. For a key of the family [`Permits`](crate::key::Family::Permits) it keeps any number of holds, each with its own
//! time, and the number of available permits. Every operation below is atomic on its key. A hold exists only with an expiry: at no moment can
//! another client see a hold of this engine without expiry.
//!
//! **Three answers.** Each request is answered yes, no, or not at all. An error says in [`TransportError::effect`]
//! whether the request certainly had no effect ([`Effect::None`]), or may have been executed or *may still be executed*
//! ([`Effect::Unknown`]). A transport that is not sure says `Unknown`. Each call is answered by its `execute_by` (a
//! request without one: within the command timeout), give or take a timer's slack.
//!
//! **Kinds.** A transport says in [`Capabilities::kinds`] which kinds of locks it keeps. The engine refuses any other
//! kind before anything is sent. Holds of the kinds [`Exclusive`](HoldKind::Exclusive), [`Spin`](HoldKind::Spin) and
//! [`Fenced`](HoldKind::Fenced) of one key exclude each other: on the server they are the same hold. Locks of the families
//! [`Exclusive`](crate::key::Family::Exclusive), [`ReadWrite`](crate::key::Family::ReadWrite) and
//! [`Fair`](crate::key::Family::Fair) with one name exclude each other too. While one of them is held, an acquire of
//! another is `Busy`, and the turn of its line does not come. A release ends a hold of its own kind, and notifies the
//! watchers of its own key. The callers that wait for another kind find the release by their next poll or beat.
//!
//! **Tokens of fenced locks.** A fenced lock has a token counter beside its hold. The counter has no expiry, and no
//! operation of this contract removes it. A grant to an owner that does not hold the lock moves the counter as the
//! [`FencingMode`](crate::FencingMode) says. A grant to the holder returns the counter as it is, and is an error if the
//! counter is gone. The hold, its expiry and the counter change together or not at all.
//!
//! **Permits.** A hold of [`Permits`](HoldKind::Permits) is granted if as many permits are available, all of them or none.
//! They are available again once the hold is released, or after its expiry at the latest when the next acquire asks for
//! them. So the available permits and those of all holds are the total, which only
//! [`Counter::PermitTotal`] changes. A renewal or a release of a hold of which a permit has expired or was
//! taken away is `NotYours`; the release also gives back what is left.
//!
//! **Never late.** An acquire or renewal carries `execute_by`, a moment on the engine's clock. The server must not
//! execute the request later. The transport chooses the means: a server time that a script compares, a lease that is
//! granted first and revoked on close, a statement that compares `clock_timestamp()`. A transport may refuse too early
//! (`TooLate`), but never execute too late. The server time that was sent as the limit is returned in
//! `Effect::Unknown { not_after }`.
//!
//! **Safe to repeat.** An acquire by an owner that already holds the lock is `Granted` and counts once. No acquire or
//! renewal shortens a hold. A release or renewal by any other owner changes nothing.
//!
//! **Order.** Acquires and releases of one lane reach a node in the order in which the calls were made, as long as the
//! connection lives. Nothing depends on the order between two lanes.
//!
//! **What a reply proves.** A reply proves the state at server time `at`, on the clock named there. The engine treats
//! an answer as unknown if its [`ClockId`](crate::routing::topology::ClockId) is not the node's present one. Before a
//! transport uses a connection it has learnt whether the server is the same run as before, and has published the
//! topology that says so.
//!
//! **Notices** are hints. After a hold ends, the watchers of the key are notified if the transport can do so. A notice
//! may be lost or superfluous. The *possibility* of a lost notice must not be hidden: a watch that may have missed a
//! notice counts a gap.
//!
//! **Counters** (semaphores, latches) are optional: see [`CounterCall`] for their contract, and [`Kinds`].
//!
//! **Dropping** a lane's future gives up the answer, not the request. The engine drops a future only at shutdown.

mod answer_to;
mod answers_to;
mod audit;
mod call;
mod counter;
mod error;
mod inspection;
mod kinds;
mod lane;
mod lock_mode;
mod op;
mod outcome;
mod server_time;
mod stats;
mod watch;

pub use answer_to::AnswerTo;
pub use answers_to::AnswersTo;
pub use audit::{AuditContext, AuditLevel, Finding};
pub use call::Call;
pub use counter::{Counter, CounterCall, CounterOp, CounterReply};
pub use error::{Effect, ErrorKind, TransportError};
pub use inspection::{Hold, Inspection, PermitCount};
pub use kinds::Kinds;
pub use lane::{BoxFuture, Capabilities, Lane, LanePurpose, OpenLane, Transport};
pub use lock_mode::LockMode;
pub use op::{HoldKind, Op, PlaceTerms};
pub use outcome::{Outcome, Remaining};
pub use server_time::ServerTime;
pub use stats::{ClockReading, LaneStats};
pub use watch::{Watch, WatchState};

pub use crate::{answers::give_together, foreign_text::ForeignText};
