"""A set with every option: it is as well formed as the one that is kept, and the options show in it."""
import json
import tempfile
from pathlib import Path

from generator import output
from generator.options import Options

from . import lint, prometheus_rules, schema

SCOPES = ("cluster", "namespace")
CHOSEN = Options(
    runbook="https://runbooks.example/locks",
    severities={"page": "critical", "ticket": "warning"},
    labels={"team": "storage"},
    scopes=SCOPES,
    limits={"WaitP99High": 20},
    holds={"NoLeader": 600},
    object_labels={"release": "prometheus"},
)


def faults(_):
    with tempfile.TemporaryDirectory(prefix="leasehold-rules-") as folder:
        folder = Path(folder)
        output.write(folder, CHOSEN)
        rules = (folder / "rules/alerts.yml").read_text()
        found = [*lint.faults(folder, SCOPES), *schema.faults(folder), *prometheus_rules.read(folder), *_shown(rules), *_line(folder)]
        return [f"with options: {fault}" for fault in found]


def _shown(rules):
    count = rules.count("- alert:")
    for wanted, times in [
        ("severity: 'critical'", 4),
        ("severity: 'warning'", count - 4),
        ("team: 'storage'", count),
        ("runbook_url: 'https://runbooks.example/locks#", count),
        ("cluster_namespace_job_class:leasehold_acquire_wait_seconds:p99_5m{class!~\"(.*_)?leader\"} > 20'", 1),
        ("for: '600s'", 1),
        ("severity: 'page'", 0),
        ("by (job", 0),
    ]:
        if rules.count(wanted) != times:
            yield f"{rules.count(wanted)} times {wanted!r} in alerts.yml, not {times}"


def _line(folder):
    board = json.loads((folder / "boards/leasehold-contention.json").read_text())
    panel = next(panel for panel in board["panels"] if panel["title"] == "Wait for a lock")
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    if steps[1]["value"] != 20:
        yield f"the line of WaitP99High is at {steps[1]['value']}"
    if not any(target["expr"].startswith("histogram_quantile(0.99, sum by (class, le)") and "cluster=~" in target["expr"] for target in panel["targets"]):
        yield "a query does not choose by cluster"
