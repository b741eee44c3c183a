"""What the boards take from the alerts and the runbook: the line of a threshold, and links to what to do."""
import re

from . import alerts
from .board import uid
from .colours import BAD
from .repository import CHECKOUT

# The alert whose part of the runbook is about a row, for panels that no part names.
ROWS = {
    "At a glance": "LeaseLost",
    "Is a lease lost, or about to be?": "LeaseLost",
    "Who waits, for how long?": "WaitP99High",
    "Is it the lock, the process or the server?": "BackendDown",
    "Who waits": "OldestWaiter",
    "How acquire calls end": "WaitP99High",
    "How long locks are held": "StuckHold",
    "How waiters learn that a lock is free": "SubscriptionGaps",
    "Kinds of locks side by side": "WaitP99High",
    "Semaphores and latches": "OldestWaiter",
    "Is a lease lost?": "LeaseLost",
    "Is one about to be?": "RenewMarginLow",
    "What is held and given back": "StuckHold",
    "Leaders and jobs": "NoLeader",
    "Is the server reached?": "BackendDown",
    "Is it fast, and what does it refuse?": "RenewFailureRatio",
    "Do notices arrive?": "SubscriptionGaps",
    "Is it this process?": "RuntimeStall",
}

# The board that has more about a panel of the Overview.
DETAILS = {
    "Leases lost": "Leases",
    "In jeopardy": "Leases",
    "Renewals failed": "Leases",
    "Server reached": "Backend",
    "Waiting now": "Contention",
    "Oldest wait": "Contention",
    "Contention": "Contention",
    "Held now": "Leases",
    "Leases lost, by reason": "Leases",
    "Time left when renewed": "Leases",
    "Renewals not confirmed": "Leases",
    "Leases granted": "Contention",
    "Wait for a lock, p99": "Contention",
    "Who waits now": "Contention",
    "Lock: mean number held": "Contention",
    "Process: late timers, p99": "Backend",
    "Server: time of a command, p99": "Backend",
}


def marked(board, options):
    """The board with lines and links."""
    name, row, panels = board["title"].removeprefix("Leasehold / "), None, []
    for panel in board["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
            panels.append(panel)
        else:
            panels.append(_lined(panel, name, options) | {"links": _links(panel, name, row)})
    return board | {"panels": panels}


def lines(options):
    """Where lines are drawn: a value by board and title."""
    found = {}
    for alert in alerts.ALERTS:
        for where, title, *fixed in alert.get("lines", ()):
            found[(where, title)] = fixed[0] if fixed else options.limit(alert)
    return found


def named_panels():
    """The alerts whose part of the runbook names a panel, by board and title."""
    pieces = re.split(r"^## (\w+)$", (CHECKOUT / "dashboards/RUNBOOK.md").read_text(), flags=re.M)
    found = {}
    for alert, part in zip(pieces[1::2], pieces[2::2]):
        for panel in re.findall(r"\*\*(\w+) › ([^*]+)\*\*", " ".join(part.split())):
            known = found.setdefault(panel, [])
            if alert not in known:
                known.append(alert)
    return found


def _lined(panel, board, options):
    value = lines(options).get((board, panel["title"]))
    if value is None:
        return panel
    settings, defaults = panel["fieldConfig"], panel["fieldConfig"]["defaults"]
    steps = [{"value": None, "color": "transparent"}, {"value": value, "color": BAD}]
    drawn = defaults | {
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom": defaults["custom"] | {"thresholdsStyle": {"mode": "dashed"}},
    }
    return panel | {"fieldConfig": settings | {"defaults": drawn}}


def _links(panel, board, row):
    about = named_panels().get((board, panel["title"])) or [ROWS[row]]
    links = [_link(f"Runbook: {alert}", f"${{runbook:raw}}#{alert.lower()}", True) for alert in about]
    if board == "Overview":
        more = DETAILS[panel["title"]]
        links.insert(0, _link(f"Board {more}", f"/d/{uid(more)}?${{__url_time_range}}&${{__all_variables}}", False))
    return links


def _link(title, url, elsewhere):
    return {
        "title": title,
        "type": "link",
        "icon": "external link",
        "url": url,
        "keepTime": False,
        "includeVars": False,
        "targetBlank": elsewhere,
        "asDropdown": False,
        "tags": [],
        "tooltip": title,
    }
