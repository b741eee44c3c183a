"""The rules of Grafana's dashboard-linter, and some of our own."""
import json
import re

from generator import alerts, marks
from generator.options import Options

ALERTS = {alert["name"].lower() for alert in alerts.ALERTS}
CHOSEN = ["job", "instance", "class", "kind"]


def faults(folder, scopes=()):
    """`scopes`: labels that the boards choose by, beside those of every board."""
    found, uids = [], set()
    for path in sorted(folder.glob("boards/*.json")):
        board = json.loads(path.read_text())
        uids.add(board["uid"])
        found += [f"{path.name}: {fault}" for fault in [*_board(board), *_variables(board, [*scopes, *CHOSEN]), *_panels(board, scopes), *_marks(board)]]
    if len(uids) != 4:
        found.append(f"four boards with their own uid, not {sorted(uids)}")
    return found


def _board(board):
    if board["editable"]:
        yield "is editable"
    if not board["tags"] or not board["description"]:
        yield "has no tags or no description"
    links = [link["url"] for link in board["links"]]
    if len(links) != 3:
        yield f"does not link to the three others: {links}"


def _variables(board, chosen):
    variables = {one["name"]: one for one in board["templating"]["list"]}
    if list(variables) != ["datasource", *chosen, "runbook"]:
        yield f"variables {list(variables)}"
    if variables["datasource"]["type"] != "datasource":
        yield "the data source is not a variable"
    if variables["runbook"]["type"] != "textbox" or not variables["runbook"]["query"]:
        yield "the address of the runbook cannot be set on the board"
    for name in chosen:
        one = variables[name]
        if not (one["multi"] and one["includeAll"] and one["allValue"] == ".+" and one["refresh"] == 2):
            yield f"variable {name}: several, All, `.+`, read anew with the time range"
        if one["datasource"]["uid"] != "${datasource}":
            yield f"variable {name}: another data source"


def _panels(board, scopes):
    panels = board["panels"]
    if [panel["id"] for panel in panels] != list(range(1, len(panels) + 1)):
        yield "ids of panels"
    titles = [panel["title"] for panel in panels]
    for title in {title for title in titles if titles.count(title) > 1}:
        yield f"two panels {title!r}"
    yield from _overlaps(panels)
    yield from _holes(panels)
    for panel in panels:
        if panel["type"] != "row":
            yield from (f"{panel['title']}: {fault}" for fault in _panel(panel, scopes))


def _panel(panel, scopes):
    if not panel["description"].endswith("."):
        yield "no description"
    if not panel["fieldConfig"]["defaults"].get("unit"):
        yield "no unit"
    if panel["datasource"]["uid"] != "${datasource}":
        yield "another data source"
    if not panel["targets"]:
        yield "no query"
    if panel["type"] == "timeseries" and len(panel["fieldConfig"]["overrides"]) > 3:
        if panel["options"]["legend"]["placement"] != "right":
            yield "a legend below shows three rows; the outcomes behind them are cut"
    for target in panel["targets"]:
        yield from _target(panel, target, scopes)


def _marks(board):
    """Each panel leads to what to do, those of the Overview to more about it, and limits are lines."""
    name = board["title"].removeprefix("Leasehold / ")
    drawn = marks.lines(Options())
    for panel in (panel for panel in board["panels"] if panel["type"] != "row"):
        urls = [link["url"] for link in panel["links"]]
        anchors = [url.removeprefix("${runbook:raw}#") for url in urls if url.startswith("${runbook:raw}#")]
        if not anchors or not set(anchors) <= ALERTS:
            yield f"{panel['title']}: leads to no part of the runbook: {urls}"
        if (name == "Overview") != any(url.startswith("/d/leasehold-") for url in urls):
            yield f"{panel['title']}: leads to {urls}"
        style = panel["fieldConfig"]["defaults"].get("custom", {}).get("thresholdsStyle")
        if ((name, panel["title"]) in drawn) != (style == {"mode": "dashed"}):
            yield f"{panel['title']}: a line where no alert has a limit, or the other way round"
    titles = {panel["title"] for panel in board["panels"]}
    yield from (f"there is no {title} for a line" for where, title in drawn if where == name and title not in titles)


def _target(panel, target, scopes):
    expression = target["expr"]
    for selector in re.findall(r"\w+\{[^}]*\}", expression):
        for name in (*scopes, "job", "instance"):
            if f'{name}=~"${name}"' not in selector:
                yield f"{selector} does not follow ${name}"
    if re.search(r"leasehold_\w+(?![\w{])", expression):
        yield f"a metric without selector in {expression}"
    for window in re.findall(r"\[([^]]*)\]", expression):
        if window != "$__rate_interval" and not (window == "$__range" and target["instant"]):
            yield f"a window of {window}"
    if target["datasource"]["uid"] != "${datasource}":
        yield "another data source in a query"
    if panel["type"] != "table" and not target["legendFormat"]:
        yield "no legend"


def _holes(panels):
    for top in {panel["gridPos"]["y"] for panel in panels}:
        line = [panel for panel in panels if panel["gridPos"]["y"] == top]
        if sum(panel["gridPos"]["w"] for panel in line) < 24:
            yield f"a hole at the right of {line[-1]['title']}: make its line wider"


def _overlaps(panels):
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            yield f"{panel['title']} stands out at the right"
        for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
            if taken.setdefault(cell, panel["title"]) != panel["title"]:
                yield f"{panel['title']} lies over {taken[cell]}"
                break
