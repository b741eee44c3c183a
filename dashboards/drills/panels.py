"""Panels, asked as Grafana asks them."""
import json
import math
import re
import time

from generator import alerts
from generator.board import uid


def of(alert):
    return next(one["panel"] for one in alerts.ALERTS if one["name"] == alert)


def find(home, board, title):
    return next(panel for panel in _board(home, uid(board))["panels"] if panel["title"] == title)


def values(prometheus, panel, since, job):
    """Every number that the panel shows from then on."""
    return [number for target in panel["targets"] for number in _numbers(prometheus, target, since, job)]


def first(prometheus, panel, since, job, is_it):
    """When one of the panel's values was such for the first time."""
    moments = []
    for target in panel["targets"]:
        series = prometheus.query_range(_filled(prometheus, target["expr"], job), since, time.time(), 1)
        moments += [float(moment) for one in series for moment, number in one["values"] if is_it(float(number))]
    return min(moments, default=None)


def faults(home, prometheus, everything):
    """Panels and variables without data; only for drills in which everything happens."""
    found = []
    since = time.time() - 3600
    for path in sorted(home.glob("boards/*.json")) if everything else []:
        board = _board(home, path.stem)
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        without = empty(home, prometheus, path.stem, since)
        found += [f"{board['title']} › {title} has no data" for title in without]
        found += [f"{board['title']}: ${one} has no values" for one in _empty_variables(prometheus, board)]
        print(f"drill: {board['title']}: {len(panels) - len(without)} of {len(panels)} panels have data", flush=True)
    return found


def empty(home, prometheus, name, since):
    """The titles of the panels of one board that show nothing."""
    panels = [panel for panel in _board(home, name)["panels"] if panel["type"] != "row"]
    return [panel["title"] for panel in panels if not all(_numbers(prometheus, one, since, ".+") for one in panel["targets"])]


def _empty_variables(prometheus, board):
    for one in board["templating"]["list"]:
        if one["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", one["query"]["query"]).groups()
            if not prometheus.label_values(_filled(prometheus, series, ".+"), label):
                yield one["name"]


def _numbers(prometheus, target, since, job):
    expression = _filled(prometheus, target["expr"], job)
    if target["instant"]:
        points = [one["value"] for one in prometheus.query(expression)]
    else:
        now = time.time()
        step = max(1, int((now - since) / 1000))
        points = [point for one in prometheus.query_range(expression, since, now, step) for point in one["values"]]
    return [float(number) for _, number in points if not math.isnan(float(number))]


def _filled(prometheus, expression, job):
    filled = expression.replace("$__rate_interval", prometheus.rate_window).replace("$__range", "1h").replace("$job", job)
    return filled.replace("$instance", ".+").replace("$class", ".+").replace("$kind", ".+")


def _board(home, name):
    return json.loads((home / "boards" / f"{name}.json").read_text())
