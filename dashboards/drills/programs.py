"""Child processes: every one that is started is ended, whatever happens, by its own id."""
import signal
import socket
import subprocess
import threading


class Programs:
    def __init__(self, folder):
        self.folder, self.running, self.lock = folder, [], threading.Lock()

    def __enter__(self):
        signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, *_):
        with self.lock:
            running, self.running = self.running, []
        for program in running:
            _end(program)

    def start(self, name, *arguments):
        with self.lock:
            log = open(self.folder / f"{len(self.running)}-{name}.log", "wb")
            with log:
                program = subprocess.Popen(list(map(str, arguments)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
            program.log = log.name
            self.running.append(program)
        return program

    def end(self, program):
        with self.lock:
            self.running.remove(program)
        _end(program)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _end(program):
    if program.poll() is None:
        program.send_signal(signal.SIGCONT)
        program.terminate()
        try:
            program.wait(20)
        except subprocess.TimeoutExpired:
            program.kill()
    program.wait()


def _interrupt(*_):
    raise KeyboardInterrupt
