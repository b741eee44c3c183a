"""In ten seconds: is a lease lost, is one about to be, who waits for what, and is it the lock, the process or the server."""
from .. import colours
from ..board import board
from ..colours import BAD, LATE
from ..panel import bars, lines, number, table, yes
from ..query import highest, quantiles, series

GLANCE = [
    number(
        "Leases lost",
        "Leases lost in the time shown, planned shutdowns left out. Anything above 0: two holders may have acted. Board Leases.",
        series('sum(increase(leasehold_leases_lost_total{@lock, reason!="shutdown"}[$__range]))', "lost") | {"instant": True},
        steps=[(0.5, BAD)],
        decimals=0,
    ),
    number(
        "In jeopardy",
        "Leases held now whose last renewal was not confirmed, or whose server is another one. They are lost at their deadline unless the server answers.",
        series("sum(leasehold_in_jeopardy{@lock})", "in jeopardy"),
        steps=[(1, LATE)],
    ),
    number(
        "Renewals failed",
        "Share of renewals that were not confirmed.",
        series(
            'sum(rate(leasehold_renewals_total{@lock, result!="renewed"}[@rate])) '
            "/ clamp_min(sum(rate(leasehold_renewals_total{@lock}[@rate])), 1e-9)",
            "failed",
        ),
        unit="percentunit",
        steps=[(0.001, LATE), (0.01, BAD)],
    ),
    yes(
        "Server reached",
        "no: at least one process is not connected to at least one master, and cannot get its locks now. Board Backend.",
        series("min(leasehold_backend_connected{@process})", "connected"),
    ),
    number(
        "Waiting now",
        "Callers waiting for a lock now.",
        series("sum(leasehold_waiters{@lock})", "waiting"),
        base=colours.QUIET,
    ),
    number(
        "Oldest wait",
        "Wait so far of the caller that has waited longest.",
        series("max(leasehold_oldest_waiter_seconds{@lock})", "oldest"),
        unit="s",
        steps=[(10, LATE), (60, BAD)],
    ),
    number(
        "Contention",
        "Share of leases that the first ask did not get.",
        series(
            "sum(rate(leasehold_acquire_contended_total{@lock}[@rate])) "
            '/ clamp_min(sum(rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate])), 1e-9)',
            "contended",
        ),
        unit="percentunit",
        base=colours.QUIET,
    ),
    number("Held now", "Leases held now.", series("sum(leasehold_held{@lock})", "held"), base=colours.QUIET),
]

LOSS = [
    bars(
        "Leases lost, by reason",
        "expired: no renewal was confirmed in time. not_ours: the server does not know the owner as holder. max_hold: held for max_hold. renewal_stopped: the renewal thread stopped.",
        [series("sum by (reason) (increase(leasehold_leases_lost_total{@lock}[@rate]))", "{{reason}}")],
        colours=colours.LOSS,
    ),
    lines(
        "Time left when renewed",
        "Share of the ttl that was left when a renewal was confirmed: about 0.6 when all is well. p1 near 0: leases are about to be lost.",
        quantiles("leasehold_renew_margin_ratio", "@lock", (0.01, 0.5)),
        unit="percentunit",
        most=1,
        low=True,
        colours={"p1": LATE, "p50": colours.GOOD},
    ),
    lines(
        "Renewals not confirmed",
        "Renewals of single leases that failed, by result.",
        [series('sum by (result) (rate(leasehold_renewals_total{@lock, result!="renewed"}[@rate]))', "{{result}}")],
        unit="ops",
        colours=colours.without(colours.RENEWAL, "renewed"),
    ),
]

WAITING = [
    lines(
        "Leases granted",
        "Leases returned to callers, by class.",
        [series('sum by (class) (rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate]))', "{{class}}")],
        unit="ops",
    ),
    lines(
        "Wait for a lock, p99",
        "Time from the acquire call to its lease or to the end of its wait, by class. Board Contention.",
        quantiles("leasehold_acquire_wait_seconds", "@lock", (0.99,), by=["class"]),
        unit="s",
    ),
    table(
        "Who waits now",
        "Callers waiting now, by class and process. The log names the most contended locks.",
        highest("sum by (class, job, instance) (leasehold_waiters{@lock})"),
        ["class", "job", "instance"],
        value="Waiting",
    ),
]

CAUSE = [
    lines(
        "Lock: mean number held",
        "Mean number of leases held at a time, of holds that ended, by class. Near the number of contended locks: these locks are saturated, so hold them for less time.",
        [series("sum by (class) (rate(leasehold_hold_seconds_sum{@lock}[@rate]))", "{{class}}")],
    ),
    lines(
        "Process: late timers, p99",
        "How late timers of the engine's threads fire. High: the process was stopped, had too little CPU, or was throttled.",
        quantiles("leasehold_runtime_stall_seconds", "@process", (0.99,), by=["thread"]),
        unit="s",
        colours={"p99 calls": colours.QUIET, "p99 renewal": "purple"},
    ),
    lines(
        "Server: time of a command, p99",
        "Time from the sending to the answer, as the engine sees it. Board Backend.",
        quantiles("leasehold_backend_command_seconds", "@process", (0.99,), by=["operation"]),
        unit="s",
        colours={f"p99 {name}": colour for name, colour in colours.OPERATION.items()},
    ),
]

BOARD = board(
    "Overview",
    "Is a lease lost? Is one about to be? Who waits? Is it the lock, the process or the server?",
    [
        ("At a glance", GLANCE),
        ("Is a lease lost, or about to be?", LOSS),
        ("Who waits, for how long?", WAITING),
        ("Is it the lock, the process or the server?", CAUSE),
    ],
)
