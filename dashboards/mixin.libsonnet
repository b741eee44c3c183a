// The boards and rules in the form of a monitoring mixin, for those who build their monitoring with jsonnet:
//   local leasehold = import 'leasehold/dashboards/mixin.libsonnet';
//   leasehold.grafanaDashboards, leasehold.prometheusAlerts, leasehold.prometheusRules
// It imports the files beside it. A set with options is made by `dashboards/generate FOLDER ...`; copy this file there.
{
  grafanaDashboards+:: {
    'leasehold-overview.json': import 'boards/leasehold-overview.json',
    'leasehold-contention.json': import 'boards/leasehold-contention.json',
    'leasehold-leases.json': import 'boards/leasehold-leases.json',
    'leasehold-backend.json': import 'boards/leasehold-backend.json',
  },
  prometheusAlerts+:: {
    groups+: std.parseYaml(importstr 'rules/alerts.yml').groups,
  },
  prometheusRules+:: {
    groups+: std.parseYaml(importstr 'rules/recording.yml').groups,
  },
}
