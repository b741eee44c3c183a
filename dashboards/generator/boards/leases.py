"""Whether leases are kept: renewals, what is left when they are confirmed, and losses."""
from .. import colours
from ..board import board
from ..panel import bars, heat, lines, table
from ..query import highest, mean, present, quantiles, series

LOSSES = [
    bars(
        "Leases lost",
        "By reason. expired: no renewal was confirmed in time. not_ours: the server says so: deleted, or a server that forgot. max_hold: held longer than allowed. shutdown: planned. renewal_stopped: the thread that renews stood still.",
        [series("sum by (reason) (increase(leasehold_leases_lost_total{@class}[@rate]))", "{{reason}}")],
        colours=colours.LOSS,
    ),
    bars(
        "Leases lost, by class",
        "Planned shutdowns left out.",
        [series('sum by (class) (increase(leasehold_leases_lost_total{@class, reason!="shutdown"}[@rate]))', "{{class}}")],
        shade=colours.BAD,
    ),
    lines(
        "Told after the deadline",
        "From the deadline of a lease to the report of its loss; 0 while none is lost at its deadline. The server keeps the lock for the margin longer; above it, two may hold.",
        [
            mean("leasehold_lease_lost_detected_seconds", "@process", "mean"),
            *quantiles("leasehold_lease_lost_detected_seconds", "@process", (0.99,)),
        ],
        unit="s",
        colours=colours.SHARES,
    ),
    lines(
        "In jeopardy now",
        "Leases whose last renewal was not confirmed, or whose server is another one, by class.",
        [series("sum by (class) (leasehold_in_jeopardy{@class})", "{{class}}")],
    ),
    lines(
        "Into jeopardy",
        "Times a lease got into jeopardy, by class.",
        [series("sum by (class) (rate(leasehold_lease_jeopardy_total{@class}[@rate]))", "{{class}}")],
        unit="ops",
    ),
    lines(
        "Clocks and foreign hands",
        "Renewals that found a ttl that cannot be: the server's clock stepped, or another hand changed the lock.",
        [series("sum by (class) (increase(leasehold_ttl_surprises_total{@class}[@rate]))", "{{class}}")],
    ),
]

RENEWALS = [
    lines(
        "Time left when renewed",
        "Share of the ttl that was left to the deadline when a renewal was confirmed: about 0.6 when all is well. p1 near 0: leases are about to be lost.",
        quantiles("leasehold_renew_margin_ratio", "@class", (0.01, 0.5)),
        unit="percentunit",
        most=1,
        low=True,
        colours={"p1": colours.LATE, "p50": colours.GOOD},
    ),
    heat(
        "Shares left when renewed",
        "How they are spread. A second, lower band: renewals that needed another try.",
        "leasehold_renew_margin_ratio",
        "@class",
        unit="percentunit",
    ),
    lines(
        "Renewals confirmed",
        "Renewals of single leases that were confirmed, by class.",
        [series('sum by (class) (rate(leasehold_renewals_total{@class, result="renewed"}[@rate]))', "{{class}}")],
        unit="ops",
    ),
    lines(
        "Renewals that failed",
        "not_ours: lost. too_late: it reached the server after its latest execution time. The others: why there was no answer; it is tried again until the deadline.",
        [series('sum by (result) (rate(leasehold_renewals_total{@class, result!="renewed"}[@rate]))', "{{result}}")],
        unit="ops",
        colours=colours.without(colours.RENEWAL, "renewed"),
    ),
    lines(
        "Share of renewals that failed",
        "By class.",
        [
            series(
                'sum by (class) (rate(leasehold_renewals_total{@class, result!="renewed"}[@rate])) '
                "/ sum by (class) (rate(leasehold_renewals_total{@class}[@rate]))",
                "{{class}}",
            )
        ],
        unit="percentunit",
    ),
    lines(
        "Renewals begun late",
        "How late a batch of renewals is sent, measured by the one of it that was due first. High while commands are fast: this process, not the server.",
        quantiles("leasehold_renew_lateness_seconds", "@process"),
        unit="s",
        colours=colours.SHARES,
    ),
    lines(
        "Time of a renewal batch",
        "Sent to answered; error: no member was answered.",
        quantiles("leasehold_renew_seconds", "@process", (0.99,), by=["result"]),
        unit="s",
        colours={f"p99 {name}": colour for name, colour in colours.RESULT.items()},
    ),
    lines(
        "Leases in a batch",
        "How many leases one renewal batch carries.",
        quantiles("leasehold_renew_batch_size", "@process"),
        colours=colours.SHARES,
    ),
    lines(
        "Time left when renewed, by process",
        "p1 of it. One process that is low: it is that process, or its way to the server. All: the server.",
        present(quantiles("leasehold_renew_margin_ratio", "@class", (0.01,), by=["instance"])),
        unit="percentunit",
        most=1,
        low=True,
    ),
]

CLEAN = "released dropped"

HOLDS = [
    lines(
        "Held",
        "Leases held now, by class.",
        [series("sum by (class) (leasehold_held{@class})", "{{class}}")],
        stacked=True,
    ),
    lines(
        "Oldest hold",
        "How long the lease has been held that is held longest, by class.",
        [series("max by (class) (leasehold_oldest_hold_seconds{@class})", "{{class}}")],
        unit="s",
    ),
    table(
        "Who holds longest",
        "The processes that hold a lease for longest now, and of which class.",
        highest("max by (class, job, instance) (leasehold_oldest_hold_seconds{@class})"),
        ["class", "job", "instance"],
        unit="s",
        value="Held for",
    ),
    lines(
        "Held, of the most allowed",
        "Leases held, as a share of leases_max. At 1 acquires are refused.",
        [series("sum by (instance) (leasehold_held{@process}) / max by (instance) (leasehold_leases_max{@process})", "{{instance}}")],
        unit="percentunit",
        most=1,
    ),
    lines(
        "Granted, released, lost",
        "Granted = released + lost + what Held grows by.",
        [
            series('sum(rate(leasehold_acquire_total{@class, outcome="acquired"}[@rate]))', "granted"),
            series("sum(rate(leasehold_release_total{@class}[@rate]))", "released"),
            series("sum(rate(leasehold_leases_lost_total{@class}[@rate]))", "lost"),
        ],
        unit="ops",
        colours={"granted": colours.GOOD, "released": colours.QUIET, "lost": colours.BAD},
        dashed=["released"],
    ),
    lines(
        "Releases that were not clean",
        "already_lost: the server did not know it as ours. released_or_lost: only a repeat was answered. unknown: no answer; repeated in the background.",
        [series('sum by (outcome) (rate(leasehold_release_total{@class, outcome!~"released|dropped"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.without(colours.RELEASE, CLEAN),
    ),
    lines(
        "Releases",
        "dropped: released by dropping the lease, without an answer for its holder.",
        [series('sum by (outcome) (rate(leasehold_release_total{@class, outcome=~"released|dropped"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.of(colours.RELEASE, CLEAN),
    ),
    lines(
        "Requests that may have been executed",
        "Sent, but not answered, by operation. The engine asks again or closes the owner.",
        [series("sum by (operation) (rate(leasehold_attempts_unknown_total{@process}[@rate]))", "{{operation}}")],
        unit="ops",
        colours=colours.OPERATION,
    ),
    lines(
        "Owners being closed",
        "Owners whose release is repeated in the background, because something of them may still be on a server.",
        [series("sum by (instance) (leasehold_owners_closing{@process})", "{{instance}}")],
    ),
]

BOARD = board(
    "Leases",
    "Whether leases are kept: renewals, what is left when they are confirmed, and losses.",
    [
        ("Is a lease lost?", LOSSES),
        ("Is one about to be?", RENEWALS),
        ("What is held and given back", HOLDS),
    ],
)
