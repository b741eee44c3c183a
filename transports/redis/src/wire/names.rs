//! The names of a lock on the server, byte for byte those of Redisson. Pure.
//!
//! Source: Redisson's `RedissonObject.prefixName` and `suffixName`. A name that contains `{` has its own hash tag
//! (or is meant to), so it is never wrapped in braces.

use leasehold::{
    key::{Family, LockKey},
    owner::Owner,
};

/// Returns `p:{L}`, or `p:L` if `L` contains `{`.
pub fn prefix(p: &str, lock: &str) -> String {
    if lock.contains('{') { [p, ":", lock].concat() } else { [p, ":{", lock, "}"].concat() }
}

/// Returns `{L}:s`, or `L:s` if `L` contains `{`.
pub fn suffix(lock: &str, s: &str) -> String {
    if lock.contains('{') { [lock, ":", s].concat() } else { ["{", lock, "}:", s].concat() }
}

/// Returns the channel on which the end of a hold is published.
pub fn lock_channel(lock: &str) -> String {
    prefix(LOCK_CHANNEL, lock)
}

/// Returns the channel on which the end of a hold of a read/write lock is published.
pub fn read_write_channel(lock: &str) -> String {
    prefix(READ_WRITE_CHANNEL, lock)
}

/// Returns the channel on which the end of a hold of this key is published.
pub(crate) fn channel_of(key: &LockKey) -> String {
    match key.family() {
        Family::ReadWrite => read_write_channel(key.on_server()),
        Family::Permits => semaphore_channel(key.on_server()),
        _ => lock_channel(key.on_server()),
    }
}

/// Returns the key that has the expiry of one read hold.
pub(crate) fn read_timeout(key: &LockKey, owner: Owner) -> String {
    suffix(key.on_server(), &format!("{owner}:rwlock_timeout:1"))
}

/// Returns the key that has the deadlines of permits that expire.
pub(crate) fn permit_deadlines(key: &LockKey) -> String {
    suffix(key.on_server(), "timeout")
}

/// Returns the key of the line of a fair lock: a list of owners.
pub fn fair_line(lock: &str) -> String {
    prefix("redisson_lock_queue", lock)
}

/// Returns the key of the deadlines of a fair lock's line.
pub fn fair_deadlines(lock: &str) -> String {
    prefix("redisson_lock_timeout", lock)
}

/// Returns the key that says until when the places of Leasehold in a fair lock's line are alive.
pub fn fair_places(lock: &str) -> String {
    suffix(lock, "leasehold_alive")
}

/// Returns the channel on which the owner is told that its place is the head of a fair lock's line and the lock is free.
pub(crate) fn turn_channel(lock: &str, owner: Owner) -> String {
    format!("{}:{owner}", lock_channel(lock))
}

/// Returns the channel on which new permits of a semaphore are published.
pub fn semaphore_channel(semaphore: &str) -> String {
    prefix(SEMAPHORE_CHANNEL, semaphore)
}

/// Returns the channel on which the end of a latch is published. It is wrapped in braces in any case, as Redisson does.
pub fn latch_channel(latch: &str) -> String {
    [LATCH_CHANNEL, "{", latch, "}"].concat()
}

/// Whether this is the channel of a lock, a semaphore or a latch whose name begins with `name_prefix`.
pub(crate) fn is_channel(channel: &str, name_prefix: &str) -> bool {
    let rest = CHANNELS.iter().find_map(|kind| channel.strip_prefix(kind));
    let name = rest.map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    // A name with a hash tag of its own has no further braces around it.
    name.is_some_and(|name| {
        [Some(name), name.strip_prefix('{')].iter().flatten().any(|name| name.starts_with(name_prefix))
    })
}

/// Returns the key that remembers the last operation of one client on a counter.
pub fn marker(counter: &str, client: &str) -> String {
    suffix(counter, &["leasehold_op:", client].concat())
}

/// Returns the key of the token counter of a fenced lock.
pub fn token_counter(lock: &str) -> String {
    prefix(TOKEN_COUNTER, lock)
}

/// The first part of every token counter's key. For ACL rules: `~redisson_lock_token:*`.
pub const TOKEN_COUNTER: &str = "redisson_lock_token";

/// The first part of every lock's channel. For ACL rules: `&redisson_lock__channel:*`.
pub const LOCK_CHANNEL: &str = "redisson_lock__channel";
/// The first part of the channel of every read/write lock.
const READ_WRITE_CHANNEL: &str = "redisson_rwlock";
const SEMAPHORE_CHANNEL: &str = "redisson_sc";
const LATCH_CHANNEL: &str = "redisson_countdownlatch__channel__";
const CHANNELS: [&str; 4] = [LOCK_CHANNEL, READ_WRITE_CHANNEL, SEMAPHORE_CHANNEL, LATCH_CHANNEL];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_wraps_a_plain_name_and_only_that() {
        for (lock, channel) in [
            ("orders:42", "redisson_lock__channel:{orders:42}"),
            ("{app}:orders", "redisson_lock__channel:{app}:orders"),
            ("a{b", "redisson_lock__channel:a{b"),
            ("a}b", "redisson_lock__channel:{a}b}"),
            ("{}x", "redisson_lock__channel:{}x"),
            ("mit ümlaut", "redisson_lock__channel:{mit ümlaut}"),
        ] {
            assert_eq!(lock_channel(lock), channel, "{lock}");
        }
    }

    #[test]
    fn the_family_of_a_key_decides_its_channel() {
        let key = LockKey::new("app:", "L").unwrap();
        let read_write = LockKey::with_family("app:", "L", Family::ReadWrite).unwrap();
        assert_eq!(channel_of(&key), "redisson_lock__channel:{app:L}");
        assert_eq!(channel_of(&read_write), "redisson_rwlock:{app:L}");
        let permits = LockKey::with_family("app:", "L", Family::Permits).unwrap();
        assert_eq!(channel_of(&permits), "redisson_sc:{app:L}");
        assert_eq!(permit_deadlines(&permits), "{app:L}:timeout");
        let owner = Owner::new(Default::default(), 7);
        assert_eq!(read_timeout(&read_write, owner), format!("{{app:L}}:{owner}:rwlock_timeout:1"));
        let tagged = LockKey::with_family("{app}:", "L", Family::ReadWrite).unwrap();
        assert_eq!(read_timeout(&tagged, owner), format!("{{app}}:L:{owner}:rwlock_timeout:1"));
    }

    #[test]
    fn the_channels_of_names_with_a_prefix_are_found() {
        let owner = Owner::new(Default::default(), 7);
        for name in ["app:L", "app:{t}L", "app:"] {
            let channels =
                [lock_channel(name), read_write_channel(name), semaphore_channel(name), latch_channel(name)];
            for channel in channels.iter().chain([&turn_channel(name, owner)]) {
                assert!(is_channel(channel, "app:") && is_channel(channel, ""), "{channel}");
                assert!(!is_channel(channel, "other:"), "{channel}");
            }
        }
        assert!(is_channel(&lock_channel("{app}:L"), "{app}:"), "a prefix with a hash tag");
        assert!(!is_channel("redisson_topic:{app:L}", ""));
    }

    #[test]
    fn the_table_of_the_wire_protocol() {
        assert_eq!(prefix("redisson_rwlock", "L"), "redisson_rwlock:{L}");
        assert_eq!(prefix("redisson_sc", "{t}L"), "redisson_sc:{t}L");
        assert_eq!(token_counter("L"), "redisson_lock_token:{L}");
        assert_eq!(token_counter("{t}L"), "redisson_lock_token:{t}L");
        assert_eq!(fair_line("L"), "redisson_lock_queue:{L}");
        assert_eq!(fair_line("{t}L"), "redisson_lock_queue:{t}L");
        assert_eq!(fair_deadlines("L"), "redisson_lock_timeout:{L}");
        assert_eq!(fair_places("L"), "{L}:leasehold_alive");
        assert_eq!(fair_places("{t}L"), "{t}L:leasehold_alive");
        let owner = Owner::new(Default::default(), 7);
        assert_eq!(turn_channel("L", owner), format!("redisson_lock__channel:{{L}}:{owner}"));
        assert_eq!(semaphore_channel("L"), "redisson_sc:{L}");
        assert_eq!(latch_channel("L"), "redisson_countdownlatch__channel__{L}");
        assert_eq!(latch_channel("a:{b}"), "redisson_countdownlatch__channel__{a:{b}}");
        assert_eq!(marker("L", "c"), "{L}:leasehold_op:c");
        assert_eq!(suffix("L", "o:1:rwlock_timeout:1"), "{L}:o:1:rwlock_timeout:1");
    }
}
