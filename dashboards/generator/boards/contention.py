"""Who waits for what, for how long, and what the waiting costs."""
from .. import colours
from ..board import board
from ..panel import heat, lines, shares, table
from ..query import highest, mean, quantiles, series

WAITS = [
    shares(
        "Wait for a lock",
        "Time from the acquire call to its lease or to the end of its wait, by class.",
        "leasehold_acquire_wait_seconds",
        "@lock",
    ),
    heat(
        "Waits",
        "Distribution of waits. Two bands: some callers get the lock at once, others queue.",
        "leasehold_acquire_wait_seconds",
        "@lock",
    ),
    lines(
        "Oldest waiter",
        "Wait so far of the caller that has waited longest, by class. Shows waits that have not ended, which no histogram does.",
        [series("max by (class) (leasehold_oldest_waiter_seconds{@lock})", "{{class}}")],
        unit="s",
    ),
    table(
        "Who waits longest",
        "The processes and classes with the longest waits now.",
        highest("max by (class, job, instance) (leasehold_oldest_waiter_seconds{@lock})"),
        ["class", "job", "instance"],
        unit="s",
        value="Waits for",
        wide=12,
    ),
    lines(
        "Callers waiting",
        "Callers waiting now, by class. Each wait ends with one of the outcomes below.",
        [series("sum by (class) (leasehold_waiters{@lock})", "{{class}}")],
        wide=12,
    ),
    lines(
        "Most callers for one lock",
        "Callers of one process waiting for the lock that has the most of them. Near Callers waiting: one lock is hot. Hottest locks names it, if the metric is switched on; the log does once a minute.",
        [series("max by (class) (leasehold_waiters_max{@lock})", "{{class}}")],
        wide=12,
    ),
    lines(
        "Locks waited for",
        "Locks with at least one waiting caller of a process.",
        [series("sum by (class) (leasehold_contended{@lock})", "{{class}}")],
        wide=12,
    ),
    lines(
        "Hottest locks",
        "The locks by name that callers of all processes waited for longest: the length of all waits that ended in the last one to two minutes, of the ten first locks of each process. Needs hot_lock_names = true in [engine] of these processes; everyone who sees the board then sees the names.",
        [series("topk(10, sum by (lock) (leasehold_hot_lock_wait_seconds{@process}))", "{{lock}}")],
        unit="s",
        wide=24,
        nothing="No names: in the last two minutes no wait has ended, or the processes do not export names. Set hot_lock_names = true in [engine] to see them.",
    ),
]

GOT_IT = "acquired reentrant"

OUTCOMES = [
    lines(
        "Got the lock",
        "Acquire calls that ended with a lease, and calls that share a hold of their scope.",
        [series('sum by (outcome) (rate(leasehold_acquire_total{@lock, outcome=~"acquired|reentrant"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.of(colours.ACQUIRE, GOT_IT),
    ),
    lines(
        "Did not get the lock",
        "busy: try_acquire found the lock held. timeout: the wait ended while the lock was known to be held. cancelled: the caller was dropped. error: no definite answer (servers down), refused, a limit, shutdown.",
        [series('sum by (outcome) (rate(leasehold_acquire_total{@lock, outcome!~"acquired|reentrant"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.without(colours.ACQUIRE, GOT_IT),
    ),
    lines(
        "Contention ratio",
        "Share of leases that the first ask did not get, by class.",
        [
            series(
                "sum by (class) (rate(leasehold_acquire_contended_total{@lock}[@rate])) "
                '/ sum by (class) (rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate]))',
                "{{class}}",
            )
        ],
        unit="percentunit",
        most=1,
    ),
    lines(
        "Calls begun",
        "Acquire calls begun, by class. If more calls begin than end, the queue grows.",
        [series("sum by (class) (rate(leasehold_acquire_started_total{@lock}[@rate]))", "{{class}}")],
        unit="ops",
    ),
    lines(
        "Grants without a caller",
        "Grants that no caller took, and that were given back. Many: waits end just before the grant, or futures of acquire are "
        "alive and not polled for more than 200 ms.",
        [series("sum(rate(leasehold_grants_without_caller_total{@process}[@rate]))", "given back")],
        unit="ops",
        colours={"given back": colours.LATE},
    ),
    lines(
        "Multi locks and quorums",
        "Acquire calls of multi locks and of locks of a quorum ended, by outcome. Their members count above, too.",
        [
            series(
                "sum by (composition, outcome) (rate(leasehold_composition_acquire_total{@process}[@rate]))",
                "{{composition}} {{outcome}}",
            )
        ],
        unit="ops",
    ),
    lines(
        "Callers waiting, of their limit",
        "Callers waiting, as a share of waiters_max. At 1 the engine refuses callers.",
        [series("sum by (instance) (leasehold_waiters{@process}) / max by (instance) (leasehold_callers_max{@process})", "{{instance}}")],
        unit="percentunit",
        most=1,
        wide=24,
    ),
]

HOLDS = [
    shares(
        "Time held",
        "Time from the grant to the release or the loss, by class. Waits grow with it.",
        "leasehold_hold_seconds",
        "@lock",
    ),
    heat("Holds", "Distribution of the times held.", "leasehold_hold_seconds", "@lock"),
    lines(
        "Mean number held",
        "Mean number of leases held at a time, of holds that ended, by class. Near the number of contended locks: these locks are never free.",
        [series("sum by (class) (rate(leasehold_hold_seconds_sum{@lock}[@rate]))", "{{class}}")],
    ),
]

WAKEUPS = [
    lines(
        "Further asks, by cause",
        "notice: the lock was released. turn: this process released the lock just before. expiry: the ttl of the holder ended. poll: a spin lock was held at the last poll. safety_poll and resync: notices may be missing. retry: no answer before.",
        [series("sum by (source) (rate(leasehold_wakeups_total{@lock}[@rate]))", "{{source}}")],
        unit="ops",
        colours=colours.SOURCE,
    ),
    lines(
        "Asks behind the first, by result",
        "acquired: the ask got the lock. lost_race: another owner was faster. unanswered: the server did not answer.",
        [series("sum by (result) (rate(leasehold_wakeups_total{@lock}[@rate]))", "{{result}}")],
        unit="ops",
        colours=colours.WAKEUP,
    ),
    shares(
        "Hand-over: notice to lease",
        "Time from the notice of a release to the grant, where the first ask got the lock. Empty while no notice leads to a lease: callers of one process hand a lock over without a notice.",
        "leasehold_wakeup_to_acquire_seconds",
        "@lock",
    ),
    lines(
        "Asks for one lease",
        "Asks of the server for each lease granted: the requests that one lease costs.",
        [
            series(
                "sum by (class) (rate(leasehold_acquire_attempts_total{@lock}[@rate])) "
                '/ sum by (class) (rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate]))',
                "{{class}}",
            )
        ],
    ),
    lines(
        "Mean hand-over",
        "Mean time from notice to lease, all classes.",
        [mean("leasehold_wakeup_to_acquire_seconds", "@lock", "mean")],
        unit="s",
        colours=colours.SHARES,
    ),
    lines(
        "Locks of others without expiry",
        "Locks of other clients found without expiry. The engine polls them; only the holder, or an operator, ends them.",
        [series("sum(increase(leasehold_peers_without_expiry_total{@process}[@rate]))", "without expiry")],
        colours={"without expiry": colours.BAD},
    ),
    lines(
        "Places lost in the lines of fair locks",
        "Waiting callers whose place the server had removed. They went to the end of the line: the engine was too slow.",
        [series("sum(increase(leasehold_places_lost_total{@process}[@rate]))", "places lost")],
        colours={"places lost": colours.BAD},
        wide=24,
    ),
]

COUNTERS = [
    lines(
        "Calls on semaphores and latches",
        "Calls ended, by outcome. unknown: no answer came, and the call may have counted.",
        [series("sum by (outcome) (rate(leasehold_counter_calls_total{@process}[@rate]))", "{{outcome}}")],
        unit="ops",
        colours=colours.COUNT,
        wide=12,
    ),
    lines(
        "Time of such a call, p99",
        "Time from the call to its end, of calls that were done: waiting for permits or for an open latch included.",
        quantiles("leasehold_counter_wait_seconds", "@process", (0.99,), by=["counter"]),
        unit="s",
        colours={"p99 semaphore": colours.QUIET, "p99 latch": "purple"},
        wide=12,
    ),
]

KINDS = [
    lines(
        "Leases granted, by kind",
        "Leases granted for each kind of lock. read and write are the two sides of a read/write lock; permits expire.",
        [series('sum by (kind) (rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate]))', "{{kind}}")],
        unit="ops",
        colours=colours.KIND,
        wide=12,
    ),
    lines(
        "Wait for a lock, p99, by kind",
        "Time from the acquire call to its lease or to the end of its wait. Readers that wait for long: a writer holds the lock, or one is always next.",
        quantiles("leasehold_acquire_wait_seconds", "@lock", (0.99,), by=["kind"]),
        unit="s",
        colours={f"p99 {kind}": colour for kind, colour in colours.KIND.items()},
        wide=12,
    ),
    lines(
        "Held, by kind",
        "Leases held now, for each kind of lock.",
        [series("sum by (kind) (leasehold_held{@lock})", "{{kind}}")],
        colours=colours.KIND,
        wide=12,
    ),
    lines(
        "Asks for one lease, by kind",
        "Asks of the server for each lease granted. A spin lock asks most: it is told of no release.",
        [
            series(
                "sum by (kind) (rate(leasehold_acquire_attempts_total{@lock}[@rate])) "
                '/ sum by (kind) (rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate]))',
                "{{kind}}",
            )
        ],
        colours=colours.KIND,
        wide=12,
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
        ("Kinds of locks side by side", KINDS),
        ("Semaphores and latches", COUNTERS),
    ],
)
