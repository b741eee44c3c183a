"""The mixin gives the boards and rules that are kept, nothing more and nothing less."""
import json

from generator import alerts, recording
from generator.options import Options

PARTS = "local m = import '{file}'; {{ boards: m.grafanaDashboards, alerts: m.prometheusAlerts, rules: m.prometheusRules }}"


def faults(folder):
    try:
        import _gojsonnet
    except ImportError:
        return ["no gojsonnet: pip install gojsonnet==0.22.0, tests/run does it"]
    snippet = PARTS.format(file=folder / "mixin.libsonnet")
    try:
        mixin = json.loads(_gojsonnet.evaluate_snippet("check", snippet))
    except RuntimeError as error:
        return [f"mixin.libsonnet: {error}"]
    return [f"mixin.libsonnet: {fault}" for fault in _differences(mixin, folder)]


def _differences(mixin, folder):
    if mixin["boards"] != {path.name: json.loads(path.read_text()) for path in folder.glob("boards/*.json")}:
        yield f"the boards are {sorted(mixin['boards'])}, or not those of boards/"
    if mixin["alerts"] != {"groups": alerts.groups(Options())}:
        yield "the alerts are not those of rules/alerts.yml"
    if mixin["rules"] != {"groups": recording.groups(Options())}:
        yield "the recording rules are not those of rules/recording.yml"
