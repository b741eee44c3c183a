"""Alerts. Each names the panel that shows it and its place in the runbook.

Classes named `leader` or `..._leader` are left out of the alerts on long waits and holds, which are normal for them.
"""
from .board import uid
from .repository import address
from .rule_file import duration

RUNBOOK = address("dashboards/RUNBOOK.md")
ORDINARY = 'class!~"(.*_)?leader"'
PAGE, TICKET = "page", "ticket"

# Times are in seconds; `{time:N}` in an expression is N seconds at the pace.
ALERTS = [
    {
        "name": "LeaseLost",
        "severity": PAGE,
        "expr": 'job_class_reason:leasehold_leases_lost:increase5m{reason!="shutdown"} > 0.5',
        "for": 0,
        "summary": "{{ $labels.job }} lost leases of class {{ $labels.class }}: {{ $labels.reason }}",
        "description": "About {{ $value | humanize }} leases were lost in 5 minutes. Their holders were told. Two holders may have acted at once.",
        "panel": ("Leases", "Leases lost"),
    },
    {
        "name": "RenewMarginLow",
        "severity": PAGE,
        "expr": "job_class:leasehold_renew_margin_low:ratio5m > 0.01",
        "for": 60,
        "summary": "{{ $labels.job }} renews leases of class {{ $labels.class }} late",
        "description": "{{ $value | humanizePercentage }} of the renewals were confirmed with less than a fifth of the ttl left. Leases are about to be lost.",
        "panel": ("Leases", "Time left when renewed"),
    },
    {
        "name": "RenewFailureRatio",
        "severity": TICKET,
        "expr": "job_class:leasehold_renewals_failed:ratio5m > 0.01",
        "for": 60,
        "summary": "Renewals of {{ $labels.job }} fail, class {{ $labels.class }}",
        "description": "{{ $value | humanizePercentage }} of the renewals were not confirmed.",
        "panel": ("Leases", "Renewals that failed"),
    },
    {
        "name": "WaitP99High",
        "severity": TICKET,
        "expr": f"job_class:leasehold_acquire_wait_seconds:p99_5m{{{ORDINARY}}} > {{time:5}}",
        "for": 120,
        "summary": "Callers of {{ $labels.job }} wait long for locks of class {{ $labels.class }}",
        "description": "One wait in a hundred takes {{ $value | humanizeDuration }} or more.",
        "panel": ("Contention", "Wait for a lock"),
    },
    {
        "name": "OldestWaiter",
        "severity": TICKET,
        "expr": f"max by (job, class) (leasehold_oldest_waiter_seconds{{{ORDINARY}}}) > {{time:60}}",
        "for": 60,
        "summary": "A caller of {{ $labels.job }} does not get its lock of class {{ $labels.class }}",
        "description": "It has waited for {{ $value | humanizeDuration }}.",
        "panel": ("Contention", "Oldest waiter"),
    },
    {
        "name": "StuckHold",
        "severity": TICKET,
        "expr": f"max by (job, class) (leasehold_oldest_hold_seconds{{{ORDINARY}}}) > {{time:300}} "
        "and max by (job, class) (leasehold_oldest_waiter_seconds) > {time:30}",
        "for": 0,
        "summary": "{{ $labels.job }} holds a lock of class {{ $labels.class }} while others wait",
        "description": "It has been held for {{ $value | humanizeDuration }}; it is renewed, so its ttl does not end it.",
        "panel": ("Leases", "Oldest hold"),
    },
    {
        "name": "BackendDown",
        "severity": PAGE,
        "expr": "count by (job, backend) (leasehold_backend_connected == 0) > 0",
        "for": 15,
        "summary": "{{ $value }} processes of {{ $labels.job }} do not reach their lock server",
        "description": "Some locks cannot be had, renewed or released. Leases are lost at their deadline, at most one ttl from now.",
        "panel": ("Backend", "Every slot served"),
    },
    {
        "name": "NoLeader",
        "severity": PAGE,
        "expr": "max by (job, class) (sum by (job, class, instance) (leasehold_elections)) - sum by (job, class) (leasehold_leading) > 0",
        "for": 120,
        "summary": "{{ $labels.job }} has elections without a leader, class {{ $labels.class }}: {{ $value }}",
        "description": "Its processes stand, and none of them leads. What only the leader does is not done, unless a process that is not scraped leads.",
        "panel": ("Leases", "Elections without a leader"),
    },
    {
        "name": "SubscriptionGaps",
        "severity": TICKET,
        "expr": "job_backend:leasehold_subscription_gaps:increase2m > 0.5",
        "for": 300,
        "summary": "{{ $labels.job }} misses notices again and again",
        "description": "About {{ $value | humanize }} times in 2 minutes a waiting lock may have missed that it was released. It is asked for instead: waits grow.",
        "panel": ("Backend", "Notices that may have been missed"),
    },
    {
        "name": "RuntimeStall",
        "severity": TICKET,
        "expr": "job_instance_thread:leasehold_runtime_stalls:increase5m > 0.5",
        "for": 0,
        "summary": "{{ $labels.instance }} of {{ $labels.job }} stood still",
        "description": "Timers of the thread {{ $labels.thread }} were late by more than 250 ms about {{ $value | humanize }} times in 5 minutes.",
        "panel": ("Backend", "Timers late by more than 250 ms"),
    },
    {
        "name": "ClassOverflow",
        "severity": TICKET,
        "expr": "sum by (job) (leasehold_classes_overflow_total) > 0",
        "for": 0,
        "summary": "{{ $labels.job }} uses more lock classes than are told apart",
        "description": "{{ $value }} lock handles count as class _other until the process restarts.",
        "panel": ("Backend", "Locks counted as _other"),
    },
]


def groups(pace):
    rules = [_rule(alert, pace) for alert in ALERTS]
    return [{"name": "leasehold-alerts", "interval": duration(15, pace), "rules": rules}]


def name(alert):
    return "Leasehold" + alert["name"]


def _rule(alert, pace):
    where, title = alert["panel"]
    rule = {"alert": name(alert), "expr": _expression(alert["expr"], pace)}
    if alert["for"]:
        rule["for"] = duration(alert["for"], pace)
    return rule | {
        "labels": {"severity": alert["severity"]},
        "annotations": {
            "summary": alert["summary"],
            "description": alert["description"],
            "dashboard": uid(where),
            "panel": title,
            "runbook_url": f"{RUNBOOK}#{alert['name'].lower()}",
        },
    }


def _expression(text, pace):
    first, *rest = text.split("{time:")
    return first + "".join(_paced(part, pace) for part in rest)


def _paced(part, pace):
    seconds, tail = part.split("}", 1)
    return f"{int(seconds) / pace:g}{tail}"
