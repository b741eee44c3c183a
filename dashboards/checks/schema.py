"""Grafana's own schema: a board is read and written by grafana-foundation-sdk, and what is gone then is a typo."""
import json


def faults(folder):
    try:
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard
    except ImportError:
        return ["no grafana-foundation-sdk: pip install grafana-foundation-sdk==0.0.21, tests/run does it"]
    register_default_plugins()
    found = []
    for path in sorted(folder.glob("boards/*.json")):
        board = json.loads(path.read_text())
        read = Dashboard.from_json(json.loads(path.read_text()))
        again = json.loads(JSONEncoder().encode(read))
        found += [f"{path.name}: {fault}" for fault in _differences(board, again, "")]
    return found


def _differences(written, read, where):
    if isinstance(written, dict):
        for key, value in written.items():
            if not isinstance(read, dict) or key not in read:
                yield f"not in the schema: {where}.{key}"
            else:
                yield from _differences(value, read[key], f"{where}.{key}")
    elif isinstance(written, list):
        for number, value in enumerate(written):
            inner = read[number] if isinstance(read, list) and number < len(read) else None
            yield from _differences(value, inner, f"{where}[{number}]")
    elif written != read:
        yield f"read as {read!r}: {where} = {written!r}"
