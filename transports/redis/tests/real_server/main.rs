//! The transport against a redis-server that each test starts for itself.

mod failures;
mod fake;
mod locks;
mod server;
