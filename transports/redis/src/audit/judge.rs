//! What the facts mean for locks. Pure. Guarantees page, "Topologies: what may be said".

use std::time::Duration;

use leasehold::transport::{AuditContext, AuditLevel, ErrorKind, Finding, TransportError};

use super::{
    facts::{DetectionFacts, Facts, Host, major},
    rights::Missing,
};
use crate::config::{Address, RedisConfig, RedisTopology};

/// Judges one server.
pub(crate) fn judge_server(facts: &Facts, config: &RedisConfig, terms: &AuditContext) -> Vec<Finding> {
    let mut findings = vec![
        version(facts),
        role(facts),
        eviction(facts),
        memory(facts),
        persistence(facts, terms),
        replicas(facts, config),
        rights(facts),
        idle_timeout(facts),
        notices(facts),
        batching(facts),
    ];
    findings.extend(facts.missing_rights_of_kinds.iter().map(rights_of_kind));
    findings.extend(replica_clocks(facts, terms));
    findings.extend(regions(facts));
    findings.extend(fenced_locks(facts));
    findings.into_iter().map(|finding| finding.of(&facts.server)).collect()
}

/// Judges the deployment as a whole.
pub(crate) fn judge_deployment(
    servers: &[Facts],
    detection_facts: &DetectionFacts,
    config: &RedisConfig,
    terms: &AuditContext,
) -> Vec<Finding> {
    let mut findings = vec![encryption(config)];
    findings.extend(clocks(servers, terms));
    match config.topology {
        RedisTopology::Single => {}
        RedisTopology::Sentinel => {
            findings.extend([detection(detection_facts, terms), sentinels(detection_facts)])
        }
        RedisTopology::Cluster => {
            findings.extend([detection(detection_facts, terms), nodes(detection_facts)])
        }
    }
    findings
}

/// Judges a sentinel that does not support a required command.
pub(crate) fn judge_sentinel(sentinel: &Address, last_error: &TransportError) -> Finding {
    let finding = match last_error.kind {
        ErrorKind::Denied => error(
            "rights",
            &*last_error.detail,
            "grant them to the sentinels' user; the README of leasehold-redis lists all",
        ),
        _ => warn("sentinels", &*last_error.detail, "start it, or take it out of `addresses`"),
    };
    finding.of(sentinel.to_string())
}

fn info(subject: &'static str, found: impl Into<String>, remedy: &str) -> Finding {
    Finding::new(AuditLevel::Info, subject, found, remedy)
}

fn warn(subject: &'static str, found: impl Into<String>, remedy: &str) -> Finding {
    Finding::new(AuditLevel::Warn, subject, found, remedy)
}

fn error(subject: &'static str, found: impl Into<String>, remedy: &str) -> Finding {
    Finding::new(AuditLevel::Error, subject, found, remedy)
}

fn version(facts: &Facts) -> Finding {
    match facts.version() {
        None => warn("version", "the server does not report it", "grant +info"),
        Some((product, version)) => {
            let found = format!("{product} {version}");
            match major(version) {
                Some(0..=5) => error("version", found, "use 6.2 or later: older ones are not tested"),
                Some(6) => info("version", found, "from 7 on a cluster renews leases in fewer commands"),
                Some(_) | None => info("version", found, "nothing to do"),
            }
        }
    }
}

fn role(facts: &Facts) -> Finding {
    match facts.info("role") {
        Some("master") => info("role", "master", "nothing to do"),
        Some(role) => error("role", role, "point `addresses` at the master"),
        None => warn(
            "role",
            "the server does not report it",
            "grant +info or +role: a replica must not be taken for a master",
        ),
    }
}

fn eviction(facts: &Facts) -> Finding {
    let remedy =
        "set maxmemory-policy noeviction: an evicted lock is a lost lock, and those with an expiry go first";
    match (facts.info("maxmemory_policy"), facts.info("maxmemory")) {
        (Some("noeviction"), _) => info("eviction", "noeviction", "nothing to do"),
        (Some(policy), Some("0")) => warn("eviction", format!("{policy}, without a maxmemory"), remedy),
        (Some(policy), _) => error("eviction", policy, remedy),
        (None, _) => warn("eviction", "the server does not report it", "grant +info; see maxmemory-policy"),
    }
}

// A server with noeviction refuses each acquire once its memory is used up.
fn memory(facts: &Facts) -> Finding {
    let number = |field| facts.info(field).and_then(|text| text.parse::<u64>().ok());
    let (Some(used), Some(most)) = (number("used_memory"), number("maxmemory")) else {
        return info("memory", "the server does not report it", "grant +info; see maxmemory");
    };
    let found = format!("{used} bytes used, maxmemory is {most}");
    let remedy = "raise maxmemory, or remove keys: a server without memory refuses every acquire";
    let is_refused = facts.info("maxmemory_policy") == Some("noeviction"); // `eviction` judges the others
    match most {
        0 => info("memory", format!("{used} bytes used, without a maxmemory"), "nothing to do"),
        _ if is_refused && used >= most => error("memory", found, remedy),
        _ if is_refused && used >= most - most / 10 => warn("memory", found, remedy),
        _ => info("memory", found, "nothing to do"),
    }
}

fn persistence(facts: &Facts, terms: &AuditContext) -> Finding {
    let grace = terms.restart_grace;
    let covered = !grace.is_zero() && grace >= terms.ttl;
    let by_grace = if grace.is_zero() {
        "restart_grace is not set".into()
    } else {
        format!("restart_grace is {grace:?}")
    };
    match (facts.info("aof_enabled"), facts.setting("appendfsync")) {
        (Some("1"), Some("always")) => info("persistence", "appendonly, fsync always", "nothing to do"),
        _ if covered => {
            info("persistence", by_grace, "nothing is granted after a restart until old leases have ended")
        }
        _ if facts.host() == Host::MemoryDb => info(
            "persistence",
            "MemoryDB: a write is kept in several zones before it is answered",
            "nothing to do",
        ),
        (None, _) => warn(
            "persistence",
            format!("the server does not report it; {by_grace}"),
            "see what its provider says of a restart: if it may forget, set restart_grace_ms to the longest ttl",
        ),
        (Some("1"), how) => warn(
            "persistence",
            format!("appendonly, fsync {}; {by_grace}", how.unwrap_or("not reported (grant +config|get)")),
            "a crash may forget the locks of the last second: set appendfsync always, or restart_grace_ms to the longest ttl",
        ),
        _ => warn(
            "persistence",
            format!("no appendonly file; {by_grace}"),
            "a restart forgets all locks: set restart_grace_ms to the longest ttl, or appendonly yes with appendfsync always",
        ),
    }
}

fn replicas(facts: &Facts, config: &RedisConfig) -> Finding {
    let found = facts.info("connected_slaves").unwrap_or("an unknown number of");
    let needs_one = match config.topology {
        RedisTopology::Single => false,
        RedisTopology::Sentinel | RedisTopology::Cluster => true,
    };
    if needs_one && found == "0" {
        return warn("replicas", "none", "add one: no server can take over when this one fails");
    }
    info(
        "replicas",
        format!("{found} connected"),
        "replication is asynchronous: a failover may forget a lock",
    )
}

fn rights(facts: &Facts) -> Finding {
    match &facts.missing_rights {
        Some(missing) if missing.is_empty() => info("rights", "all that are needed", "nothing to do"),
        Some(missing) => {
            let remedy = "grant them; the README of leasehold-redis lists all";
            error("rights", format!("missing: {}", missing.join(", ")), remedy)
        }
        None => {
            warn("rights", "the server cannot be asked (before Redis 7)", "try with an acquire and a release")
        }
    }
}

// A fleet without fenced locks does not need these rights.
fn fenced_locks(facts: &Facts) -> Option<Finding> {
    let missing = facts.missing_fenced_rights.join(", ");
    let remedy = "grant them if fenced locks are used; the README of leasehold-redis lists all";
    (!missing.is_empty()).then(|| warn("fenced_rights", format!("missing: {missing}"), remedy))
}

// Whoever has no such locks needs none of these rights.
fn rights_of_kind(missing: &Missing) -> Finding {
    let (what, rights) = (missing.needs.what, missing.rights.join(", "));
    let found = format!("{what} cannot be used; missing: {rights}");
    let remedy = format!("for {what} grant them; see the README of leasehold-redis");
    info(missing.needs.subject, found, &remedy)
}

// A database that several regions write to does not report that.
fn regions(facts: &Facts) -> Option<Finding> {
    (facts.host() == Host::RedisEnterprise).then(|| {
        let remedy = "an Active-Active database grants each lock once in each region: use a database of one region for locks";
        info("regions", "Redis Enterprise does not report whether the database is Active-Active", remedy)
    })
}

// A client that listens for the other kind waits until the ttl that it was told, each time.
fn notices(facts: &Facts) -> Finding {
    let found = format!("published by {}", facts.publishes);
    match facts.unheard {
        Some(0) => info("notices", found, "see `notices`"),
        None => info(
            "notices",
            format!("{found}; whether clients listen for another kind is not reported"),
            "grant +pubsub|channels and +pubsub|shardchannels to see it",
        ),
        Some(channels) => {
            let remedy = "set `notices` to \"both\": a client of Redisson listens for the other kind, and waits until the ttl each \
                          time (see its shardedSubscriptionMode; PUBSUB CHANNELS and PUBSUB SHARDCHANNELS show it)";
            warn(
                "notices",
                format!("{found}; not heard on {channels} channels that clients listen to"),
                remedy,
            )
        }
    }
}

fn batching(facts: &Facts) -> Finding {
    if !facts.is_limited {
        return info("batching", facts.batches, "see `batching`");
    }
    let remedy = "a proxy before the server sends a script to the server of its first key, or refuses one over several \
                  slots: set `batching` to \"by_slot\"";
    warn("batching", format!("{}: larger batches were answered wrongly or refused", facts.batches), remedy)
}

// A connection for notices can be idle for a long time.
fn idle_timeout(facts: &Facts) -> Finding {
    match facts.setting("timeout").map(str::parse::<u64>) {
        Some(Ok(0)) => info("timeout", "idle clients are kept", "nothing to do"),
        Some(Ok(seconds)) if seconds < IDLE_SECONDS_MIN => warn(
            "timeout",
            format!("idle clients are closed after {seconds} s"),
            "set timeout 0, or at least 10",
        ),
        Some(Ok(seconds)) => {
            info("timeout", format!("idle clients are closed after {seconds} s"), "nothing to do")
        }
        Some(Err(_)) | None => {
            info("timeout", "the server does not report it", "grant +config|get to see it")
        }
    }
}

fn replica_clocks(facts: &Facts, terms: &AuditContext) -> Vec<Finding> {
    let Some(own) = facts.offset_micros else { return Vec::new() };
    facts
        .replica_offsets
        .iter()
        .map(|(replica, offset)| replica_clock(replica, *offset, own, terms))
        .collect()
}

fn replica_clock(replica: &str, offset: Option<i64>, own: i64, terms: &AuditContext) -> Finding {
    let Some(offset) = offset else {
        let remedy = "let this client reach it, to see whether its clock agrees with the master's";
        return info("clock", format!("replica {replica} cannot be asked"), remedy);
    };
    judge_gap(format!("replica {replica}"), offset.abs_diff(own), terms)
}

fn judge_gap(whose: String, micros: u64, terms: &AuditContext) -> Finding {
    let gap = Duration::from_micros(micros);
    let found = format!("{whose} is apart by {gap:.1?}, the margin is {:?}", terms.margin);
    if gap < terms.margin / 2 {
        return info("clock", found, "nothing to do");
    }
    let remedy = "synchronise the clocks: after a failover a lock ends by the new master's clock";
    if gap < terms.margin { warn("clock", found, remedy) } else { error("clock", found, remedy) }
}

fn clocks(servers: &[Facts], terms: &AuditContext) -> Option<Finding> {
    let offsets: Vec<i64> = servers.iter().filter_map(|facts| facts.offset_micros).collect();
    let (least, most) = (offsets.iter().min()?, offsets.iter().max()?);
    (offsets.len() > 1).then(|| {
        judge_gap(format!("the clock of one of {} masters", offsets.len()), most.abs_diff(*least), terms)
    })
}

fn detection(detection_facts: &DetectionFacts, terms: &AuditContext) -> Finding {
    let wanted = terms.ttl + terms.margin + Duration::from_secs(1);
    let Some(found) = detection_facts.detection else {
        return warn(
            "detection",
            "the time after which a failover begins is not reported",
            "grant +config|get",
        );
    };
    let text = format!("a failover begins after {found:?}, a lease lasts {:?}", terms.ttl);
    if found > wanted {
        return info(
            "detection",
            text,
            "a holder on a dead master knows about its loss before another client gets the lock",
        );
    }
    let remedy = "a failover may give a lock to a second holder while the first still believes in it: check fencing \
                  tokens, or make the detection longer than the ttl (down-after-milliseconds, cluster-node-timeout)";
    warn("detection", text, remedy)
}

fn sentinels(detection_facts: &DetectionFacts) -> Finding {
    match detection_facts.sentinels {
        None => warn("sentinels", "no sentinel answers", "check `addresses` and the sentinels' user"),
        Some((known, quorum)) if known < 3 => {
            let found = format!("{known} known, {quorum} must agree");
            warn("sentinels", found, "run at least three: fewer cannot outvote one that is wrong")
        }
        Some((known, quorum)) => {
            info("sentinels", format!("{known} known, {quorum} must agree"), "nothing to do")
        }
    }
}

fn nodes(detection_facts: &DetectionFacts) -> Finding {
    if !detection_facts.is_whole {
        return error(
            "cluster",
            "a slot has no master that can be reached",
            "see CLUSTER INFO and CLUSTER NODES",
        );
    }
    if detection_facts.failed.is_empty() {
        return info("cluster", "every slot has a master", "nothing to do");
    }
    warn(
        "cluster",
        format!("marked as failed: {}", detection_facts.failed.join(", ")),
        "restart them, or CLUSTER FORGET",
    )
}

fn encryption(config: &RedisConfig) -> Finding {
    let is_local = |host: &str| host == "localhost" || host == "::1" || host.starts_with("127.");
    if config.tls.is_some() {
        return info("tls", "in use, certificates are verified", "nothing to do");
    }
    if config.addresses.iter().all(|address| is_local(&address.host)) {
        return info("tls", "not in use, this machine only", "nothing to do");
    }
    warn(
        "tls",
        "not in use",
        "anyone on the network path can read the password and release locks: set [redis.tls]",
    )
}

const IDLE_SECONDS_MIN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::rights;

    const TTL: Duration = Duration::from_secs(30);

    fn terms() -> AuditContext {
        AuditContext::new(TTL)
    }

    fn config() -> RedisConfig {
        RedisConfig::sentinel([Address::new("10.0.0.1", 26379)], "m")
    }

    fn facts(info: &str, settings: &[&str]) -> Facts {
        let settings = settings.iter().map(|text| (*text).to_owned()).collect();
        Facts::new("a:1".into(), info.replace(' ', "\n"), settings)
    }

    fn level(findings: &[Finding], subject: &str) -> AuditLevel {
        findings.iter().find(|finding| finding.subject == subject).expect("judged").level
    }

    const GOOD: &str = "redis_version:7.0.15 role:master maxmemory:1000 used_memory:899 maxmemory_policy:noeviction aof_enabled:1 \
                        connected_slaves:2";

    #[test]
    fn a_good_server_has_only_infos() {
        let mut good = facts(GOOD, &["appendfsync", "always", "timeout", "0"]);
        good.missing_rights = Some(Vec::new());
        let findings = judge_server(&good, &config(), &terms());
        assert!(findings.iter().all(|finding| finding.level == AuditLevel::Info), "{findings:#?}");
        assert!(findings.iter().all(|finding| finding.server == "a:1"));
    }

    #[test]
    fn each_trouble_is_found_at_its_level() {
        use AuditLevel::{Error, Warn};
        let judged =
            |info: &str, settings: &[&str]| judge_server(&facts(info, settings), &config(), &terms());
        for (info, settings, subject, expected) in [
            ("redis_version:5.0.1", &[][..], "version", Error),
            ("", &[], "version", Warn),
            ("role:slave", &[], "role", Error),
            ("maxmemory:1000 maxmemory_policy:volatile-ttl", &[], "eviction", Error),
            ("maxmemory:0 maxmemory_policy:volatile-ttl", &[], "eviction", Warn),
            ("maxmemory:1000 used_memory:1000 maxmemory_policy:noeviction", &[], "memory", Error),
            ("maxmemory:1000 used_memory:900 maxmemory_policy:noeviction", &[], "memory", Warn),
            ("maxmemory:1000 used_memory:1000 maxmemory_policy:allkeys-lru", &[], "memory", AuditLevel::Info),
            ("aof_enabled:0", &[], "persistence", Warn),
            ("aof_enabled:1", &["appendfsync", "everysec"], "persistence", Warn),
            ("connected_slaves:0", &[], "replicas", Warn),
            ("", &["timeout", "5"], "timeout", Warn),
        ] {
            assert_eq!(level(&judged(info, settings), subject), expected, "{subject}: {info} {settings:?}");
        }
    }

    #[test]
    fn what_a_managed_server_does_not_tell_is_not_taken_for_a_no() {
        let judged = |info: &str| judge_server(&facts(info, &[]), &config(), &terms());
        let found = |findings: &[Finding], subject: &str| {
            findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.found.clone())
        };
        let unknown = judged("role:master");
        assert_eq!(level(&unknown, "persistence"), AuditLevel::Warn);
        assert!(found(&unknown, "persistence").is_some_and(|found| found.contains("does not report it")));
        let memory_db = Facts { info: "os:Amazon MemoryDB".into(), ..Facts::default() };
        assert_eq!(persistence(&memory_db, &terms()).level, AuditLevel::Info);
        assert_eq!(found(&unknown, "regions"), None);
        assert!(found(&judged("rlec_version:7.4.2-1"), "regions").is_some());
    }

    #[test]
    fn batches_that_answers_have_shown_to_be_wrong_are_a_warning() {
        let limited = Facts { is_limited: true, batches: "one command for each slot", ..Facts::default() };
        assert_eq!(batching(&limited).level, AuditLevel::Warn);
        assert!(batching(&limited).remedy.contains("by_slot"));
        assert_eq!(batching(&Facts::default()).level, AuditLevel::Info);
    }

    #[test]
    fn listeners_that_hear_nothing_are_a_warning_and_what_is_not_told_is_none() {
        let judged = |unheard| notices(&Facts { unheard, publishes: "spublish", ..Facts::default() });
        let [none, unknown, some] = [Some(0), None, Some(2)].map(judged);
        assert_eq!((none.level, &*none.found), (AuditLevel::Info, "published by spublish"));
        assert_eq!(unknown.level, AuditLevel::Info);
        assert!(unknown.found.contains("not reported"));
        assert_eq!(some.level, AuditLevel::Warn);
        assert!(some.found.contains("on 2 channels") && some.remedy.contains("`notices` to \"both\""));
    }

    #[test]
    fn a_restart_grace_of_the_ttl_covers_a_restart() {
        let mut graceful = terms();
        graceful.restart_grace = TTL;
        let findings = judge_server(&facts("aof_enabled:0", &[]), &config(), &graceful);
        assert_eq!(level(&findings, "persistence"), AuditLevel::Info);
        let mut short = terms();
        short.restart_grace = TTL / 2;
        let findings = judge_server(&facts("aof_enabled:0", &[]), &config(), &short);
        assert_eq!(level(&findings, "persistence"), AuditLevel::Warn);
    }

    #[test]
    fn missing_rights_are_named() {
        let mut poor = facts(GOOD, &[]);
        poor.missing_rights = Some(vec!["+pexpire".into(), "+hdel".into()]);
        let findings = judge_server(&poor, &config(), &terms());
        let rights = findings.iter().find(|finding| finding.subject == "rights").unwrap();
        assert_eq!((rights.level, rights.found.as_str()), (AuditLevel::Error, "missing: +pexpire, +hdel"));
        for needs in &rights::ALL {
            poor.missing_rights_of_kinds = vec![Missing { needs, rights: vec!["+zadd ~L".into()] }];
            let findings = judge_server(&poor, &config(), &terms());
            let finding = findings.iter().find(|finding| finding.subject == needs.subject).unwrap();
            assert_eq!((finding.level, finding.found.contains("+zadd ~L")), (AuditLevel::Info, true));
        }
    }

    #[test]
    fn rights_that_only_fenced_locks_need_are_a_warning() {
        let mut poor = facts(GOOD, &[]);
        poor.missing_fenced_rights = vec!["+incr ~redisson_lock_token:{a}".into()];
        let findings = judge_server(&poor, &config(), &terms());
        assert_eq!(level(&findings, "fenced_rights"), AuditLevel::Warn);
        assert!(
            judge_server(&facts(GOOD, &[]), &config(), &terms())
                .iter()
                .all(|one| one.subject != "fenced_rights")
        );
    }

    #[test]
    fn clocks_that_are_apart_are_told_before_they_cost_a_lock() {
        let server = |offset| Facts { offset_micros: Some(offset), ..Facts::default() };
        for (gap, expected) in
            [(500_000, AuditLevel::Info), (1_000_000, AuditLevel::Warn), (-2_000_000, AuditLevel::Error)]
        {
            let found = clocks(&[server(0), server(gap)], &terms()).unwrap();
            assert_eq!(found.level, expected, "{gap}");
            let with_replica =
                Facts { replica_offsets: vec![("r:1".into(), Some(gap)), ("r:2".into(), None)], ..server(0) };
            assert_eq!(replica_clocks(&with_replica, &terms())[0].level, expected);
        }
        assert_eq!(clocks(&[server(0)], &terms()), None);
    }

    #[test]
    fn the_detection_time_is_held_against_the_ttl() {
        let judged = |seconds| {
            let detection_facts =
                DetectionFacts { detection: Some(Duration::from_secs(seconds)), ..DetectionFacts::default() };
            detection(&detection_facts, &terms()).level
        };
        assert_eq!(
            (judged(5), judged(32), judged(33)),
            (AuditLevel::Warn, AuditLevel::Warn, AuditLevel::Info)
        );
    }

    #[test]
    fn who_watches_is_judged_by_the_topology() {
        let detection_facts =
            DetectionFacts { sentinels: Some((1, 1)), is_whole: false, ..DetectionFacts::default() };
        let findings = judge_deployment(&[], &detection_facts, &config(), &terms());
        assert_eq!(level(&findings, "sentinels"), AuditLevel::Warn);
        assert_eq!(level(&findings, "tls"), AuditLevel::Warn);
        let cluster = RedisConfig::cluster([Address::new("127.0.0.1", 1)]);
        let findings = judge_deployment(&[], &detection_facts, &cluster, &terms());
        assert_eq!(level(&findings, "cluster"), AuditLevel::Error);
        assert_eq!(level(&findings, "tls"), AuditLevel::Info);
    }
}
