//! The whole engine in paused time, over the memory transport and its faults: what it promises, to the millisecond.
//!
//! Nothing here takes real time: a sleep is a jump of tokio's paused clock, so a test of minutes lasts milliseconds,
//! and its times are exact. Each file is one subject; the random runs are in `random`.

mod events;
mod fixture;

mod acquiring;
mod bad_input;
mod begun;
mod building;
mod call_defaults;
mod clock_steps;
mod closing;
mod conservation;
mod counters;
mod crowds;
mod engines;
mod experiments;
mod failovers;
mod fair;
mod fair_pacing;
mod fair_random;
mod fair_refusals;
mod fenced;
mod group_commit;
mod hand_offs;
mod hot_lock_names;
mod job;
mod kinds;
mod late_sends;
mod leader;
mod links;
mod liveness;
mod looking;
mod losses;
mod many;
mod migrations;
mod moved_owners;
mod multi;
mod node_by_node;
mod pacing;
mod peers;
mod permits;
mod quorum;
mod quorum_random;
mod random;
mod read_write;
mod read_write_waits;
mod recipe_metrics;
mod recipes_random;
mod redisson_issues;
mod reentry;
mod releasing_again;
mod renewal_cuts;
mod replies;
mod restarts;
mod running;
mod scale;
mod shutdown;
mod slow_listeners;
mod spin;
mod terms;
mod trying;
mod untaken;
mod user_code;
mod waits;
