//! Locks composed of locks: all of several ([`MultiLock`]), or a majority of the same name on independent servers
//! ([`Quorum`]). Compositions stand on the public [`Lock`](crate::Lock) and [`Lease`](crate::Lease): a transport sees
//! the members, and no composition.
//!
//! | file | what |
//! |---|---|
//! | `order` (pure) | the order in which a multi lock takes its members, and which pairs are refused |
//! | `arithmetic` (pure) | majorities, how long a quorum is held, the result of several releases |
//! | `attempt` (pure) | one attempt at a quorum: reached, open, or out of reach |
//! | `backoff` (pure) | the pause after an attempt that failed |
//! | `patience` (pure) | when a caller gives up, and with which error |
//! | `members` (pure) | the leases of one composition: whether enough of them are held, and which may join |
//! | `holding` | the same behind a mutex, and who is told |
//! | `tend` | watches one member of a holding, and takes it again after a loss |
//! | `round` | runs one attempt at a quorum |
//! | `notices` | ends a pause when a member that refused is released |
//! | `timer`, `race` | waiting in the task of the caller, which may have no runtime |
//! | `outcome` | counts how each acquire of a composition ended |

mod arithmetic;
mod attempt;
mod backoff;
mod holding;
mod members;
mod multi_error;
mod multi_lease;
mod multi_lock;
mod notices;
mod order;
mod outcome;
mod patience;
mod quorum;
mod quorum_lease;
mod quorum_lock;
mod race;
mod round;
mod tend;
pub(crate) mod timer;

pub use arithmetic::Tally;
pub use holding::MemberLease;
pub use multi_error::MultiError;
pub use multi_lease::MultiLease;
pub use multi_lock::MultiLock;
pub use quorum::Quorum;
pub use quorum_lease::QuorumLease;
pub use quorum_lock::QuorumLock;
