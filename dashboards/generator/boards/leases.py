"""Whether leases are kept: renewals, what is left when they are confirmed, and losses."""
from .. import colours
from ..board import board
from ..panel import bars, heat, lines, table
from ..query import highest, mean, present, quantiles, series

LOSSES = [
    bars(
        "Leases lost",
        "By reason. expired: no renewal was confirmed in time. not_ours: the lock was deleted, or the server lost its data. max_hold: held for max_hold. shutdown: planned. renewal_stopped: the renewal thread stopped.",
        [series("sum by (reason) (increase(leasehold_leases_lost_total{@lock}[@rate]))", "{{reason}}")],
        colours=colours.LOSS,
    ),
    bars(
        "Leases lost, by class",
        "Planned shutdowns left out.",
        [series('sum by (class) (increase(leasehold_leases_lost_total{@lock, reason!="shutdown"}[@rate]))', "{{class}}")],
        shade=colours.BAD,
    ),
    lines(
        "Delay of loss reports",
        "Time from the deadline of a lease to the report of its loss; 0 while no lease is lost at its deadline. The server keeps the lock for the margin longer; above the margin, two owners may hold the lock.",
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
        [series("sum by (class) (leasehold_in_jeopardy{@lock})", "{{class}}")],
    ),
    lines(
        "Leases that entered jeopardy",
        "Times a lease got into jeopardy, by class.",
        [series("sum by (class) (rate(leasehold_lease_jeopardy_total{@lock}[@rate]))", "{{class}}")],
        unit="ops",
    ),
    lines(
        "Unexpected ttls",
        "Renewals that found a ttl that is not possible: the server's clock stepped, or another client changed the lock.",
        [series("sum by (class) (increase(leasehold_ttl_surprises_total{@lock}[@rate]))", "{{class}}")],
    ),
]

RENEWALS = [
    lines(
        "Time left when renewed",
        "Share of the ttl that was left to the deadline when a renewal was confirmed: about 0.6 when all is well. p1 near 0: leases are about to be lost.",
        quantiles("leasehold_renew_margin_ratio", "@lock", (0.01, 0.5)),
        unit="percentunit",
        most=1,
        low=True,
        colours={"p1": colours.LATE, "p50": colours.GOOD},
    ),
    heat(
        "Shares left when renewed",
        "Distribution of these shares. A second, lower band: renewals that needed another try.",
        "leasehold_renew_margin_ratio",
        "@lock",
        unit="percentunit",
    ),
    lines(
        "Renewals confirmed",
        "Renewals of single leases that were confirmed, by class.",
        [series('sum by (class) (rate(leasehold_renewals_total{@lock, result="renewed"}[@rate]))', "{{class}}")],
        unit="ops",
    ),
    lines(
        "Renewals that failed",
        "not_ours: lost. too_late: it reached the server after its latest execution time. The others: why there was no answer. The engine repeats the renewal until the deadline.",
        [series('sum by (result) (rate(leasehold_renewals_total{@lock, result!="renewed"}[@rate]))', "{{result}}")],
        unit="ops",
        colours=colours.without(colours.RENEWAL, "renewed"),
    ),
    lines(
        "Share of renewals that failed",
        "By class.",
        [
            series(
                'sum by (class) (rate(leasehold_renewals_total{@lock, result!="renewed"}[@rate])) '
                "/ sum by (class) (rate(leasehold_renewals_total{@lock}[@rate]))",
                "{{class}}",
            )
        ],
        unit="percentunit",
    ),
    lines(
        "Renewals begun late",
        "How late a renewal batch is sent, by the member that was due first. High while commands are fast: the process is slow, not the server.",
        quantiles("leasehold_renew_lateness_seconds", "@process"),
        unit="s",
        colours=colours.SHARES,
    ),
    lines(
        "Time of a renewal batch",
        "Time from the sending to the answer; error: no member of the batch was answered.",
        quantiles("leasehold_renew_seconds", "@process", (0.99,), by=["result"]),
        unit="s",
        colours={f"p99 {name}": colour for name, colour in colours.RESULT.items()},
    ),
    lines(
        "Leases in a batch",
        "Number of leases in one renewal batch.",
        quantiles("leasehold_renew_batch_size", "@process"),
        colours=colours.SHARES,
    ),
    lines(
        "Time left when renewed, by process",
        "The p1 of each process. If one process is low, it or its network is slow. If all are low, the server is.",
        present(quantiles("leasehold_renew_margin_ratio", "@lock", (0.01,), by=["instance"])),
        unit="percentunit",
        most=1,
        low=True,
    ),
]

CLEAN = "released dropped handed_off"

HOLDS = [
    lines(
        "Held",
        "Leases held now, by class.",
        [series("sum by (class) (leasehold_held{@lock})", "{{class}}")],
        stacked=True,
    ),
    lines(
        "Oldest hold",
        "Age of the oldest lease held now, by class.",
        [series("max by (class) (leasehold_oldest_hold_seconds{@lock})", "{{class}}")],
        unit="s",
    ),
    table(
        "Who holds longest",
        "The processes and classes with the oldest leases now.",
        highest("max by (class, job, instance) (leasehold_oldest_hold_seconds{@lock})"),
        ["class", "job", "instance"],
        unit="s",
        value="Held for",
    ),
    lines(
        "Leases held, of their limit",
        "Leases held, as a share of leases_max. At 1 the engine refuses acquires.",
        [series("sum by (instance) (leasehold_held{@process}) / max by (instance) (leasehold_leases_max{@process})", "{{instance}}")],
        unit="percentunit",
        most=1,
    ),
    lines(
        "Granted, released, lost",
        "Granted = released + lost + what Held grows by.",
        [
            series('sum(rate(leasehold_acquire_total{@lock, outcome="acquired"}[@rate]))', "granted"),
            series("sum(rate(leasehold_release_total{@lock}[@rate]))", "released"),
            series("sum(rate(leasehold_leases_lost_total{@lock}[@rate]))", "lost"),
        ],
        unit="ops",
        colours={"granted": colours.GOOD, "released": colours.QUIET, "lost": colours.BAD},
        dashed=["released"],
    ),
    lines(
        "Releases that were not clean",
        "already_lost: the server did not know the owner as holder. released_or_lost: only a repeated release was answered. unknown: no answer; the engine repeats the release in the background.",
        [series('sum by (outcome) (rate(leasehold_release_total{@lock, outcome!~"released|dropped|handed_off"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.without(colours.RELEASE, CLEAN),
    ),
    lines(
        "Releases",
        "dropped: the holder dropped the lease and got no answer. handed_off: the next caller of the same engine got the lock without a command.",
        [series('sum by (outcome) (rate(leasehold_release_total{@lock, outcome=~"released|dropped|handed_off"}[@rate]))', "{{outcome}}")],
        unit="ops",
        colours=colours.of(colours.RELEASE, CLEAN),
    ),
    lines(
        "Requests that may have been executed",
        "Requests sent and not answered, by operation. The engine asks again, or releases the owner in the background.",
        [series("sum by (operation) (rate(leasehold_attempts_unknown_total{@process}[@rate]))", "{{operation}}")],
        unit="ops",
        colours=colours.OPERATION,
    ),
    lines(
        "Owners being closed",
        "Owners that the engine releases in the background, because a server may still hold something of theirs.",
        [series("sum by (instance) (leasehold_owners_closing{@process})", "{{instance}}")],
    ),
]

WORKED = "ran unconfirmed failed stopped lost dropped"

RECIPES = [
    lines(
        "Elections without a leader",
        "Elections that a process stands in, less those that a process leads. 0: each has a leader. Above 0 for longer than the ttl: at least so many have none among the processes that Prometheus scrapes. Show all instances and classes.",
        [
            series(
                "max by (job, class) (sum by (job, class, instance) (leasehold_elections{@lock})) "
                "- sum by (job, class) (leasehold_leading{@lock})",
                "{{class}} of {{job}}",
            )
        ],
    ),
    table(
        "Who leads",
        "The processes that lead now, and how many elections of each class.",
        highest("sum by (class, job, instance) (leasehold_leading{@lock})"),
        ["class", "job", "instance"],
        value="Leads",
    ),
    bars(
        "Terms won",
        "Terms that candidates won, by class. Many: leaders fail, or lose their leases.",
        [series("sum by (class) (increase(leasehold_terms_begun_total{@lock}[@rate]))", "{{class}}")],
        shade=colours.GOOD,
    ),
    bars(
        "Terms ended",
        "By how. finished: the work returned. resigned: on demand. lost: the lease was lost. shutdown: the engine was shut down. dropped: the candidate was dropped, or its work panicked.",
        [series("sum by (end) (increase(leasehold_terms_ended_total{@lock}[@rate]))", "{{end}}")],
        colours=colours.TERM,
    ),
    bars(
        "Job runs",
        "Runs of jobs that ended, by outcome. unconfirmed: the work is done, but perhaps not under the lock until its end. stopped: it took longer than at_most_for. lost: the lease was lost.",
        [
            series(
                'sum by (outcome) (increase(leasehold_job_runs_total{@lock, outcome!~"already_ran|running|error"}[@rate]))',
                "{{outcome}}",
            )
        ],
        colours=colours.of(colours.JOB, WORKED),
    ),
    bars(
        "Jobs that did not start",
        "Tries without work. already_ran: the job is not due. running: another caller runs it. error: no definite answer, refused, or a limit.",
        [
            series(
                'sum by (outcome) (increase(leasehold_job_runs_total{@lock, outcome=~"already_ran|running|error"}[@rate]))',
                "{{outcome}}",
            )
        ],
        colours=colours.without(colours.JOB, WORKED),
    ),
]

BOARD = board(
    "Leases",
    "Whether leases are kept: renewals, what is left when they are confirmed, and losses.",
    [
        ("Is a lease lost?", LOSSES),
        ("Is one about to be?", RENEWALS),
        ("What is held and given back", HOLDS),
        ("Leaders and jobs", RECIPES),
    ],
)
