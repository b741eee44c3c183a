//! A guide by task. Each page has the defaults with their units, an example that compiles, and links to the items.
//!
//! | page | question |
//! |---|---|
//! | [`choosing`] | Which lock, semaphore or latch fits which job? |
//! | [`ttl`] | How long should a lease be? |
//! | [`fencing`] | How does a resource refuse a holder that is too late? |
//! | [`losing`] | What happens when a lease is lost, and what has the holder to do? |
//! | [`reentry`] | How does a function lock what its caller has locked? |
//! | [`waiting`] | How long does a caller wait, and in which order are callers served? |
//! | [`sharing`] | How do many callers read what one caller changes? |
//! | [`counting`] | How do processes share a number of permits, and how do they wait for each other? |
//! | [`many`] | How are many locks acquired in one call? |
//! | [`multi`] | How are several locks held all together? |
//! | [`quorum`] | How does a lock survive the loss of a server? |
//! | [`leader`] | How does exactly one process of many do some work? |
//! | [`job`] | How does a fleet do some work once per period? |
//! | [`blocking`] | How do threads without a runtime use locks? |
//! | [`shutdown`] | How does a service end without leaving locks behind? |
//! | [`services`] | How does a request handler use a lock, and what does it answer? |
//! | [`configuration`] | Where do settings come from, and which of them matter? |
//! | [`testing`] | How is code with locks tested, without a server and without waiting? |
//! | [`metrics`] | What does the engine count, and how is it exported? |

// The links of a page lead to files of the repository, so that it can be read there. Of two definitions the first one
// counts: those of links.md lead to the items.
#[doc = include_str!("links.md")]
#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("ttl.md")]
pub mod ttl {}

#[doc = include_str!("links.md")]
#[doc = include_str!("fencing.md")]
pub mod fencing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("losing.md")]
pub mod losing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("reentry.md")]
pub mod reentry {}

#[doc = include_str!("links.md")]
#[doc = include_str!("waiting.md")]
pub mod waiting {}

#[doc = include_str!("links.md")]
#[doc = include_str!("sharing.md")]
pub mod sharing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("counting.md")]
pub mod counting {}

#[doc = include_str!("links.md")]
#[doc = include_str!("many.md")]
pub mod many {}

#[doc = include_str!("links.md")]
#[doc = include_str!("multi.md")]
pub mod multi {}

#[doc = include_str!("links.md")]
#[doc = include_str!("quorum.md")]
pub mod quorum {}

#[doc = include_str!("links.md")]
#[doc = include_str!("leader.md")]
pub mod leader {}

#[doc = include_str!("links.md")]
#[doc = include_str!("job.md")]
pub mod job {}

#[doc = include_str!("links.md")]
#[doc = include_str!("blocking.md")]
pub mod blocking {}

#[doc = include_str!("links.md")]
#[doc = include_str!("shutdown.md")]
pub mod shutdown {}

#[doc = include_str!("links.md")]
#[doc = include_str!("services.md")]
pub mod services {}

#[doc = include_str!("links.md")]
#[doc = include_str!("configuration.md")]
pub mod configuration {}

#[doc = include_str!("links.md")]
#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("metrics.md")]
pub mod metrics {}
