//! Notices that a hold has ended: the watched channels, and the connections that subscribe to them.

mod channel;
mod subscribed;
mod subscriber;
mod table;

pub(crate) use subscriber::{Subscriber, no_watch};
