"""What a set of boards and rules may differ in from the one that is kept."""
from dataclasses import dataclass, field

from .repository import address


@dataclass(frozen=True)
class Options:
    # By how much the rules are faster than the shipped ones, for drills in a hurry.
    pace: float = 1
    # Where the runbook is read; the name of an alert follows behind `#`.
    runbook: str = field(default_factory=lambda: address("dashboards/RUNBOOK.md"))
    # `page` and `ticket` by the names that the routes of Alertmanager have.
    severities: dict = field(default_factory=dict)
    # Labels that every alert gets.
    labels: dict = field(default_factory=dict)
    # Labels of the scrape, beside job and instance, that rules keep and boards choose by, the widest first.
    scopes: tuple = ()
    # What an alert compares with, by its name.
    limits: dict = field(default_factory=dict)
    # Seconds for which a condition has to hold, by the name of the alert.
    holds: dict = field(default_factory=dict)
    # Labels of the PrometheusRule object.
    object_labels: dict = field(default_factory=dict)

    def severity(self, role):
        return self.severities.get(role, role)

    def limit(self, alert):
        return self.limits.get(alert["name"], alert["limit"])

    def hold(self, alert):
        return self.holds.get(alert["name"], alert["for"])

    def has_shipped_rules(self):
        """Whether the tests of the rules, which compare numbers and labels, are about these rules."""
        return (self.pace, self.severities, self.labels, self.scopes, self.limits, self.holds) == (1, {}, {}, (), {}, {})
