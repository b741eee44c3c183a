"""The rules of Grafana's dashboard-linter, and some of our own."""
import json
import re

VARIABLES = ["datasource", "job", "instance", "class", "kind"]


def faults(folder):
    found, uids = [], set()
    for path in sorted(folder.glob("boards/*.json")):
        board = json.loads(path.read_text())
        uids.add(board["uid"])
        found += [f"{path.name}: {fault}" for fault in [*_board(board), *_variables(board), *_panels(board)]]
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


def _variables(board):
    variables = {one["name"]: one for one in board["templating"]["list"]}
    if list(variables) != VARIABLES:
        yield f"variables {list(variables)}"
    if variables["datasource"]["type"] != "datasource":
        yield "the data source is not a variable"
    for name in VARIABLES[1:]:
        one = variables[name]
        if not (one["multi"] and one["includeAll"] and one["allValue"] == ".+" and one["refresh"] == 2):
            yield f"variable {name}: several, All, `.+`, read anew with the time range"
        if one["datasource"]["uid"] != "${datasource}":
            yield f"variable {name}: another data source"


def _panels(board):
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
            yield from (f"{panel['title']}: {fault}" for fault in _panel(panel))


def _panel(panel):
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
        yield from _target(panel, target)


def _target(panel, target):
    expression = target["expr"]
    for selector in re.findall(r"\w+\{[^}]*\}", expression):
        for name in ("job", "instance"):
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
