"""A redis-server of our own, and a client of twenty lines."""
import socket

from .programs import free_port
from .waiting import until


class Redis:
    def __init__(self, programs, name):
        self.programs, self.name, self.port = programs, name, free_port()
        self.start()

    def start(self):
        options = ["--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.program = self.programs.start(f"redis-{self.name}", "redis-server", *options)
        if not until(self._answers, 20, 0.1):
            raise RuntimeError(f"redis-server does not start: {open(self.program.log).read()}")

    def end(self):
        self.programs.end(self.program)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *words):
        """The first line of the answer."""
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(_bytes, words))
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(request)
            return connection.makefile("rb").readline().strip()

    def _answers(self):
        try:
            return self.ask("PING") == b"+PONG"
        except OSError:
            return False


def _bytes(word):
    return str(word).encode()
