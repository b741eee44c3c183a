"""The kinds of panels. Each takes a title, what it means, and its series; the board gives it its place."""
from . import colours as palette

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def lines(title, meaning, series, unit="short", colours=None, wide=8, high=9, stacked=False, least=0, most=None, shade=None):
    """A time series whose legend is a table with the last and the highest value, so that rare outcomes are seen."""
    panel = _panel("timeseries", title, meaning, series, unit, wide, high)
    defaults = panel["fieldConfig"]["defaults"]
    if least is not None:
        defaults["min"] = least
    # A class or a process has one colour on all panels; shades of one where all lines mean the same.
    defaults["color"] = {"mode": "shades", "fixedColor": shade} if shade else {"mode": "palette-classic-by-name"}
    if most is not None:
        defaults["max"] = most
    defaults["custom"] = {
        "drawStyle": "line",
        "lineWidth": 2,
        "fillOpacity": 25 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    panel["fieldConfig"]["overrides"] = palette.overrides(colours or {})
    panel["options"] = {
        # A legend has room for three rows or so; the highest are those that matter.
        "legend": {
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
            "calcs": ["lastNotNull", "max"],
            "sortBy": "Max",
            "sortDesc": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel


def bars(title, meaning, series, unit="short", colours=None, wide=8, high=9, shade=None):
    """Events that are rare: each is to be seen, also on a day's view."""
    panel = lines(title, meaning, series, unit, colours, wide, high, stacked=True, shade=shade)
    panel["fieldConfig"]["defaults"]["custom"] |= {"drawStyle": "bars", "fillOpacity": 80, "lineWidth": 1}
    return panel


def number(title, meaning, one, unit="short", steps=(), base=palette.GOOD, wide=3, high=4):
    """One number; `steps` are pairs of a value and the colour from there on."""
    panel = _panel("stat", title, meaning, [one], unit, wide, high)
    levels = [{"value": None, "color": base}, *({"value": value, "color": colour} for value, colour in steps)]
    panel["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": levels}
    panel["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}
    panel["options"] = {
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
        "colorMode": "background",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "value",
    }
    return panel


def heat(title, meaning, metric, selector, unit="s", wide=8, high=9):
    """How a histogram's counts are spread, over time."""
    from .query import series

    expression = f"sum by (le) (increase({metric}_bucket{{{selector}}}[@rate]))"
    panel = _panel("heatmap", title, meaning, [series(expression, "{{le}}") | {"format": "heatmap"}], unit, wide, high)
    panel["options"] = {
        "calculate": False,
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "unit": unit},
        "filterValues": {"le": 1e-9},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
    }
    return panel


def table(title, meaning, one, unit="short", wide=8, high=9, value="Value"):
    """The present values, highest first."""
    panel = _panel("table", title, meaning, [one | {"format": "table", "instant": True}], unit, wide, high)
    panel["options"] = {"showHeader": True, "cellHeight": "sm", "sortBy": [{"displayName": value, "desc": True}]}
    panel["transformations"] = [
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": {"Value": value}}}
    ]
    return panel


def _panel(kind, title, meaning, series, unit, wide, high):
    return {
        "type": kind,
        "title": title,
        "description": meaning,
        "datasource": DATASOURCE,
        "gridPos": {"w": wide, "h": high},
        "targets": [_target(number, one) for number, one in enumerate(series)],
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": {},
    }


def _target(number, one):
    instant = one.get("instant", False)
    fixed = {"refId": chr(ord("A") + number), "datasource": DATASOURCE, "editorMode": "code"}
    return fixed | {"format": "time_series", "instant": instant, "range": not instant} | one
