"""The command line of `dashboards/generate`."""
import argparse
import re
from pathlib import Path

from . import alerts, output
from .options import Options

ABOUT = """\
Writes the boards and rules anew. Without options: the set that is kept, where it is kept. With options give a FOLDER of
your own, and keep the command: the next version of Leasehold is written by it again.
"""
EXAMPLE = """\
dashboards/generate ~/monitoring --severity page=critical --severity ticket=warning --label team=storage \\
  --scope cluster --scope namespace --threshold WaitP99High=20 --for NoLeader=600 --object-label release=prometheus
"""


def run(home, arguments):
    parser = _parser()
    given = parser.parse_args(arguments)
    options = _options(parser, given)
    folder = Path(given.folder) if given.folder else home
    if folder.resolve() == home and options != Options():
        parser.error(f"FOLDER is {folder}: options change the set that is kept; give a folder of your own")
    output.write(folder, options)


def _options(parser, given):
    names = {alert["name"] for alert in alerts.ALERTS}
    number = lambda text: float(text) if "." in text or "e" in text else int(text)
    options = {
        "severities": _pairs(parser, "--severity", given.severity, {alerts.PAGE, alerts.TICKET}),
        "labels": _labels(parser, given.label),
        "scopes": tuple(_label(parser, "--scope", name) for name in given.scope),
        "limits": _pairs(parser, "--threshold", given.threshold, names, number),
        "holds": _pairs(parser, "--for", given.hold, names, int),
        "object_labels": _pairs(parser, "--object-label", given.object_label),
    }
    return Options(**options, **({"runbook": given.runbook} if given.runbook else {}))


def _pairs(parser, option, texts, known=None, read=str):
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            parser.error(f"{option} is {text!r}: give NAME=VALUE")
        if known and name not in known:
            parser.error(f"{option} is {text!r}: give one of {', '.join(sorted(known))} before the =")
        try:
            pairs[name] = read(value)
        except ValueError:
            parser.error(f"{option} is {text!r}: give {_number(option)} behind the =")
        if read is not str and pairs[name] < 0:
            parser.error(f"{option} is {text!r}: give a number of at least 0")
    return pairs


def _number(option):
    return "a whole number of seconds" if option == "--for" else "a number"


def _labels(parser, texts):
    labels = _pairs(parser, "--label", texts)
    for name, value in labels.items():
        if name == "severity":
            parser.error(f"--label is 'severity={value}': it would be the severity of every alert; name severities with --severity page={value} or --severity ticket={value}")
    return labels


def _label(parser, option, name):
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in ("job", "instance", "class", "kind"):
        parser.error(f"{option} is {name!r}: give a label of your scrape, such as cluster, beside job and instance")
    return name


def _parser():
    parser = argparse.ArgumentParser(
        prog="dashboards/generate",
        description=ABOUT,
        epilog="Example:\n\n" + EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    many = {"action": "append", "default": []}
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="where to write [dashboards/]")
    parser.add_argument("--severity", metavar="ROLE=NAME", **many, help="name of the severity `page` or `ticket`")
    parser.add_argument("--label", metavar="NAME=VALUE", **many, help="a label that every alert gets")
    parser.add_argument("--scope", metavar="LABEL", **many, help="a label beside job and instance, the widest first: boards get a variable, rules keep it")
    parser.add_argument("--threshold", metavar="ALERT=NUMBER", **many, help="what the alert compares with, as in rules/alerts.yml; the line on its graph follows")
    parser.add_argument("--for", dest="hold", metavar="ALERT=SECONDS", **many, help="for how many seconds its condition has to hold")
    parser.add_argument("--runbook", metavar="URL", help="where RUNBOOK.md is read")
    parser.add_argument("--object-label", metavar="NAME=VALUE", **many, help="a label of the PrometheusRule, as your Prometheus selects")
    return parser
