"""Alerts. Each names the panel that shows it and its place in the runbook.

`{limit}` in an expression is the number that the alert compares with. `lines` are the graphs of the same series: the
limit is a line on them, or the number that is given with them.

Classes named `leader` or `..._leader` are left out of the alerts on long waits and holds, which are normal for them.
"""
from . import scope
from .board import uid
from .rule_file import duration

ORDINARY = 'class!~"(.*_)?leader"'
PAGE, TICKET = "page", "ticket"

# Times are in seconds; `{time:N}` in an expression is N seconds at the pace, and so is a limit that is a time.
ALERTS = [
    {
        "name": "LeaseLost",
        "severity": PAGE,
        "expr": 'job_class_reason:leasehold_leases_lost:increase5m{reason!="shutdown"} > {limit}',
        "limit": 0.5,
        "for": 0,
        "summary": "{{ $labels.job }} lost leases of class {{ $labels.class }}: {{ $labels.reason }}",
        "description": "About {{ $value | humanize }} leases were lost in 5 minutes. Their holders were told. Two holders may have acted at once.",
        "panel": ("Leases", "Leases lost"),
    },
    {
        "name": "RenewMarginLow",
        "severity": PAGE,
        "expr": "job_class:leasehold_renew_margin_low:ratio5m > {limit}",
        "limit": 0.01,
        "for": 60,
        "summary": "{{ $labels.job }} renews leases of class {{ $labels.class }} late",
        "description": "{{ $value | humanizePercentage }} of the renewals were confirmed with less than a fifth of the ttl left. Leases are about to be lost.",
        "panel": ("Leases", "Time left when renewed"),
        "lines": [("Leases", "Time left when renewed", 0.2), ("Overview", "Time left when renewed", 0.2)],
    },
    {
        "name": "RenewFailureRatio",
        "severity": TICKET,
        "expr": "job_class:leasehold_renewals_failed:ratio5m > {limit}",
        "limit": 0.01,
        "for": 60,
        "summary": "Renewals of {{ $labels.job }} fail, class {{ $labels.class }}",
        "description": "{{ $value | humanizePercentage }} of the renewals were not confirmed.",
        "panel": ("Leases", "Renewals that failed"),
        "lines": [("Leases", "Share of renewals that failed")],
    },
    {
        "name": "WaitP99High",
        "severity": TICKET,
        "expr": f"job_class:leasehold_acquire_wait_seconds:p99_5m{{{ORDINARY}}} > {{limit}}",
        "limit": 5,
        "is_time": True,
        "for": 120,
        "summary": "Callers of {{ $labels.job }} wait long for locks of class {{ $labels.class }}",
        "description": "One wait in a hundred takes {{ $value | humanizeDuration }} or more.",
        "panel": ("Contention", "Wait for a lock"),
        "lines": [("Contention", "Wait for a lock"), ("Overview", "Wait for a lock, p99")],
    },
    {
        "name": "OldestWaiter",
        "severity": TICKET,
        "expr": f"max by (job, class) (leasehold_oldest_waiter_seconds{{{ORDINARY}}}) > {{limit}}",
        "limit": 60,
        "is_time": True,
        "for": 60,
        "summary": "A caller of {{ $labels.job }} does not get its lock of class {{ $labels.class }}",
        "description": "It has waited for {{ $value | humanizeDuration }}.",
        "panel": ("Contention", "Oldest waiter"),
        "lines": [("Contention", "Oldest waiter")],
    },
    {
        "name": "StuckHold",
        "severity": TICKET,
        "expr": f"max by (job, class) (leasehold_oldest_hold_seconds{{{ORDINARY}}}) > {{limit}} "
        "and max by (job, class) (leasehold_oldest_waiter_seconds) > {time:30}",
        "limit": 300,
        "is_time": True,
        "for": 0,
        "summary": "{{ $labels.job }} holds a lock of class {{ $labels.class }} while others wait",
        "description": "It has been held for {{ $value | humanizeDuration }}; it is renewed, so its ttl does not end it.",
        "panel": ("Leases", "Oldest hold"),
        "lines": [("Leases", "Oldest hold")],
    },
    {
        "name": "BackendDown",
        "severity": PAGE,
        "expr": "count by (job, backend) (leasehold_backend_connected == 0) > {limit}",
        "limit": 0,
        "for": 15,
        "summary": "{{ $value }} processes of {{ $labels.job }} do not reach their lock server",
        "description": "Some locks cannot be had, renewed or released. Leases are lost at their deadline, at most one ttl from now.",
        "panel": ("Backend", "Every slot served"),
    },
    {
        "name": "NoLeader",
        "severity": PAGE,
        "expr": "max by (job, class) (sum by (job, class, instance) (leasehold_elections)) - sum by (job, class) (leasehold_leading) > {limit}",
        "limit": 0,
        "for": 120,
        "summary": "{{ $labels.job }} has elections without a leader, class {{ $labels.class }}: {{ $value }}",
        "description": "Its processes stand, and none of them leads. What only the leader does is not done, unless a process that is not scraped leads.",
        "panel": ("Leases", "Elections without a leader"),
    },
    {
        "name": "SubscriptionGaps",
        "severity": TICKET,
        "expr": "job_backend:leasehold_subscription_gaps:increase2m > {limit}",
        "limit": 0.5,
        "for": 300,
        "summary": "{{ $labels.job }} misses notices again and again",
        "description": "About {{ $value | humanize }} times in 2 minutes a waiting lock may have missed that it was released. It is asked for instead: waits grow.",
        "panel": ("Backend", "Notices that may have been missed"),
    },
    {
        "name": "PeerWithoutExpiry",
        "severity": TICKET,
        "expr": "job:leasehold_peers_without_expiry:increase10m > {limit}",
        "limit": 0.5,
        "for": 0,
        "summary": "{{ $labels.job }} waits for a lock of another client that never expires",
        "description": "A client has taken a lock without a ttl. If it dies, nobody gets the lock until an operator ends it. The log of the process names the lock.",
        "panel": ("Contention", "Locks of others without expiry"),
    },
    {
        "name": "ClocksApart",
        "severity": TICKET,
        "expr": "max by (job, instance, backend) (leasehold_clock_offset_seconds) - min by (job, instance, backend) (leasehold_clock_offset_seconds) > {limit}",
        "limit": 0.1,
        "for": 60,
        "summary": "The clocks of the lock servers of {{ $labels.job }} differ",
        "description": "As {{ $labels.instance }} sees them, by {{ $value | humanizeDuration }}. If one server takes over from another, two holders may have a lock, or fencing tokens may fall.",
        "panel": ("Backend", "Clocks apart"),
        "lines": [("Backend", "Clocks apart")],
    },
    {
        "name": "RuntimeStall",
        "severity": TICKET,
        "expr": "job_instance_thread:leasehold_runtime_stalls:increase5m > {limit}",
        "limit": 0.5,
        "for": 0,
        "summary": "{{ $labels.instance }} of {{ $labels.job }} stood still",
        "description": "Timers of the thread {{ $labels.thread }} were late by more than 250 ms about {{ $value | humanize }} times in 5 minutes.",
        "panel": ("Backend", "Timers late by more than 250 ms"),
    },
    {
        "name": "ClassOverflow",
        "severity": TICKET,
        "expr": "sum by (job) (leasehold_classes_overflow_total) > {limit}",
        "limit": 0,
        "for": 0,
        "summary": "{{ $labels.job }} uses more lock classes than are told apart",
        "description": "{{ $value }} lock handles count as class _other until the process restarts.",
        "panel": ("Backend", "Locks counted as _other"),
    },
    {
        "name": "LeasesNearLimit",
        "severity": TICKET,
        "expr": "sum by (job, instance) (leasehold_held) / max by (job, instance) (leasehold_leases_max) > {limit}",
        "limit": 0.9,
        "for": 60,
        "summary": "{{ $labels.instance }} of {{ $labels.job }} holds nearly as many leases as it may",
        "description": "It holds {{ $value | humanizePercentage }} of leases_max. At 100 % it refuses every acquire.",
        "panel": ("Leases", "Leases held, of their limit"),
        "lines": [("Leases", "Leases held, of their limit")],
    },
    {
        "name": "CallersNearLimit",
        "severity": TICKET,
        "expr": "sum by (job, instance) (leasehold_waiters) / max by (job, instance) (leasehold_callers_max) > {limit}",
        "limit": 0.9,
        "for": 60,
        "summary": "Nearly as many callers wait in {{ $labels.instance }} of {{ $labels.job }} as may",
        "description": "{{ $value | humanizePercentage }} of waiters_max callers wait. At 100 % it refuses every caller that would wait.",
        "panel": ("Contention", "Callers waiting, of their limit"),
        "lines": [("Contention", "Callers waiting, of their limit")],
    },
]


def groups(options):
    rules = [_rule(alert, options) for alert in ALERTS]
    return [{"name": "leasehold-alerts", "interval": duration(15, options.pace), "rules": rules}]


def name(alert):
    return "Leasehold" + alert["name"]


def _rule(alert, options):
    where, title = alert["panel"]
    rule = {"alert": name(alert), "expr": scope.expression(_expression(alert, options), options.scopes)}
    if options.hold(alert):
        rule["for"] = duration(options.hold(alert), options.pace)
    return rule | {
        "labels": {"severity": options.severity(alert["severity"])} | options.labels,
        "annotations": {
            "summary": alert["summary"],
            "description": alert["description"],
            "dashboard": uid(where),
            "panel": title,
            "runbook_url": f"{options.runbook}#{alert['name'].lower()}",
        },
    }


def _expression(alert, options):
    limit = options.limit(alert)
    limited = alert["expr"].replace("{limit}", f"{{time:{limit}}}" if alert.get("is_time") else f"{limit:g}")
    first, *rest = limited.split("{time:")
    return first + "".join(_paced(part, options.pace) for part in rest)


def _paced(part, pace):
    seconds, tail = part.split("}", 1)
    return f"{float(seconds) / pace:g}{tail}"
