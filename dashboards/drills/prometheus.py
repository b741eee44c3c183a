"""Debian's Prometheus with the shipped rules."""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from generator import output
from generator.options import Options

from .programs import free_port
from .waiting import until


class Prometheus:
    def __init__(self, stage, jobs):
        self.stage, self.jobs, self.port = stage, jobs, free_port()
        self.scrape = 1 if stage.pace > 1 else 5
        self.url = f"http://127.0.0.1:{self.port}"
        self._configure()
        options = [f"--config.file={stage.folder}/prometheus.yml", f"--storage.tsdb.path={stage.folder}/data"]
        program = stage.programs.start("prometheus", "prometheus", *options, f"--web.listen-address=127.0.0.1:{self.port}")
        if not until(self._ready, 60):
            sys.exit(f"prometheus does not start: {Path(program.log).read_text()}")

    def _configure(self):
        rules = self.stage.home / "rules"
        if self.stage.pace > 1:
            output.write(self.stage.folder / "paced", Options(pace=self.stage.pace))
            rules = self.stage.folder / "paced" / "rules"
        (self.stage.folder / "prometheus.yml").write_text(CONFIG.format(scrape=self.scrape, rules=rules, targets=self.stage.targets))

    @property
    def rate_window(self):
        """What Grafana makes of `$__rate_interval`: four scrapes; in a hurry more, for a busy machine misses some."""
        return f"{max(4 * self.scrape, 10)}s"

    def firing(self, alert, job):
        return any(one["state"] == "firing" and one["labels"]["alertname"] == alert for one in self._alerts(job))

    def raised(self, job):
        """Names of alerts that ever fired for it."""
        series = self.query(f'max_over_time(ALERTS{{job="{job}", alertstate="firing"}}[1d])')
        return {one["metric"]["alertname"] for one in series}

    def is_over(self, alert, job):
        return not any(one["labels"]["alertname"] == alert for one in self._alerts(job))

    def query(self, expression, **more):
        return self._get("query", query=expression, **more)["result"]

    def query_range(self, expression, start, end, step=1):
        return self._get("query_range", query=expression, start=start, end=end, step=step)["result"]

    def label_values(self, series, label):
        return self._get(f"label/{label}/values", **{"match[]": series})

    def _alerts(self, job):
        return [one for one in self._get("alerts")["alerts"] if one["labels"].get("job") == job]

    def _get(self, what, **arguments):
        with urllib.request.urlopen(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(arguments)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def _ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).status == 200
        except (urllib.error.URLError, OSError):
            return False


CONFIG = """\
global: {{scrape_interval: {scrape}s, scrape_timeout: {scrape}s, evaluation_interval: {scrape}s}}
rule_files: ["{rules}/*.yml"]
scrape_configs:
  - job_name: drill
    file_sd_configs: [{{files: ["{targets}/*.json"], refresh_interval: 2s}}]
"""
