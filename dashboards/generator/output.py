"""Which files there are, and how they are written."""
import json
import re
from pathlib import Path

from . import alerts, recording, rule_file
from .boards import ALL


def write(folder, pace=1):
    """`pace` is by how much the rules are faster than the shipped ones, for drills in a hurry."""
    for name, text in files(pace).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files(pace=1):
    texts = {f"boards/{board['uid']}.json": json.dumps(board, indent=2) + "\n" for board in ALL}
    texts["rules/recording.yml"] = rule_file.text(recording.groups(pace))
    texts["rules/alerts.yml"] = rule_file.text(alerts.groups(pace))
    return texts | _rule_tests()


def _rule_tests():
    """The tests of the rules as they are, with the address of the runbook that the rules have."""
    tests = (Path(__file__).resolve().parents[1] / "rules" / "tests").glob("*.yml")
    address = f"runbook_url: {alerts.RUNBOOK}#"
    return {f"rules/tests/{test.name}": re.sub(r"runbook_url: [^#]*#", address, test.read_text()) for test in tests}
