"""promtool: the rules can be read, and each alert fires, keeps quiet and clears as its test says."""
import re
import subprocess
import tempfile
import textwrap

from generator import alerts


def faults(folder):
    tests = sorted(folder.glob("rules/tests/*.yml"))
    found = [fault for alert in alerts.ALERTS for fault in _tested(alert, tests)]
    return found + read(folder) + _promtool("test", "rules", *map(str, tests))


def read(folder):
    """promtool reads the files of rules, and what is in the object for Kubernetes."""
    rules = sorted(str(path) for path in folder.glob("rules/*.yml"))
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as spec:
        head, _, groups = (folder / "kubernetes/prometheusrule.yml").read_text().partition("\nspec:\n")
        spec.write(textwrap.dedent(groups))
        spec.flush()
        found = [] if "\nkind: PrometheusRule\n" in head else ["kubernetes/prometheusrule.yml is no PrometheusRule"]
        return found + _promtool("check", "rules", *rules) + _promtool("check", "rules", spec.name)


def _tested(alert, tests):
    name = alerts.name(alert)
    cases = [case for path in tests for case in re.split(r"- eval_time:", path.read_text()) if f"alertname: {name}\n" in case]
    quiet = ["exp_alerts: []" in case for case in cases]
    if True not in quiet or False not in quiet or not quiet[-1] or quiet[0] is False:
        yield f"{name} is not tested to keep quiet, fire and clear, in that order"


def _promtool(*arguments):
    try:
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return ["no promtool: apt-get install prometheus, tests/run does it"]
    return [] if done.returncode == 0 else [f"promtool {' '.join(arguments[:2])}:\n{done.stdout}{done.stderr}"]
