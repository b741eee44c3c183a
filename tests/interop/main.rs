//! A live Redisson and Leasehold on the same locks.
