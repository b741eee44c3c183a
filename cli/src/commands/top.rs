//! `leasehold top [PATTERN]`.

use std::io::{self, IsTerminal};

use leasehold_redis::{ConfigFile, FoundLock, LockScan, RedisAdmin, RedisTransport};
use serde_json::{Value, json};

use super::list::{check_whole, document, line, literal};
use crate::{
    arguments::Top,
    contention::{Contention, Waiters},
    exit,
    failure::Failure,
    output::{Output, counted},
};

type Found = Contention<FoundLock>;

pub(crate) async fn top(top: Top, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let prefix = configuration.engine.name_prefix.clone();
    loop {
        match look(&top, &prefix, &configuration).await {
            Ok(found) => show(output, &top, &prefix, &found)?,
            Err(failure) if top.once => return Err(failure),
            Err(failure) => show_failure(output, &failure)?,
        }
        if top.once {
            return Ok(exit::SUCCESS);
        }
        tokio::time::sleep(top.interval).await;
    }
}

/// One look at all masters. It connects anew, so that it follows a failover.
async fn look(top: &Top, prefix: &str, configuration: &ConfigFile) -> Result<Found, Failure> {
    let (redis, timeout) = (configuration.redis.clone(), configuration.engine.command_timeout());
    let admin = RedisAdmin::connect(&RedisTransport::new(redis), timeout).await?;
    let mut scan = admin.locks(literal(prefix) + &top.pattern).keys_per_second(top.rate);
    let mut found = Contention::new(top.limit);
    loop {
        let locks = some(&mut scan).await?;
        if locks.is_empty() {
            break;
        }
        let listeners = admin.listeners(&locks).await?;
        let waiters = listeners.into_iter().zip(&locks);
        let waiters: Vec<_> =
            waiters.map(|(listeners, lock)| Waiters { listeners, in_line: lock.in_line }).collect();
        found.add(waiters.into_iter().zip(locks));
    }
    check_whole(&admin, "the list")?;
    Ok(found)
}

/// The next locks of a scan, at most `TOGETHER`. None: it is over.
async fn some(scan: &mut LockScan<'_>) -> Result<Vec<FoundLock>, Failure> {
    let mut locks = Vec::new();
    while locks.len() < TOGETHER {
        let Some(lock) = scan.next().await? else { break };
        locks.push(lock);
    }
    Ok(locks)
}

fn show(output: Output, top: &Top, prefix: &str, found: &Found) -> Result<(), Failure> {
    let head = format!("{} held, {} with waiters", counted(found.held(), "lock"), found.contended());
    let lines = found.most().iter().map(|(waiters, lock)| row(*waiters, lock, prefix));
    let text = [head, HEADING.to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    output.result(&format_args!("{}{text}", clear(output, top)), &documents(prefix, found))
}

fn show_failure(output: Output, failure: &Failure) -> Result<(), Failure> {
    output.result(&format_args!("not known: {}", failure.text), &json!({ "error": failure.text }))
}

/// A terminal shows the latest look alone.
pub(super) fn clear(output: Output, top: &Top) -> &'static str {
    let is_live = !top.once && !output.is_json() && io::stdout().is_terminal();
    if is_live { "\x1b[H\x1b[2J" } else { "" }
}

fn row(waiters: Waiters, lock: &FoundLock, prefix: &str) -> String {
    format!("{:>9}  {}", waiters.listeners, line(name(lock, prefix), lock))
}

fn documents(prefix: &str, found: &Found) -> Value {
    let locks = found.most().iter().map(|(waiters, lock)| {
        let mut document = document(name(lock, prefix), lock);
        if let Value::Object(fields) = &mut document {
            fields.insert("listeners".to_owned(), waiters.listeners.into());
        }
        document
    });
    json!({ "held": found.held(), "contended": found.contended(), "locks": locks.collect::<Vec<_>>() })
}

fn name<'l>(lock: &'l FoundLock, prefix: &str) -> &'l str {
    lock.name.strip_prefix(prefix).unwrap_or(&lock.name)
}

const HEADING: &str = "listeners   time left  mode       name, owners";
/// Locks whose listeners are asked for together.
const TOGETHER: usize = 200;
