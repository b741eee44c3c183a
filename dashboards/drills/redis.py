"""A redis-server of our own, and a client of twenty lines."""
import socket

from .programs import free_port
from .waiting import until


class Redis:
    def __init__(self, programs, name, bus=None, environment=None):
        """`bus`: the port of the cluster's bus, for a node of a cluster."""
        self.programs, self.name, self.port = programs, name, free_port()
        self.bus, self.environment = bus, environment
        self.start()

    def start(self):
        options = ["--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        if self.bus:
            options += ["--cluster-enabled", "yes", "--cluster-port", self.bus, "--cluster-config-file", f"nodes-{self.port}.conf"]
        self.program = self.programs.start(f"redis-{self.name}", "redis-server", *options, environment=self.environment)
        if not until(self._answers, 20, 0.1):
            raise RuntimeError(f"redis-server does not start: {open(self.program.log).read()}")

    def end(self):
        self.programs.end(self.program)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *words):
        """The first line of the answer."""
        return self._exchange(words, lambda lines: lines.readline().strip())

    def ask_all(self, *words):
        """The bulk string of the answer."""
        return self._exchange(words, lambda lines: lines.read(int(lines.readline()[1:])))

    def _exchange(self, words, read):
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(_bytes, words))
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(request)
            return read(connection.makefile("rb"))

    def has_whole_cluster(self):
        """Whether the node knows all slots served, by three nodes."""
        told = self.ask_all("CLUSTER", "INFO")
        return b"cluster_state:ok" in told and b"cluster_known_nodes:3" in told

    def _answers(self):
        try:
            return self.ask("PING") == b"+PONG"
        except OSError:
            return False


def _bytes(word):
    return str(word).encode()
