"""One scene from beginning to end: well, caused, firing, shown, ended, over."""
import time
import traceback

from . import panels
from .waiting import until


class Play:
    def __init__(self, scene, stage):
        self.scene, self.stage, self.faults = scene, stage, []
        self.name = "Leasehold" + scene.alert
        # Seconds. The slowest alert needs seven minutes as shipped, and six to clear.
        self.patience = 60 + 840 // stage.pace

    def set_up(self, prometheus):
        self.prometheus = prometheus
        self.scene.prepare(self.stage)

    def perform(self):
        try:
            self._perform()
        except Exception:  # told with the others; the other scenes go on
            self.faults.append(f"{self.name}: {traceback.format_exc()}")

    def _perform(self):
        scene, say = self.scene, self.stage.say
        if not until(self._scraped, self.patience):
            return self.faults.append(f"{self.name}: its fleet is not scraped: {open(scene.fleet.log).read()[-2000:]}")
        if self._is_firing():
            self.faults.append(f"{self.name} fires before it is caused")
        caused = time.time()
        fires = self._cause_until_it_fires()
        if not fires:
            self.faults.append(f"{self.name} does not fire: {self._seen(caused)}")
        else:
            say(f"{self.name} fires {time.time() - caused:.0f} s after its cause")
            self._look_at_panel(caused)
        scene.undo()
        ended = time.time()
        if not until(lambda: self.prometheus.is_over(self.name, scene.alert), self.patience):
            return self.faults.append(f"{self.name} does not clear")
        if fires:
            say(f"{self.name} is over {time.time() - ended:.0f} s after the cause was ended")

    def _cause_until_it_fires(self):
        self.scene.cause()
        if self.scene.every is None:
            return until(self._is_firing, self.patience)
        for _ in range(self.patience // self.scene.every):
            if until(self._is_firing, self.scene.every):
                return True
            self.scene.cause()
        return False

    def _look_at_panel(self, since):
        board, title = panels.of(self.scene.alert)
        if not until(lambda: self.scene.shows(self._values(board, title, since)), 30):
            self.faults.append(f"{self.name}: {board} › {title} shows {self._seen(since)}")

        self.faults += self.scene.faults_beside(self, since)

    def first(self, board, title, since, is_it):
        """When a panel showed such a value for the first time."""
        panel = panels.find(self.stage.home, board, title)
        return panels.first(self.prometheus, panel, since, self.scene.alert, is_it)

    def _seen(self, since):
        values = self._values(*panels.of(self.scene.alert), since)
        return f"from {min(values)} to {max(values)}" if values else "nothing"

    def _values(self, board, title, since):
        panel = panels.find(self.stage.home, board, title)
        return panels.values(self.prometheus, panel, since, self.scene.alert)

    def _scraped(self):
        return self.prometheus.query(f'leasehold_build_info{{job="{self.scene.alert}"}}')

    def _is_firing(self):
        return self.prometheus.firing(self.name, self.scene.alert)
