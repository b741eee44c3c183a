"""What Prometheus has to store so that the rules have all they compute from: for those who pay for each series."""
import re

from .rule_file import NOTE

ABOUT = """\
# For those who pay for each series: goes into a scrape config of Prometheus. Of Leasehold's metrics it stores what the
# rules need, and what the variables of the boards need; panels of other metrics stay empty. METRICS.md says how many
# series that saves.
"""


def metrics(groups):
    """The series that processes export and rules ask for, and those that the boards' variables are read from."""
    asked = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    exported = set(re.findall(r"(?<![:\w])leasehold_\w+", asked))
    return sorted(exported | {"leasehold_build_info", "leasehold_held"})


def text(groups):
    names = [name.removeprefix("leasehold_") for name in metrics(groups)]
    return NOTE + ABOUT + RELABEL.format(names="|".join(names))


# A metric of another program has no `leasehold_` in front, and is kept.
RELABEL = """\
metric_relabel_configs:
  - source_labels: [__name__]
    regex: "leasehold_({names})"
    target_label: __tmp_leasehold_kept
    replacement: "yes"
  - source_labels: [__name__, __tmp_leasehold_kept]
    regex: "leasehold_.*;"
    action: drop
  - regex: __tmp_leasehold_kept
    action: labeldrop
"""
