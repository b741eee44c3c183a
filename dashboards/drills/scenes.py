"""How each alert is caused, and how that ends: as the runbook says."""
import os
import signal
import time

from .cluster import Cluster
from .waiting import until


class Scene:
    """One alert. `prepare` sets up what is well; `cause` may be repeated; `undo` ends it."""

    alert = ""
    # Seconds between repeats of the cause; None: once is enough.
    every = None
    calm = ["--leases", 50, "--contenders", 4, "--keys", 4, "--hold-ms", 20]

    def prepare(self, stage):
        self.stage = stage
        self.redis = stage.redis(self.alert)
        self.fleet = stage.fleet(self.alert, self.redis, *self.calm)

    def cause(self):
        raise NotImplementedError

    def undo(self):
        """What is repeated, or was done once, ends by itself."""

    def shows(self, values):
        """Whether the panel's values show it."""
        return max(values, default=0) > 0

    def faults_beside(self, play, caused):
        """What else should be seen while the alert fires, and is not."""
        return []

    def second_fleet(self, *arguments):
        self.crowd = self.stage.fleet(self.alert, self.redis, *arguments)


class LeaseLost(Scene):
    alert = "LeaseLost"
    calm = ["--leases", 50, "--contenders", 0, "--ttl-ms", 6000]

    def cause(self):
        """Both ways: the server forgets them, and later does not answer in time."""
        self.redis.ask("FLUSHALL")
        time.sleep(3)
        self.redis.ask("CLIENT", "PAUSE", 9000)


class RenewMarginLow(Scene):
    alert = "RenewMarginLow"
    calm = ["--leases", 50, "--contenders", 0, "--ttl-ms", 6000]
    # Renewals begin anew when a pause ends; a pause that begins 3.7 s later meets leases that are 1.7 s old.
    every = 7

    def cause(self):
        self.redis.ask("CLIENT", "PAUSE", 3300)

    def shows(self, values):
        return min(values, default=1) < 0.2


class RenewFailureRatio(RenewMarginLow):
    """The same: what goes out just behind the beginning of a pause is not answered in time."""

    alert = "RenewFailureRatio"

    def shows(self, values):
        return max(values, default=0) > 0


class WaitP99High(Scene):
    alert = "WaitP99High"

    def cause(self):
        self.second_fleet("--leases", 0, "--contenders", 16, "--keys", 1, "--hold-ms", 1000)

    def undo(self):
        self.stage.programs.end(self.crowd)

    def shows(self, values):
        return max(values, default=0) > 5 / self.stage.pace


class OldestWaiter(Scene):
    alert = "OldestWaiter"

    def cause(self):
        self.redis.ask("EVAL", STRANGER, 1, "fleet:contended:0")

    def undo(self):
        self.redis.ask("DEL", "fleet:contended:0")

    def shows(self, values):
        return max(values, default=0) > 60 / self.stage.pace


class StuckHold(Scene):
    alert = "StuckHold"
    calm = ["--leases", 0, "--contenders", 0]

    def cause(self):
        self.second_fleet("--leases", 0, "--contenders", 2, "--keys", 1, "--hold-ms", 3_600_000)

    def undo(self):
        self.stage.programs.end(self.crowd)

    def shows(self, values):
        return max(values, default=0) > 300 / self.stage.pace


class BackendDown(Scene):
    alert = "BackendDown"

    def cause(self):
        self.redis.end()

    def undo(self):
        self.redis.start()

    def shows(self, values):
        return min(values, default=1) == 0

    def faults_beside(self, play, caused):
        """The share of renewals that failed is red before the first lease is lost."""
        lost = lambda: play.first("Overview", "Leases lost", caused, lambda number: number > 0)
        if not until(lost, 60):
            return [f"{play.name}: no lease is lost"]
        red = play.first("Overview", "Renewals failed", caused, lambda share: share >= 0.01)
        if red is None or red >= lost():
            return [f"{play.name}: Renewals failed is red at {red}, the first lease is lost at {lost()}"]
        self.stage.say(f"{play.name}: Renewals failed is red {lost() - red:.0f} s before the first lease is lost")
        return []


class NoLeader(Scene):
    """A stranger takes the lock of the election: candidates stand, and none leads."""

    alert = "NoLeader"
    calm = ["--leases", 0, "--contenders", 0, "--recipes"]

    def cause(self):
        self.redis.ask("EVAL", "redis.call('del', KEYS[1]) " + STRANGER, 1, "fleet:leader")

    def undo(self):
        self.redis.ask("DEL", "fleet:leader")

    def faults_beside(self, play, caused):
        """The term that ended is told as lost."""
        lost = play.first("Leases", "Terms ended", caused, lambda terms: terms > 0)
        return [] if lost else [f"{play.name}: no term is lost"]


class SubscriptionGaps(Scene):
    alert = "SubscriptionGaps"
    # Two processes: inside one, a lock goes from hand to hand without a notice.
    calm = ["--leases", 0, "--contenders", 2, "--keys", 1, "--hold-ms", 200]
    every = 2

    def prepare(self, stage):
        super().prepare(stage)
        self.second_fleet(*self.calm)

    def cause(self):
        self.redis.ask("CLIENT", "KILL", "TYPE", "pubsub")


class PeerWithoutExpiry(Scene):
    alert = "PeerWithoutExpiry"
    calm = ["--leases", 0, "--contenders", 2, "--keys", 1, "--hold-ms", 20]

    def cause(self):
        self.redis.ask("EVAL", "redis.call('del', KEYS[1]) return redis.call('hset', KEYS[1], 'stranger:1', 1)", 1, "fleet:contended:0")

    def undo(self):
        self.redis.ask("DEL", "fleet:contended:0")


class ClocksApart(Scene):
    """One of three masters has a clock that is moved."""

    alert = "ClocksApart"

    def prepare(self, stage):
        self.stage = stage
        self.cluster = Cluster(stage, self.alert)
        self.fleet = stage.fleet_with(self.alert, self.cluster.settings, *self.calm)

    def cause(self):
        self.cluster.move_clock(0.5)

    def undo(self):
        self.cluster.move_clock(0)

    def shows(self, values):
        return max(values, default=0) > 0.4


class LeasesNearLimit(Scene):
    alert = "LeasesNearLimit"
    calm = ["--leases", 5, "--contenders", 0]
    limit = "leases_max"
    crowded = ["--leases", 19, "--contenders", 0]

    def cause(self):
        settings = f'[redis]\naddresses = ["127.0.0.1:{self.redis.port}"]\n[engine]\n{self.limit} = 20\n'
        self.crowd = self.stage.fleet_with(self.alert, settings, *self.crowded)

    def undo(self):
        self.stage.programs.end(self.crowd)

    def shows(self, values):
        return max(values, default=0) > 0.9


class CallersNearLimit(LeasesNearLimit):
    alert = "CallersNearLimit"
    limit = "waiters_max"
    crowded = ["--leases", 0, "--contenders", 20, "--keys", 1, "--hold-ms", 1000]


class RuntimeStall(Scene):
    alert = "RuntimeStall"

    def cause(self):
        os.kill(self.fleet.pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(self.fleet.pid, signal.SIGCONT)


class ClassOverflow(Scene):
    alert = "ClassOverflow"

    def cause(self):
        self.second_fleet("--leases", 100, "--classes", 100, "--contenders", 0)

    def undo(self):
        self.stage.programs.end(self.crowd)


STRANGER = "redis.call('hset', KEYS[1], 'stranger:1', 1) return redis.call('pexpire', KEYS[1], 3600000)"

SCENES = [
    scene()
    for scene in (
        LeaseLost,
        RenewMarginLow,
        RenewFailureRatio,
        WaitP99High,
        OldestWaiter,
        StuckHold,
        BackendDown,
        NoLeader,
        SubscriptionGaps,
        PeerWithoutExpiry,
        ClocksApart,
        RuntimeStall,
        ClassOverflow,
        LeasesNearLimit,
        CallersNearLimit,
    )
]
