"""What all scenes share: where things are, the pace, and the fleets."""
import time
from pathlib import Path

from .programs import free_port
from .redis import Redis


class Stage:
    def __init__(self, home, folder, programs, options):
        self.home, self.folder, self.programs, self.options = home, folder, programs, options
        self.pace, self.begun = options.pace, time.monotonic()
        self.fleet_program = Path(options.fleet).resolve()
        self.targets = folder / "targets"
        self.targets.mkdir()
        # Where the fleets serve their metrics.
        self.metrics = []

    def redis(self, name):
        return Redis(self.programs, name)

    def fleet(self, job, redis, *arguments):
        """A fleet that Prometheus scrapes as one more instance of the job."""
        return self._fleet(job, ["--url", redis.url], *arguments)

    def fleet_with(self, job, settings, *arguments):
        """The same, with a settings file of this text."""
        file = self.folder / f"{job}-{free_port()}.toml"
        file.write_text(settings)
        return self._fleet(job, ["--config", file], *arguments)

    def _fleet(self, job, where, *arguments):
        port = free_port()
        self.metrics.append(f"127.0.0.1:{port}")
        place = [*where, "--metrics", f"127.0.0.1:{port}", "--seconds", 86_400, "--allow-loss"]
        program = self.programs.start(f"fleet-{job}", self.fleet_program, *place, *arguments)
        (self.targets / f"{job}-{port}.json").write_text(
            f'[{{"targets": ["127.0.0.1:{port}"], "labels": {{"job": "{job}"}}}}]'
        )
        return program

    def start_calm(self):
        redis = self.redis("Calm")
        for kind in KINDS:
            self.fleet("Calm", redis, *PEACEFUL, "--kind", kind, "--recipes")

    def say(self, what):
        print(f"[{time.monotonic() - self.begun:6.1f} s] {what}", flush=True)


PEACEFUL = ["--leases", 50, "--contenders", 4, "--keys", 8, "--hold-ms", 20]
# One of each that has panels of its own.
KINDS = ["exclusive", "fair", "read-write", "semaphore", "permits"]
