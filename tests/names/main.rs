//! Names and bytes on the server, against a real server and against what Redisson leaves there.
#![allow(clippy::disallowed_methods, reason = "tests on a real server run in real time")]

mod bytes;
mod slots;
mod traces;
