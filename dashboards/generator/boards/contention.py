"""Who waits for what, for how long, and what the waiting costs."""
from .. import colours
from ..board import board
from ..panel import heat, lines, shares, table
from ..query import highest, mean, series

WAITS = [
    shares(
        "Wait for a lock",
        "From the acquire call to its lease or to the end of its patience, by class.",
        "leasehold_acquire_wait_seconds",
        "@class",
    ),
    heat(
        "Waits",
        "How waits are spread. Two bands: some get the lock at once, some queue.",
        "leasehold_acquire_wait_seconds",
        "@class",
    ),
    lines(
        "Oldest waiter",
        "How long the caller has waited who waits longest, by class. Shows a wait that has not ended yet, which no histogram does.",
        [series("max by (class) (leasehold_oldest_waiter_seconds{@class})", "{{class}}")],
        unit="s",
    ),
    table(
        "Who waits longest",
        "The processes in which a caller waits for longest now, and for which class.",
        highest("max by (class, job, instance) (leasehold_oldest_waiter_seconds{@class})"),
        ["class", "job", "instance"],
        unit="s",
        value="Waits for",
        wide=12,
    ),
    lines(
        "Callers waiting",
        "Callers that wait now, by class. They end as one of the outcomes below.",
        [series("sum by (class) (leasehold_waiters{@class})", "{{class}}")],
        wide=12,
    ),
    lines(
        "Most callers for one lock",
        "Callers that wait in one process for the lock that most wait for. Near Callers waiting: one hot lock. The log names it once a minute.",
        [series("max by (class) (leasehold_waiters_max{@class})", "{{class}}")],
        wide=12,
    ),
    lines(
        "Locks waited for",
        "Locks that at least one caller of a process waits for.",
        [series("sum by (class) (leasehold_contended{@class})", "{{class}}")],
        wide=12,
    ),
]

GOT_IT = "acquired reentrant"

OUTCOMES = [
    lines(
        "Got the lock",
        "Acquire calls that ended with a lease, and those that share a hold of their scope.",
        [series('sum by (outcome) (rate(leasehold_acquire_total{@class, outcome=~"acquired|reentrant"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.of(colours.ACQUIRE, GOT_IT),
    ),
    lines(
        "Did not get the lock",
        "busy: only tried, and the lock is held. timeout: the wait ended, and the lock was known to be held meanwhile. cancelled: the caller was dropped. error: no definite answer (servers down), refused, a limit, shutdown.",
        [series('sum by (outcome) (rate(leasehold_acquire_total{@class, outcome!~"acquired|reentrant"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.without(colours.ACQUIRE, GOT_IT),
    ),
    lines(
        "Contention ratio",
        "Share of leases that were not to be had at the first ask, by class.",
        [
            series(
                "sum by (class) (rate(leasehold_acquire_contended_total{@class}[@rate])) "
                '/ sum by (class) (rate(leasehold_acquire_total{@class, outcome="acquired"}[@rate]))',
                "{{class}}",
            )
        ],
        unit="percentunit",
        most=1,
    ),
    lines(
        "Calls begun",
        "Acquire calls begun, by class. More than are ended: the queue grows.",
        [series("sum by (class) (rate(leasehold_acquire_started_total{@class}[@rate]))", "{{class}}")],
        unit="ops",
    ),
    lines(
        "Grants without a caller",
        "Grants that found no caller waiting any more and were given back. Many: patience ends just before the turn comes.",
        [series("sum(rate(leasehold_grants_without_caller_total{@process}[@rate]))", "given back")],
        unit="ops",
        colours={"given back": colours.LATE},
    ),
    lines(
        "Waiting, of the most allowed",
        "Callers that wait, as a share of waiters_max. At 1 callers are refused.",
        [series("sum by (instance) (leasehold_waiters{@process}) / max by (instance) (leasehold_callers_max{@process})", "{{instance}}")],
        unit="percentunit",
        most=1,
    ),
]

HOLDS = [
    shares(
        "Time held",
        "From grant to release or loss, by class. The wait grows with this.",
        "leasehold_hold_seconds",
        "@class",
    ),
    heat("Holds", "How the times held are spread.", "leasehold_hold_seconds", "@class"),
    lines(
        "Mean number held",
        "Mean number of leases held at a time, of holds that ended, by class. Near the number of locks that are contended: they are never free.",
        [series("sum by (class) (rate(leasehold_hold_seconds_sum{@class}[@rate]))", "{{class}}")],
    ),
]

WAKEUPS = [
    lines(
        "Asks behind the first, by cause",
        "notice: the lock was released. turn: behind a release of our own. expiry: the holder's time was over. safety_poll and resync: notices may be missing. retry: no answer before.",
        [series("sum by (source) (rate(leasehold_wakeups_total{@class}[@rate]))", "{{source}}")],
        unit="ops",
        colours=colours.SOURCE,
    ),
    lines(
        "Asks behind the first, by result",
        "acquired is useful; lost_race: somebody else was faster; unanswered: the server.",
        [series("sum by (result) (rate(leasehold_wakeups_total{@class}[@rate]))", "{{result}}")],
        unit="ops",
        colours=colours.WAKEUP,
    ),
    shares(
        "Hand-over: notice to lease",
        "From the notice that a lock was released to having it, where the first ask got it. Nothing while no notice leads to a lease: inside one process a lock goes from hand to hand.",
        "leasehold_wakeup_to_acquire_seconds",
        "@class",
    ),
    lines(
        "Asks for one lease",
        "Times the server was asked for each lease granted: what waiting costs the server.",
        [
            series(
                "sum by (class) (rate(leasehold_acquire_attempts_total{@class}[@rate])) "
                '/ sum by (class) (rate(leasehold_acquire_total{@class, outcome="acquired"}[@rate]))',
                "{{class}}",
            )
        ],
    ),
    lines(
        "Mean hand-over",
        "Mean time from notice to lease, all classes.",
        [mean("leasehold_wakeup_to_acquire_seconds", "@class", "mean")],
        unit="s",
        colours=colours.SHARES,
    ),
    lines(
        "Locks of others without expiry",
        "Locks found to be held by somebody else for ever. They are polled; only their holder, or a hand, ends them.",
        [series("sum(increase(leasehold_peers_without_expiry_total{@process}[@rate]))", "without expiry")],
        colours={"without expiry": colours.BAD},
    ),
]

BOARD = board(
    "Contention",
    "Who waits for what, for how long, and what the waiting costs.",
    [
        ("Who waits", WAITS),
        ("How acquire calls end", OUTCOMES),
        ("How long locks are held", HOLDS),
        ("How waiters learn that a lock is free", WAKEUPS),
    ],
)
