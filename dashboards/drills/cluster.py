"""A cluster of three masters, of which the last one has a clock that can be moved."""
import struct
import subprocess
from pathlib import Path

from .programs import free_port
from .redis import Redis
from .waiting import until

SLOTS = 16384
SHIM = Path(__file__).resolve().parents[2] / "tests" / "harness" / "clock_shim.c"


class Cluster:
    def __init__(self, stage, name):
        self.clock = stage.folder / f"{name}.clock"
        self.clock.write_bytes(bytes(4096))
        moved = {"LD_PRELOAD": str(_shim(stage.folder)), "CLOCKSHIM": str(self.clock)}
        self.nodes = [Redis(stage.programs, f"{name}-{number}", free_port(), moved if number == 2 else None) for number in range(3)]
        self._join()

    @property
    def settings(self):
        addresses = ", ".join(f'"127.0.0.1:{node.port}"' for node in self.nodes)
        return f'[redis]\ntopology = "cluster"\naddresses = [{addresses}]\n'

    def move_clock(self, seconds):
        with open(self.clock, "r+b") as clock:  # in place: the server has it mapped
            clock.write(struct.pack("<q", int(seconds * 1e9)))

    def _join(self):
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "ADDSLOTSRANGE", number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus)
        if not until(lambda: all(node.has_whole_cluster() for node in self.nodes), 60, 0.2):
            raise RuntimeError("the cluster of three masters does not come up")


def _shim(folder):
    library = folder / "clock_shim.so"
    done = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"cc cannot compile {SHIM}: {done.stderr}")
    return library
