//! Recipes: work that needs a lock in a certain way. [`Leader`] runs work in one process at a time, [`Job`] once per
//! period. They stand on the public [`Lock`](crate::Lock) and [`Lease`](crate::Lease): a transport sees plain locks,
//! and no recipe.
//!
//! | file | what |
//! |---|---|
//! | `leader` | the candidate: wins a term, leads, campaigns again |
//! | `campaign` | asks for the lock until it is granted or refused for good |
//! | `job` | runs work if no process has begun it within the period |
//! | `job_outcome` | what became of one try |
//! | `job_run` | one try, for metrics |
//! | `lease_view` | what the work sees of its lease |
//! | `leader_watch` | whether the candidate leads, for other tasks; resignation |
//! | `term` | one term, for metrics |
//! | `pauses` (pure) | how long a candidate waits before it campaigns again |
//! | `sleep` | a sleep that ends with the engine |

mod campaign;
mod job;
mod job_outcome;
mod job_run;
mod leader;
mod leader_watch;
mod lease_view;
mod pauses;
mod sleep;
mod term;

pub use job::Job;
pub use job_outcome::JobOutcome;
pub use leader::Leader;
pub use leader_watch::{LeaderState, LeaderWatch};
pub use lease_view::LeaseView;
