//! Who is told that a hold has ended: the channels, and the connection that listens to them.

mod channel;
mod subscriber;
mod table;

pub(crate) use subscriber::{Subscriber, no_watch};
