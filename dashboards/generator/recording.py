"""Recording rules: what the alerts compare, and what is worth keeping for a year."""
from . import scope
from .rule_file import duration

# (name, window in seconds, expression). `@w` is the window. The name tells the labels that are kept.
RULES = [
    (
        "job_class_reason:leasehold_leases_lost:increase5m",
        300,
        "sum by (job, class, reason) (increase(leasehold_leases_lost_total[@w]))",
    ),
    (
        "job_class_outcome:leasehold_acquire:rate5m",
        300,
        "sum by (job, class, outcome) (rate(leasehold_acquire_total[@w]))",
    ),
    (
        "job_class:leasehold_acquire_contended:ratio5m",
        300,
        "sum by (job, class) (rate(leasehold_acquire_contended_total[@w])) "
        '/ (sum by (job, class) (rate(leasehold_acquire_total{outcome="acquired"}[@w])) > 0)',
    ),
    (
        "job_class:leasehold_acquire_wait_seconds:p99_5m",
        300,
        "histogram_quantile(0.99, sum by (job, class, le) (rate(leasehold_acquire_wait_seconds_bucket[@w])))",
    ),
    (
        "job_class:leasehold_renew_margin_low:ratio5m",
        300,
        'sum by (job, class) (rate(leasehold_renew_margin_ratio_bucket{le="0.2"}[@w])) '
        "/ (sum by (job, class) (rate(leasehold_renew_margin_ratio_count[@w])) > 0)",
    ),
    (
        "job_class:leasehold_renewals_failed:ratio5m",
        300,
        'sum by (job, class) (rate(leasehold_renewals_total{result!="renewed"}[@w])) '
        "/ (sum by (job, class) (rate(leasehold_renewals_total[@w])) > 0)",
    ),
    (
        "job_backend:leasehold_subscription_gaps:increase2m",
        120,
        "sum by (job, backend) (increase(leasehold_subscription_gaps_total[@w]))",
    ),
    (
        "job:leasehold_peers_without_expiry:increase10m",
        600,
        "sum by (job) (increase(leasehold_peers_without_expiry_total[@w]))",
    ),
    (
        "job_instance_thread:leasehold_runtime_stalls:increase5m",
        300,
        "sum by (job, instance, thread) (increase(leasehold_runtime_stall_seconds_count[@w])) "
        '- sum by (job, instance, thread) (increase(leasehold_runtime_stall_seconds_bucket{le="0.25"}[@w]))',
    ),
    (
        "job_backend_operation:leasehold_backend_command_seconds:p99_5m",
        300,
        "histogram_quantile(0.99, sum by (job, backend, operation, le) (rate(leasehold_backend_command_seconds_bucket[@w])))",
    ),
]


def groups(options):
    rules = [_rule(*rule, options) for rule in RULES]
    return [{"name": "leasehold-recording", "interval": duration(15, options.pace), "rules": rules}]


def _rule(name, window, expression, options):
    windowed = expression.replace("@w", duration(window, options.pace))
    return {"record": scope.recorded(name, options.scopes), "expr": scope.expression(windowed, options.scopes)}
