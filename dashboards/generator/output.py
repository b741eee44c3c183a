"""Which files there are, and how they are written."""
import json
import re
from pathlib import Path

from . import alerts, keep, marks, recording, rule_file, scope
from .boards import ALL
from .options import Options


def write(folder, options=Options()):
    for name, text in files(options).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files(options=Options()):
    boards = [scope.board(marks.marked(_with_runbook(board, options), options), options.scopes) for board in ALL]
    texts = {f"boards/{board['uid']}.json": json.dumps(board, indent=2) + "\n" for board in boards}
    recorded, alerting = recording.groups(options), alerts.groups(options)
    texts["rules/recording.yml"] = rule_file.text(recorded)
    texts["rules/alerts.yml"] = rule_file.text(alerting)
    texts["kubernetes/prometheusrule.yml"] = rule_file.manifest(recorded + alerting, options.object_labels)
    texts["provisioning/keep.yml"] = keep.text(recorded + alerting)
    return texts | (_rule_tests(options) if options.has_shipped_rules() else {})


def _with_runbook(board, options):
    """The address of the runbook is a variable, so that it can be set where a board is shown."""
    variables = [one | {"query": options.runbook} if one["name"] == "runbook" else one for one in board["templating"]["list"]]
    return board | {"templating": {"list": variables}}


def _rule_tests(options):
    """The tests of the rules as they are, with the address of the runbook that the rules have."""
    tests = (Path(__file__).resolve().parents[1] / "rules" / "tests").glob("*.yml")
    address = f"runbook_url: {options.runbook}#"
    return {f"rules/tests/{test.name}": re.sub(r"runbook_url: [^#]*#", address, test.read_text()) for test in tests}
