//! Monitors all sentinels. The first sentinel that reports a failover is believed, because the old master must not
//! be used any longer.
//!
//! Each sentinel is polled every few seconds, and several times a second while there is no master, because a
//! message may have been lost. Its messages arrive on a second connection. That connection is optional: a sentinel
//! that refuses `SUBSCRIBE` is still polled. Sentinels that the configuration does not name are learned from the
//! others.
//!
//! Both connections must reach the same sentinel, identified by its run id. If several sentinels share an address,
//! a reply of one must not count as the correction of another one's message. By the same id, a sentinel that is
//! reached under two addresses is monitored once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fred::types::Message;
use leasehold::{
    log,
    transport::{ErrorKind, OpenLane, TransportError},
};
use tokio::sync::broadcast::error::RecvError;
use tracing::Level;

use super::{
    deployment::Deployment,
    master_election::SentinelId,
    poll_interval::{PERIOD, PollInterval, Refusals},
    sentinel_link::{SentinelLink, query, service},
    sentinel_messages::{SentinelConnection, SubscribeError},
    sentinel_set::{SentinelChanges, SentinelSet},
    sentinels::ask,
};
use crate::{
    config::Address,
    connection::{
        CommandLink,
        backoff::Backoff,
        link::{Kill, Link},
        watchdog::watch_over,
    },
    lane::{Nodes, Task},
    wire::sentinel::{Switch, sentinels},
};

/// Monitors all sentinels. It never returns.
pub(crate) async fn monitor_sentinels(deployment: Arc<Deployment>, lane: OpenLane, nodes: Arc<Nodes>) {
    let configured = deployment.config.addresses.clone();
    let sentinel_set = Mutex::new(SentinelSet::configured(&configured, lane.clock.now()));
    let sentinel_monitor =
        Arc::new(SentinelMonitor { deployment, lane, nodes, sentinel_set, tasks: Mutex::default() });
    sentinel_monitor.apply_changes(SentinelChanges { added: configured, removed: Vec::new() });
    // Ends the monitor's tasks when this future is dropped.
    let _guard = MonitorGuard(sentinel_monitor);
    std::future::pending::<()>().await;
}

/// The monitored sentinels, with one task for each.
struct SentinelMonitor {
    deployment: Arc<Deployment>,
    lane: OpenLane,
    nodes: Arc<Nodes>,
    sentinel_set: Mutex<SentinelSet>,
    tasks: Mutex<HashMap<Address, Task>>,
}

struct MonitorGuard(Arc<SentinelMonitor>);

impl Drop for MonitorGuard {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.0.tasks());
        drop(tasks);
    }
}

impl SentinelMonitor {
    /// Takes in the list of other sentinels that `by` has returned.
    fn handle_list(self: &Arc<Self>, by: &Address, named: &[Address]) {
        let changes = self.sentinel_set().handle_list(by, named, self.lane.clock.now());
        self.apply_changes(changes);
    }

    /// Starts a task for each added sentinel, and ends those of removed ones. All tasks of a lane run on one
    /// thread.
    fn apply_changes(self: &Arc<Self>, changes: SentinelChanges) {
        let mut tasks = self.tasks();
        let ended: Vec<_> = changes.removed.iter().filter_map(|sentinel| tasks.remove(sentinel)).collect();
        for sentinel in changes.added {
            let task = Task::spawn(monitor(self.clone(), sentinel.clone()));
            tasks.insert(sentinel, task);
        }
        drop(tasks);
        drop(ended);
    }

    fn known(&self) -> usize {
        self.sentinel_set().count()
    }

    fn sentinel_set(&self) -> MutexGuard<'_, SentinelSet> {
        self.sentinel_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<Address, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(
        &self,
        sentinel: &Address,
        commands: &SentinelLink<CommandLink>,
    ) -> Result<(), TransportError> {
        let reply = ask(&self.deployment, sentinel, commands, self.lane).await?;
        self.deployment.handle_report(&reply.id, reply.report, self.known(), reply.moments);
        Ok(())
    }
}

async fn monitor(sentinel_monitor: Arc<SentinelMonitor>, sentinel: Address) {
    let mut backoff = Backoff::at_once();
    loop {
        let now = sentinel_monitor.lane.clock.now();
        tokio::time::sleep(backoff.next_delay(now)).await;
        match SentinelLink::open(&sentinel_monitor.deployment, &sentinel, sentinel_monitor.lane).await {
            Ok(commands) => {
                let since = sentinel_monitor.lane.clock.now();
                monitor_once(&sentinel_monitor, &sentinel, &commands).await;
                backoff = Backoff::after(sentinel_monitor.lane.clock.now() - since);
            }
            Err(error) => {
                let sentinel = sentinel.clone();
                log::line(Level::DEBUG, move || {
                    tracing::debug!(%sentinel, %error, "cannot connect to a sentinel");
                });
            }
        }
    }
}

/// Monitors one sentinel until its connection ends. A sentinel that is reached under another address, too, is
/// monitored under one of them.
async fn monitor_once(
    sentinel_monitor: &Arc<SentinelMonitor>,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
) {
    if !sentinel_monitor.sentinel_set().reached(sentinel, &commands.id) {
        commands.link.kill();
        while sentinel_monitor.sentinel_set().is_reached(&commands.id) {
            tokio::time::sleep(PERIOD).await;
        }
        return;
    }
    monitor_until_end(sentinel_monitor, sentinel, commands).await;
    sentinel_monitor.sentinel_set().lost(sentinel, sentinel_monitor.lane.clock.now());
    let lost = sentinel.clone();
    log::line(Level::WARN, move || tracing::warn!(sentinel = %lost, "lost the connection to a sentinel"));
}

/// Polls a sentinel and reads its messages, until the connection for commands ends.
async fn monitor_until_end(
    sentinel_monitor: &Arc<SentinelMonitor>,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
) {
    tokio::select! {
        () = commands.link.ended() => {}
        () = poll(sentinel_monitor, sentinel, commands) => {}
        () = read_messages(sentinel_monitor, sentinel, commands) => {}
    }
}

async fn poll(
    sentinel_monitor: &Arc<SentinelMonitor>,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
) {
    let mut interval = PollInterval::of_sentinels();
    loop {
        if let Err(error) = sentinel_monitor.ask(sentinel, commands).await {
            let (sentinel, kind) = (sentinel.clone(), error.kind);
            log::line(Level::WARN, move || {
                tracing::warn!(%sentinel, %error, "a sentinel does not name the master");
            });
            if kind == ErrorKind::Unreachable || kind == ErrorKind::TimedOut {
                return;
            }
        }
        let list = query(
            &commands.link,
            "SENTINELS",
            service(&sentinel_monitor.deployment),
            sentinel_monitor.lane.command_timeout,
        )
        .await;
        if let Ok(frame) = list {
            let named: Vec<_> = sentinels(&frame)
                .iter()
                .map(|named| sentinel_monitor.deployment.config.reachable(named))
                .collect();
            sentinel_monitor.handle_list(sentinel, &named);
        }
        let pause = interval.next_pause(sentinel_monitor.nodes.is_whole(), sentinel_monitor.lane.clock.now());
        tokio::time::sleep(pause).await;
    }
}

/// Reads the sentinel's messages, over one connection after the other. It never returns.
async fn read_messages(
    sentinel_monitor: &Arc<SentinelMonitor>,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
) {
    let (mut backoff, mut refusals, mut is_warned) = (Backoff::at_once(), Refusals::default(), false);
    loop {
        tokio::time::sleep(backoff.next_delay(sentinel_monitor.lane.clock.now())).await;
        match SentinelConnection::open(
            &sentinel_monitor.deployment,
            sentinel_monitor.lane,
            sentinel,
            &commands.id,
        )
        .await
        {
            Ok(connection) => {
                let since = sentinel_monitor.lane.clock.now();
                is_warned = false;
                read_until_end(sentinel_monitor, sentinel, commands, &connection).await;
                backoff = Backoff::after(sentinel_monitor.lane.clock.now() - since);
            }
            Err(SubscribeError::Temporary(error)) => {
                let sentinel = sentinel.clone();
                log::line(Level::DEBUG, move || {
                    tracing::debug!(%sentinel, %error, "cannot connect to a sentinel for its messages");
                });
            }
            Err(SubscribeError::Refused(error)) => {
                if !std::mem::replace(&mut is_warned, true) {
                    let sentinel = sentinel.clone();
                    log::line(Level::WARN, move || {
                        tracing::warn!(%sentinel, %error, "a sentinel refuses the subscription: it is only polled, every 5 s");
                    });
                }
                tokio::time::sleep(refusals.next_pause(sentinel_monitor.lane.clock.now())).await;
            }
        }
    }
}

async fn read_until_end(
    sentinel_monitor: &Arc<SentinelMonitor>,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
    connection: &SentinelConnection,
) {
    tokio::select! {
        () = connection.messages.ended() => {}
        () = watch_over(connection, sentinel_monitor.lane.clock) => {}
        () = read_from(sentinel_monitor, sentinel, commands, connection) => {}
    }
}

async fn read_from(
    sentinel_monitor: &Arc<SentinelMonitor>,
    sentinel: &Address,
    commands: &SentinelLink<CommandLink>,
    connection: &SentinelConnection,
) {
    let mut messages = connection.messages.messages();
    // Messages from before the subscription may have been missed, so the sentinel is asked once.
    let _ = sentinel_monitor.ask(sentinel, commands).await;
    loop {
        match messages.recv().await {
            Ok(message) => handle_message(sentinel_monitor, &commands.id, &message),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        let _ = sentinel_monitor.ask(sentinel, commands).await;
    }
}

fn handle_message(sentinel_monitor: &SentinelMonitor, by: &SentinelId, message: &Message) {
    let payload = message.value.as_str();
    let switch = payload.as_deref().and_then(Switch::read);
    if let Some(switch) = switch.filter(|switch| switch.service == service(&sentinel_monitor.deployment)) {
        let config = &sentinel_monitor.deployment.config;
        let (from, to) = (config.reachable(&switch.from), config.reachable(&switch.to));
        sentinel_monitor.deployment.handle_switch(
            by,
            &Switch { from, to, ..switch },
            sentinel_monitor.lane.clock.now(),
        );
    }
}
