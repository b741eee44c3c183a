"""The command line, and the order of things."""
import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

from . import panels
from .play import Play
from .programs import Programs
from .prometheus import Prometheus
from .scenes import SCENES
from .stage import Stage

ABOUT = """\
Starts a redis-server and a fleet for each alert, and one Prometheus with the shipped rules that scrapes them all.
Causes each alert's condition, waits until Prometheus fires the alert and the panel that the runbook names shows it,
ends the condition, and waits until the alert is over. A fleet that is left in peace raises none. In the end every panel
and every variable of the boards has data. Everything is on loopback and ends with the command.
"""


def run(home, arguments):
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="leasehold-drill-") as folder, Programs(Path(folder)) as programs:
        stage = Stage(home, Path(folder), programs, options)
        names = [scene.alert for scene in SCENES if not options.only or scene.alert in options.only]
        plays = [Play(scene, stage) for scene in SCENES if scene.alert in names]
        prometheus = Prometheus(stage, ["Calm", *names])
        faults = _play_all(plays, stage, prometheus)
        faults += panels.faults(home, prometheus, everything=not options.only)
        _stay(options, prometheus)
    for fault in faults:
        print(f"drill: {fault}", file=sys.stderr)
    print(f"drill: {len(names)} alerts caused, {len(faults)} faults, {time.monotonic() - stage.begun:.0f} s")
    return 1 if faults else 0


def _play_all(plays, stage, prometheus):
    stage.start_calm()
    for play in plays:
        play.set_up(prometheus)
    threads = [threading.Thread(target=play.perform, daemon=True) for play in plays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A busy machine makes timers late in every process, as the alert says.
    raised = prometheus.raised("Calm") - {"LeaseholdRuntimeStall"}
    calm = [f"a fleet in peace raised {name}" for name in sorted(raised)]
    return calm + [fault for play in plays for fault in play.faults]


def _options(arguments):
    parser = argparse.ArgumentParser(prog="dashboards/drill", description=ABOUT)
    parser.add_argument("--pace", type=int, default=1, help="all times of the rules divided by this; 1 is as shipped [1]")
    parser.add_argument("--fleet", default="target/release/fleet", help="the program [target/release/fleet]")
    parser.add_argument("--only", action="append", metavar="ALERT", help="only this alert; may be repeated")
    parser.add_argument("--stay", type=int, default=0, metavar="SECONDS", help="stay up that much longer, to be looked at [0]")
    return parser.parse_args(arguments)


def _stay(options, prometheus):
    if options.stay:
        print(f"drill: Prometheus is at {prometheus.url} for {options.stay} s", flush=True)
        time.sleep(options.stay)
