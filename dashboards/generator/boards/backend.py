"""Whether it is the server, the way to it, or this process."""
from .. import colours
from ..board import board
from ..panel import bars, heat, lines, states, table
from ..query import quantiles, series

REACHED = [
    states(
        "Every slot served",
        "1: every slot is served by a connected node. 0: the process cannot get some locks.",
        [series("min by (job, instance, backend) (leasehold_backend_connected{@process})", "{{instance}} {{backend}}")],
    ),
    states(
        "Nodes connected",
        "1: a checked connection to the node stands in all processes. 0: at least one process has none.",
        [series("min by (backend, node) (leasehold_backend_up{@process})", "{{node}}")],
    ),
    bars(
        "Reconnects",
        "Times a disconnected node was connected again.",
        [series("sum by (instance) (increase(leasehold_backend_reconnects_total{@process}[@rate]))", "{{instance}}")],
        shade=colours.LATE,
    ),
    bars(
        "Changes of the topology",
        "Changes of nodes, slots or connections.",
        [series("sum by (instance) (changes(leasehold_topology_epoch{@process}[@rate]))", "{{instance}}")],
    ),
    table(
        "Versions and transports",
        "Processes by version of the engine and transport.",
        series("count by (job, version, backend) (leasehold_build_info{@process})", ""),
        ["version", "backend", "job"],
        value="Processes",
    ),
    table(
        "Engines and their labels",
        "The label of each engine (service@host unless it is set), as in its logs, in CLIENT LIST of the server and in leasehold who.",
        series("count by (engine_label, job, instance, version) (leasehold_build_info{@process})", ""),
        ["engine_label", "job", "instance", "version"],
        value="Engines",
    ),
    lines(
        "Topology epoch",
        "Number that rises with every change of nodes, slots or connections.",
        [series("max by (instance) (leasehold_topology_epoch{@process})", "{{instance}}")],
        wide=6,
    ),
    bars(
        "Requests followed to another node",
        "moved: the node serves the slot now. ask: the key is moving there. Only clusters redirect.",
        [series("sum by (type) (increase(leasehold_backend_redirects_total{@process}[@rate]))", "{{type}}")],
        colours=colours.REDIRECT,
        wide=6,
    ),
    lines(
        "Clocks of the nodes",
        "Clock of each node minus the clock of this machine, as each process sees it. A step, or a difference between nodes above the margin of a lease (5 % of its ttl, at least 100 ms), can give a lock to two holders. Fencing tokens fall when the node that takes over is behind.",
        [series("max by (instance, node) (leasehold_clock_offset_seconds{@process})", "{{node}} of {{instance}}")],
        unit="s",
        least=None,
        wide=6,
    ),
    lines(
        "Clocks apart",
        "The fastest clock of a node minus the slowest, as each process sees them. If a node takes over from one whose clock differs by more than the margin of a lease, two holders may have a lock.",
        [
            series(
                "max by (job, instance, backend) (leasehold_clock_offset_seconds{@process}) "
                "- min by (job, instance, backend) (leasehold_clock_offset_seconds{@process})",
                "{{instance}} {{backend}}",
            )
        ],
        unit="s",
        wide=6,
    ),
]

COMMANDS = [
    lines(
        "Time of a command",
        "Time from the sending to the answer, by operation.",
        quantiles("leasehold_backend_command_seconds", "@process", by=["operation"]),
        unit="s",
        colours=colours.shares(colours.OPERATION),
    ),
    heat(
        "Times of commands",
        "Distribution of these times, for all operations.",
        "leasehold_backend_command_seconds",
        "@process",
    ),
    lines(
        "Commands answered",
        "By operation.",
        [series('sum by (operation) (rate(leasehold_backend_command_seconds_count{@process, result="ok"}[@rate]))', "{{operation}}")],
        unit="ops",
        colours=colours.OPERATION,
    ),
    lines(
        "Commands that failed, by cause",
        "Requests without a definite answer. not_ready: the server loads, fails over, or has too few replicas. misconfigured: a missing right, out of memory, a missing command.",
        [series("sum by (error) (rate(leasehold_backend_errors_total{@process}[@rate]))", "{{error}}")],
        unit="ops",
        colours=colours.TROUBLE,
    ),
    lines(
        "Commands that failed, by operation",
        "The same requests, by operation.",
        [series("sum by (operation) (rate(leasehold_backend_errors_total{@process}[@rate]))", "{{operation}}")],
        unit="ops",
        colours=colours.OPERATION,
    ),
    lines(
        "Renewal batches",
        "Time of a batch, from the sending to the answer.",
        quantiles("leasehold_renew_seconds", "@process"),
        unit="s",
        colours=colours.SHARES,
    ),
    lines(
        "Acquires and releases sent together",
        "Calls in groups, and the commands that carried them. A node with little to do gets each call alone, and both are 0.",
        [
            series("sum(rate(leasehold_group_commit_size_sum{@process}[@rate]))", "calls"),
            series("sum(rate(leasehold_group_commit_size_count{@process}[@rate]))", "commands"),
        ],
        unit="ops",
        colours={"calls": colours.GOOD, "commands": colours.QUIET},
        wide=12,
    ),
    lines(
        "Calls that wait to be sent",
        "Acquires and releases that wait for their node, and the silent nodes: a call had no answer in time, and the node has answered nothing since. A silent node gets one call at a time; calls that were not sent leave nothing to close.",
        [
            series("sum(leasehold_unsent_calls{@process})", "unsent calls"),
            series("sum(leasehold_silent_nodes{@process})", "silent nodes"),
        ],
        colours={"unsent calls": colours.QUIET, "silent nodes": colours.BAD},
        wide=12,
    ),
]

NOTICES = [
    lines(
        "Subscriptions",
        "Locks with waiting callers, and the locks among them whose notices reach the process. The process holds the other "
        "locks itself and needs no notice, or polls them: Contention, Asks behind the first.",
        [
            series("sum(leasehold_subscriptions{@process})", "subscribed"),
            series("sum(leasehold_contended{@process})", "waited for"),
        ],
        colours={"subscribed": colours.GOOD, "waited for": colours.QUIET},
        wide=12,
    ),
    bars(
        "Notices that may have been missed",
        "Times a lock with waiting callers may have missed a notice. The engine asks for the lock instead.",
        [series("sum by (instance, backend) (increase(leasehold_subscription_gaps_total{@process}[@rate]))", "{{instance}} {{backend}}")],
        wide=12,
        shade=colours.LATE,
    ),
]

PROCESS = [
    bars(
        "Timers late by more than 250 ms",
        "Times a timer of an engine thread fired that late: the process was stopped, had too little CPU, or was throttled. Explains losses without a server error.",
        [
            series(
                "sum by (instance, thread) (increase(leasehold_runtime_stall_seconds_count{@process}[@rate])) "
                '- sum by (instance, thread) (increase(leasehold_runtime_stall_seconds_bucket{@process, le="0.25"}[@rate]))',
                "{{instance}} {{thread}}",
            )
        ],
        wide=12,
    ),
    lines(
        "Late timers, p99",
        "How late these timers fire.",
        quantiles("leasehold_runtime_stall_seconds", "@process", (0.99,), by=["thread"]),
        unit="s",
        colours={f"p99 {name}": colour for name, colour in colours.THREAD.items()},
        wide=12,
    ),
    lines(
        "Lock classes",
        "Classes known; the 65th and later ones count as _other.",
        [series("max by (instance) (leasehold_classes{@process})", "{{instance}}")],
        wide=12,
    ),
    lines(
        "Locks counted as _other",
        "Lock handles whose class was refused, since the process started. They count as class _other.",
        [series("sum by (instance) (leasehold_classes_overflow_total{@process})", "{{instance}}")],
        wide=12,
    ),
    lines(
        "Events and log lines dropped",
        "Events that the recorder missed, and log lines that the tracing subscriber missed, per second: it is too slow, or it panicked.",
        [
            series(
                "sum by (instance, listener) (rate(leasehold_telemetry_dropped_total{@process}[@rate]))",
                "{{instance}} {{listener}}",
            )
        ],
        wide=24,
    ),
]

BOARD = board(
    "Backend",
    "Whether it is the server, the way to it, or this process.",
    [
        ("Is the server reached?", REACHED),
        ("Is it fast, and what does it refuse?", COMMANDS),
        ("Do notices arrive?", NOTICES),
        ("Is it this process?", PROCESS),
    ],
)
