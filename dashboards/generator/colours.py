"""One colour for each outcome, the same on every board: what was granted is green, what was lost is red."""

GOOD, BAD, LATE, QUIET = "green", "red", "orange", "blue"

ACQUIRE = {
    "acquired": GOOD,
    "reentrant": "super-light-green",
    "busy": QUIET,
    "timeout": LATE,
    "cancelled": "purple",
    "error": BAD,
}
COUNT = {
    "done": GOOD,
    "busy": QUIET,
    "timeout": LATE,
    "cancelled": "purple",
    "unknown": "dark-purple",
    "error": BAD,
}
RELEASE = {
    "released": GOOD,
    "dropped": "super-light-green",
    "handed_off": "blue",
    "already_lost": BAD,
    "released_or_lost": LATE,
    "unknown": "purple",
}
LOSS = {
    "expired": BAD,
    "not_ours": "dark-red",
    "max_hold": "light-red",
    "shutdown": "super-light-red",
    "renewal_stopped": "semi-dark-red",
}
TROUBLE = {
    "unreachable": BAD,
    "timed_out": LATE,
    "not_ready": "yellow",
    "denied": "purple",
    "wrong_type": "dark-purple",
    "misconfigured": "light-purple",
    "protocol": "dark-orange",
}
RENEWAL = {"renewed": GOOD, "not_ours": "dark-red", "too_late": "light-red"} | TROUBLE
WAKEUP = {"acquired": GOOD, "lost_race": QUIET, "unanswered": BAD}
SOURCE = {
    "notice": GOOD,
    "turn": "super-light-green",
    "expiry": QUIET,
    "safety_poll": "yellow",
    "poll": "light-blue",
    "resync": LATE,
    "retry": BAD,
}
# None is good or bad: they are shown with what failed, too.
OPERATION = {"acquire": QUIET, "release": "yellow", "renew": "purple", "count": "orange", "beat": "blue"}
RESULT = {"ok": GOOD, "error": BAD}
REDIRECT = {"moved": QUIET, "ask": LATE}
# None is good or bad.
KIND = {
    "exclusive": QUIET,
    "fenced": "purple",
    "spin": "yellow",
    "read": "light-blue",
    "write": "dark-blue",
    "fair": GOOD,
    "permits": LATE,
}
TERM = {
    "finished": GOOD,
    "resigned": QUIET,
    "lost": BAD,
    "shutdown": "super-light-red",
    "dropped": "purple",
}
JOB = {
    "ran": GOOD,
    "unconfirmed": "yellow",
    "failed": BAD,
    "stopped": LATE,
    "lost": "dark-red",
    "dropped": "purple",
    "already_ran": QUIET,
    "running": "light-blue",
    "error": "dark-orange",
}
THREAD = {"calls": QUIET, "renewal": "purple"}


# A high share and a middle one of the same thing.
SHARES = {"p99": "purple", "p50": QUIET, "mean": QUIET}


def shares(colours):
    """Lines named like `p99 renew`, the middle lighter."""
    high = {f"p99 {name}": colour for name, colour in colours.items()}
    return high | {f"p50 {name}": f"light-{colour}" for name, colour in colours.items()}


def of(colours, names):
    """Those of a panel that shows only these outcomes."""
    return {name: colours[name] for name in names.split()}


def without(colours, names):
    return {name: colour for name, colour in colours.items() if name not in names.split()}


# The middle of each class beside its high share, whose colour is the class's.
MIDDLE = {
    "matcher": {"id": "byFrameRefID", "options": "B"},
    "properties": [
        {"id": "color", "value": {"mode": "shades", "fixedColor": "purple"}},
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
    ],
}


def overrides(colours, dashed=()):
    return [
        {"matcher": {"id": "byName", "options": name}, "properties": _properties(colour, name in dashed)}
        for name, colour in colours.items()
    ]


def _properties(colour, dashed):
    fixed = {"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}
    dashes = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}
    return [fixed, dashes] if dashed else [fixed]
