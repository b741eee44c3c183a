//! `leasehold list [PATTERN]`.

use std::time::Duration;

use leasehold::transport::{ForeignText, Remaining};
use leasehold_redis::{ConfigFile, FoundLock, RedisAdmin, RedisTransport};
use serde_json::{Value, json};

use crate::{arguments::List, duration::shown, exit, failure::Failure, output::Output, report::client_of};

pub(crate) async fn list(list: List, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let (prefix, timeout) =
        (configuration.engine.name_prefix.clone(), configuration.engine.command_timeout());
    let admin = RedisAdmin::connect(&RedisTransport::new(configuration.redis), timeout).await?;
    let mut scan = admin.locks(literal(&prefix) + &list.pattern).keys_per_second(list.rate);
    let limit = list.limit.unwrap_or(u64::MAX);
    let mut left = limit;
    while left > 0 {
        let Some(lock) = scan.next().await? else { break };
        let name = lock.name.strip_prefix(&*prefix).unwrap_or(&lock.name);
        output.result(&line(name, &lock), &document(name, &lock))?;
        left -= 1;
    }
    check_whole(&admin, "the list")?;
    if left == limit && !output.is_json() {
        output.event("empty", &none(&prefix, &list.pattern), json!({}));
    }
    Ok(exit::SUCCESS)
}

/// What people read in place of an empty list. The prefix is shown, because it may be the reason.
fn none(prefix: &str, pattern: &str) -> String {
    let name = format!("{prefix}{pattern}");
    format!(
        "no lock that is held has a name like {name:?}; not listed are permits, semaphores, latches, and hashes whose fields are no UUID and number"
    )
}

/// Fails if a master could not be asked. `what`: what is incomplete then.
pub(super) fn check_whole(admin: &RedisAdmin, what: &str) -> Result<(), Failure> {
    if let Some(error) = admin.unreachable().first() {
        return Err(Failure::new(exit::UNAVAILABLE, format!("{what} is incomplete: {error}")));
    }
    if admin.has_unserved_slots() {
        let text =
            format!("{what} is incomplete: some slots of the cluster have no master; see CLUSTER INFO");
        return Err(Failure::new(exit::UNAVAILABLE, text));
    }
    Ok(())
}

pub(super) fn line(name: &str, lock: &FoundLock) -> String {
    let owners: Vec<_> = lock.holds.iter().map(|hold| ForeignText(&hold.owner).to_string()).collect();
    let line = if lock.in_line > 0 { format!(", {} in line", lock.in_line) } else { String::new() };
    let left = time(lock.remaining).map_or_else(|| "no expiry".to_owned(), shown);
    format!("{left:>10}  {:<9}  {name:?}  {}{line}", lock.mode, owners.join(" "))
}

/// The lock as serde writes it, under the name without the prefix, with the client of each holder.
pub(super) fn document(name: &str, lock: &FoundLock) -> Value {
    let mut document = json!(lock);
    document["name"] = name.into();
    for holder in document["holders"].as_array_mut().into_iter().flatten() {
        let client = client_of(holder["owner"].as_str().unwrap_or_default()).to_owned();
        holder["client"] = client.into();
    }
    document
}

fn time(remaining: Remaining) -> Option<Duration> {
    if let Remaining::For(left) = remaining { Some(left) } else { None }
}

/// A pattern that matches exactly this text.
pub(super) fn literal(text: &str) -> String {
    text.chars().fold(String::new(), |mut pattern, letter| {
        if ['*', '?', '[', ']', '\\'].contains(&letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
        pattern
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literal("{a*}:[b]?"), "{a\\*}:\\[b\\]\\?");
    }
}
