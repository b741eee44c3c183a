"""Each alert has its part of the runbook, and names a panel that there is."""
import json
import re

from generator import alerts
from generator.board import uid

PARTS = ["**Means.**", "**Look at**", "**Do.**", "**Cause it**"]


def faults(folder):
    parts = _parts((folder / "RUNBOOK.md").read_text())
    titles = {path.stem: _titles(path) for path in folder.glob("boards/*.json")}
    wanted = [alert["name"] for alert in alerts.ALERTS]
    found = [] if list(parts) == wanted else [f"RUNBOOK.md has {list(parts)}, the alerts are {wanted}"]
    for alert in alerts.ALERTS:
        found += [f"RUNBOOK.md, {alert['name']}: {fault}" for fault in _alert(alert, parts.get(alert["name"], ""), titles)]
    return found


def _alert(alert, part, titles):
    part = " ".join(part.split())  # a name may go on in the next line
    board, title = alert["panel"]
    if title not in titles[uid(board)]:
        yield f"there is no panel {title!r} on {board}"
    if f"**{board} › {title}**" not in part:
        yield f"does not name its panel {board} › {title}"
    yield from (f"has no {piece}" for piece in PARTS if piece not in part)
    if "fleet" not in part.split(PARTS[-1])[-1]:
        yield "no command with fleet that causes it"
    for where, what in re.findall(r"\*\*(\w+) › ([^*]+)\*\*", part):
        if what not in titles.get(uid(where), ()):
            yield f"names {where} › {what}, which is nowhere"


def _parts(text):
    """The parts by their headings, which are the anchors."""
    pieces = re.split(r"^## (\w+)$", text, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def _titles(path):
    return {panel["title"] for panel in json.loads(path.read_text())["panels"]}
