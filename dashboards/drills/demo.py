"""`dashboards/try/run`: a server, two fleets, Prometheus and Grafana, to look at."""
import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import grafana, panels
from .programs import Programs
from .prometheus import Prometheus
from .stage import KINDS, Stage
from .waiting import until

ABOUT = """\
Starts a redis-server, fleets of all kinds of locks, Prometheus with the shipped rules and, where it is installed,
Grafana with the boards. Prints their addresses and stays until Ctrl-C, which ends all of it. Everything is on
loopback, on ports that are free, and in a temporary folder.
"""
JOB = "fleet"
BUSY = ["--leases", 200, "--contenders", 8, "--keys", 4, "--hold-ms", 20, "--recipes"]


def run(home, arguments):
    options = _options(arguments)
    wrong = _missing(options)
    if wrong:
        sys.exit(f"try/run: {wrong}")
    with tempfile.TemporaryDirectory(prefix="leasehold-try-") as folder, Programs(Path(folder)) as programs:
        stage = Stage(home, Path(folder), programs, options)
        try:
            return _show(home, Path(folder), programs, stage, options)
        except KeyboardInterrupt:
            print("\ntry/run: ends all of it", flush=True)
            return 0


def _show(home, folder, programs, stage, options):
    redis = stage.redis(JOB)
    fleets = [stage.fleet(JOB, redis, *BUSY, "--kind", kind) for kind in KINDS]
    prometheus = Prometheus(stage, [JOB])
    where = grafana.program(options.grafana)
    boards = grafana.Grafana(home, folder, programs, prometheus, where) if where else None
    fault = _wait(prometheus, fleets) or (boards and boards.wait())
    if fault:
        print(f"try/run: {fault}", file=sys.stderr)
        return 1
    _tell(redis, stage, prometheus, boards)
    return _check(home, prometheus) if options.check else _stay(fleets)


def _wait(prometheus, fleets):
    scraped = lambda: len(prometheus.query(f'up{{job="{JOB}"}} == 1')) == len(fleets)
    if until(scraped, 60):
        return None
    return f"the fleets are not scraped: {open(fleets[0].log).read()[-2000:]}"


def _tell(redis, stage, prometheus, boards):
    say = lambda what, where: print(f"{what:<12}{where}")
    say("Grafana", boards.url if boards else "not found: install it, or name it with --grafana; the boards are in dashboards/boards")
    say("Prometheus", f"{prometheus.url}/alerts")
    for metrics in stage.metrics:
        say("fleet", f"http://{metrics}/metrics  http://{metrics}/health")
    say("Redis", f"{redis.url}  (redis-cli -p {redis.port})")
    print("\ndashboards/RUNBOOK.md has a command for each alert. Ctrl-C ends all of it.", flush=True)


def _check(home, prometheus):
    """Whether the Overview shows something in each panel, for tests."""
    since, board = time.time() - 60, "leasehold-overview"
    empty = lambda: panels.empty(home, prometheus, board, since)
    if until(lambda: not empty(), 90, 2):
        print("try/run: every panel of the Overview has data")
        return 0
    print(f"try/run: without data: {', '.join(empty())}", file=sys.stderr)
    return 1


def _stay(fleets):
    while all(fleet.poll() is None for fleet in fleets):
        time.sleep(1)
    print("try/run: a fleet has ended", file=sys.stderr)
    return 1


def _missing(options):
    if not Path(options.fleet).is_file():
        return f"there is no {options.fleet}: cargo build --release -p leasehold-examples, or name another --fleet"
    for program, package in [("redis-server", "redis-server"), ("prometheus", "prometheus")]:
        if not shutil.which(program):
            return f"there is no {program}: install it, with Debian apt-get install {package}"
    if options.grafana and not grafana.program(options.grafana):
        return f"--grafana is {options.grafana!r}: give the path of the program grafana or grafana-server"
    return None


def _options(arguments):
    parser = argparse.ArgumentParser(prog="dashboards/try/run", description=ABOUT)
    parser.add_argument("--fleet", default="target/release/fleet", help="the program [target/release/fleet]")
    parser.add_argument("--grafana", metavar="PROGRAM", help="Grafana's program [grafana or grafana-server, if there is one]")
    parser.add_argument("--check", action="store_true", help="wait until the Overview has data, and end with 0; 1 if it gets none")
    options = parser.parse_args(arguments)
    options.pace = 1
    return options
