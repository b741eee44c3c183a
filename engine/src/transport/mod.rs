//! The boundary between the engine and the servers: what a transport must do, and what each answer proves.
//!
//! # The contract
//!
//! **Locks.** A transport keeps, for each key, at most one *hold* of the exclusive kind: an owner and the time at
//! which the hold runs out. Every operation below is atomic on its key. A hold exists only with an expiry; there is
//! no moment at which another client could see one of ours without.
//!
//! **Three answers.** Each question is answered yes, no, or not at all. An error says in [`TransportError::effect`]
//! whether the request certainly had no effect ([`Effect::None`]) or may have been executed or *may still be
//! executed* ([`Effect::Unknown`]). A transport that is not sure says `Unknown`. Each call is answered by the
//! request's `execute_by` (requests without one: within the command timeout), give or take a timer's slack.
//!
//! **Never late.** An acquire or renewal carries `execute_by`, a moment on our clock. It must not be executed later.
//! How is the transport's business: a server time compared in a script, a lease granted first and revoked on close,
//! a statement that compares `clock_timestamp()`. It may refuse too early (`TooLate`), never too late. The server time
//! that went out as the limit comes back in `Effect::Unknown { not_after }`.
//!
//! **Safe to repeat.** An acquire by an owner that already holds is `Granted` and counts once. No acquire or renewal
//! shortens a hold. Release and renewal by anyone but the owner change nothing.
//!
//! **Order.** Acquires and releases of one lane reach a node in the order in which the calls were made, as long as
//! the connection lives. Nothing depends on the order between two lanes.
//!
//! **What a reply proves.** It proves the state at server time `at`, on the clock named there. An answer whose
//! [`ClockId`](crate::routing::topology::ClockId) is not the node's present one is treated as unknown by the engine.
//! Before a transport uses a connection it has learnt whether the server is the same run as before and has published
//! the topology that says so.
//!
//! **Notices** are hints. After a hold ends, those who watch the key are told, if the transport can; a notice may be
//! lost or superfluous. What must not be lost silently is the *possibility* of notices: a watch that may have missed
//! one counts a gap.
//!
//! **Dropping** a lane's future gives up the answer, not the request. The engine drops one only at shutdown.

mod audit;
mod error;
mod lane;
mod reply;
mod request;
mod server_time;
mod stats;
mod watch;

pub use audit::{AuditContext, AuditLevel, Finding};
pub use error::{Effect, ErrorKind, TransportError};
pub use lane::{BoxFuture, Capabilities, Lane, LanePurpose, OpenLane, Transport};
pub use reply::{AcquireReply, Hold, Inspection, ReleaseReply, Remaining, RenewalAnswer};
pub use request::{Acquire, Fencing, Release, Renewal};
pub use server_time::ServerTime;
pub use stats::{ClockReading, LaneStats};
pub use watch::{Watch, WatchState};
