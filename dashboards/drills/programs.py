"""Child processes: every one that is started is ended, whatever happens, by its own id."""
import os
import signal
import socket
import subprocess
import threading
import time


class Programs:
    def __init__(self, folder):
        self.folder, self.running, self.lock = folder, [], threading.Lock()

    def __enter__(self):
        signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, *_):
        with self.lock:
            running, self.running = self.running, []
        for program in reversed(running):  # a fleet releases at its server
            _ask_to_end(program)
        end = time.monotonic() + PATIENCE
        for program in reversed(running):
            _see_end(program, end)

    def start(self, name, *arguments, environment=None):
        with self.lock:
            log = open(self.folder / f"{len(self.running)}-{name}.log", "wb")
            with log:
                program = subprocess.Popen(list(map(str, arguments)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=os.environ | (environment or {}))
            program.log = log.name
            self.running.append(program)
        return program

    def end(self, program):
        with self.lock:
            self.running.remove(program)
        _ask_to_end(program)
        _see_end(program, time.monotonic() + PATIENCE)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _ask_to_end(program):
    if program.poll() is None:
        program.send_signal(signal.SIGCONT)
        program.terminate()


def _see_end(program, end):
    try:
        program.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _interrupt(*_):
    raise KeyboardInterrupt


# Seconds that a program may take to end.
PATIENCE = 10
