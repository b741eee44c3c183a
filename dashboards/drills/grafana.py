"""Grafana with the boards, where it is installed."""
import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from .programs import free_port
from .waiting import until

PROGRAMS = ["grafana", "grafana-server", "/usr/share/grafana/bin/grafana"]


def program(wanted):
    """Where Grafana is: what was asked for, or what is installed. None: nowhere."""
    for name in [wanted] if wanted else PROGRAMS:
        found = shutil.which(name)
        if found:
            return Path(found).resolve()
    return None


class Grafana:
    """Anonymous visitors see the boards; nothing of it is kept."""

    def __init__(self, home, folder, programs, prometheus, where):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder / "grafana"
        self._provision(home, prometheus)
        server = [where, "server"] if where.name == "grafana" else [where]
        self.process = programs.start("grafana", *server, f"--homepath={_homepath(where)}", environment=self._settings(home))

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/api/search?tag=leasehold", timeout=5) as answer:
                return len(json.load(answer)) >= 4
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def wait(self):
        """What is wrong, or None once the boards are there."""
        if until(lambda: self.is_ready() or self.process.poll() is not None, 120) and self.process.poll() is None:
            return None
        return f"Grafana does not show the boards: {Path(self.process.log).read_text()[-2000:]}"

    def _provision(self, home, prometheus):
        source = (home / "provisioning/grafana/datasource.yml").read_text()
        source = source.replace("http://127.0.0.1:9090", prometheus.url).replace("timeInterval: 15s", f"timeInterval: {prometheus.scrape}s")
        boards = (home / "provisioning/grafana/dashboards.yml").read_text()
        boards = boards.replace("/var/lib/grafana/dashboards/leasehold", str(home / "boards"))
        for name, text in {"datasources/leasehold.yml": source, "dashboards/leasehold.yml": boards}.items():
            path = self.folder / "provisioning" / name
            path.parent.mkdir(parents=True)
            path.write_text(text)

    def _settings(self, home):
        return {
            "GF_SERVER_HTTP_ADDR": "127.0.0.1",
            "GF_SERVER_HTTP_PORT": str(self.port),
            "GF_PATHS_DATA": str(self.folder / "data"),
            "GF_PATHS_LOGS": str(self.folder / "logs"),
            "GF_PATHS_PLUGINS": str(self.folder / "plugins"),
            "GF_PATHS_PROVISIONING": str(self.folder / "provisioning"),
            "GF_AUTH_ANONYMOUS_ENABLED": "true",
            "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(home / "boards/leasehold-overview.json"),
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        }


def _homepath(where):
    """The folder with Grafana's pages: a package has it in /usr/share, an archive around its programs."""
    packaged = Path("/usr/share/grafana")
    archive = where.parents[1]
    return archive if (archive / "public").is_dir() else packaged
