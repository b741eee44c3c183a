"""The kinds of panels. Each takes a title, what it means, and its series; the board gives it its place."""
from . import colours as palette
from . import query

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def lines(
    title,
    meaning,
    series,
    unit="short",
    colours=None,
    wide=8,
    high=9,
    stacked=False,
    least=0,
    most=None,
    shade=None,
    low=False,
    dashed=(),
    nothing=None,
):
    """A time series whose legend is a table with the last and the highest value, so that rare outcomes are seen.

    `low`: what is bad is low, so the lowest value is told, and the lowest lines come first. `dashed`: lines under which
    another one is to be seen. `nothing`: the text in place of a graph without data.
    """
    panel = _panel("timeseries", title, meaning, series, unit, wide, high)
    defaults = panel["fieldConfig"]["defaults"]
    if nothing:
        defaults["noValue"] = nothing
    if least is not None:
        defaults["min"] = least
    # By name the palette has lines that are nearly white. By place: classes come in the same order everywhere, so that
    # each has one colour. Shades of one colour where all lines mean the same.
    defaults["color"] = {"mode": "shades", "fixedColor": shade} if shade else {"mode": "palette-classic"}
    if most is not None:
        defaults["max"] = most
    defaults["custom"] = {
        "drawStyle": "line",
        "lineWidth": 2,
        # Many lines at one height would add up to a block.
        "fillOpacity": 25 if stacked else 0,
        # A single value between gaps is a point, not nothing.
        "showPoints": "auto",
        "pointSize": 5,
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        # Where all is 0, Grafana's axis would go to 100.
        "axisSoftMax": SMALL[unit],
    }
    panel["fieldConfig"]["overrides"] = palette.overrides(colours or {}, dashed)
    panel["options"] = {
        "legend": {
            "displayMode": "table",
            "placement": "right" if len(colours or {}) > ROWS else "bottom",
            "showLegend": True,
            "calcs": _calcs(low, len(colours or {}) > ROWS),
            "sortBy": "Min" if low else "Max",
            "sortDesc": not low,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel


def shares(title, meaning, metric, selector, wide=8, high=9):
    """A high share and the middle of a time, by class."""
    panel = lines(title, meaning, query.quantiles(metric, selector, by=["class"]), "s", wide=wide, high=high)
    panel["fieldConfig"]["overrides"] = [palette.MIDDLE]
    return panel


def bars(title, meaning, series, unit="short", colours=None, wide=8, high=9, shade=None):
    """Events that are rare: each is to be seen, also on a day's view."""
    panel = lines(title, meaning, series, unit, colours, wide, high, stacked=True, shade=shade)
    panel["fieldConfig"]["defaults"]["custom"] |= {"drawStyle": "bars", "fillOpacity": 80, "lineWidth": 1, "showPoints": "never"}
    return panel


def states(title, meaning, series, wide=8, high=9):
    """1 is well and green, 0 is not and red; those that are not come first."""
    panel = lines(title, meaning, series, "short", wide=wide, high=high, most=1, low=True)
    defaults = panel["fieldConfig"]["defaults"]
    defaults["decimals"] = 0
    defaults["color"] = {"mode": "thresholds"}
    defaults["thresholds"] = {"mode": "absolute", "steps": [{"value": None, "color": palette.BAD}, {"value": 1, "color": palette.GOOD}]}
    defaults["custom"] |= {"gradientMode": "scheme", "lineInterpolation": "stepAfter"}
    return panel


def number(title, meaning, one, unit="short", steps=(), base=palette.GOOD, wide=3, high=4, decimals=None):
    """One number; `steps` are pairs of a value and the colour from there on. `decimals`: 0 for what is counted, because
    Prometheus extrapolates a growth.
    """
    panel = _panel("stat", title, meaning, [one], unit, wide, high)
    levels = [{"value": None, "color": base}, *({"value": value, "color": colour} for value, colour in steps)]
    panel["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": levels}
    panel["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}
    if decimals is not None:
        panel["fieldConfig"]["defaults"]["decimals"] = decimals
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
    expression = f"sum by (le) (increase({metric}_bucket{{{selector}}}[@rate]))"
    panel = _panel("heatmap", title, meaning, [query.series(expression, "{{le}}") | {"format": "heatmap"}], unit, wide, high)
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


def table(title, meaning, one, labels, unit="short", wide=8, high=9, value="Value"):
    """The present values, highest first, and the labels in this order."""
    panel = _panel("table", title, meaning, [one | {"format": "table", "instant": True}], unit, wide, high)
    panel["options"] = {"showHeader": True, "cellHeight": "sm", "sortBy": [{"displayName": value, "desc": True}]}
    panel["transformations"] = [
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True},
                "indexByName": {name: place for place, name in enumerate(["Value", *labels])},
                "renameByName": {"Value": value},
            },
        }
    ]
    return panel


def yes(title, meaning, one, wide=3, high=4):
    """One fact: 1 is well, 0 is not."""
    panel = number(title, meaning, one, base=palette.BAD, steps=[(1, palette.GOOD)], wide=wide, high=high)
    words = {"0": {"text": "no", "index": 0}, "1": {"text": "yes", "index": 1}}
    panel["fieldConfig"]["defaults"]["mappings"] = [{"type": "value", "options": words}]
    return panel


def _calcs(low, many):
    extreme = "min" if low else "max"
    # At the right every column is taken from the picture.
    return [extreme] if many else ["lastNotNull", extreme]


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


# A legend below has room for so many rows; one at the right for all outcomes that there are.
ROWS = 3
# What an axis shows at least.
SMALL = {"short": 1, "ops": 1, "s": 0.01, "percentunit": 0.01}
