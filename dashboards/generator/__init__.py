"""Makes the Grafana boards and the Prometheus rules. Python's standard library only."""
