"""A whole board: variables, annotations, links, and the panels in their places."""
from .panel import DATASOURCE
from .query import query

WIDTH = 24
NAMES = ["Overview", "Contention", "Leases", "Backend"]


def board(name, meaning, rows):
    return {
        "uid": uid(name),
        "title": f"Leasehold / {name}",
        "description": meaning,
        "tags": ["leasehold"],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "fiscalYearStartMonth": 0,
        "links": [_link(other) for other in NAMES if other != name],
        "annotations": {"list": _annotations()},
        "templating": {"list": _variables()},
        "panels": _placed(rows),
    }


def uid(name):
    return f"leasehold-{name.lower()}"


def _placed(rows):
    """Rows from top to bottom; in each, panels from left to right as they fit."""
    placed, top = [], 0
    for title, panels in rows:
        placed.append(_row(title, top))
        top += 1
        left = tallest = 0
        for panel in panels:
            place = panel["gridPos"]
            if left + place["w"] > WIDTH:
                left, top, tallest = 0, top + tallest, 0
            placed.append(panel | {"gridPos": {"x": left, "y": top, **place}})
            left, tallest = left + place["w"], max(tallest, place["h"])
        top += tallest
    return [{"id": number} | panel for number, panel in enumerate(placed, 1)]


def _row(title, top):
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
        "panels": [],
    }


def _variables():
    return [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "current": {},
            "options": [],
            "regex": "",
        },
        _variable("job", "Job", "leasehold_build_info"),
        _variable("instance", "Instance", 'leasehold_build_info{job=~"$job"}'),
        _variable("class", "Lock class", 'leasehold_held{job=~"$job", instance=~"$instance"}'),
        _variable("kind", "Lock kind", 'leasehold_held{job=~"$job", instance=~"$instance"}'),
        # Its value is the address of options.py.
        {"name": "runbook", "label": "Runbook", "type": "textbox", "query": "", "hide": 0, "skipUrlSync": False, "current": {}, "options": []},
    ]


def _variable(label, shown, of):
    return {
        "name": label,
        "label": shown,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({of}, {label})", "refId": label},
        "definition": f"label_values({of}, {label})",
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "includeAll": True,
        "allValue": ".+",
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
        "regex": "",
    }


def _annotations():
    return [
        _annotation("Lease lost", "{{class}}, {{reason}}", "red", "sum by (class, reason) (increase(leasehold_leases_lost_total{@lock}[@rate])) > 0"),
        _annotation("Reconnected", "{{job}}", "orange", "sum by (job) (increase(leasehold_backend_reconnects_total{@process}[@rate])) > 0"),
        _annotation("New process or version", "{{version}}", "blue", "count by (version) (leasehold_build_info{@process} unless leasehold_build_info{@process} offset 5m)"),
    ]


def _annotation(name, which, colour, expression):
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": query(expression),
        "titleFormat": f"{name}: {which}",
        "step": "60s",
    }


def _link(other):
    return {
        "title": other,
        "type": "link",
        "icon": "dashboard",
        "url": f"/d/{uid(other)}",
        "keepTime": True,
        "includeVars": True,
        "targetBlank": False,
        "asDropdown": False,
        "tags": [],
        "tooltip": f"Leasehold / {other}",
    }
