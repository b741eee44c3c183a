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
GOT_IT = {name: ACQUIRE[name] for name in ("acquired", "reentrant")}
RELEASE = {
    "released": GOOD,
    "dropped": "super-light-green",
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
    "resync": LATE,
    "retry": BAD,
}
OPERATION = {"acquire": QUIET, "release": GOOD, "renew": "purple"}
RESULT = {"ok": GOOD, "error": BAD}
REDIRECT = {"moved": QUIET, "ask": LATE}
THREAD = {"calls": QUIET, "renewal": "purple"}


def overrides(colours):
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for name, colour in colours.items()
    ]
