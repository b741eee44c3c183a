"""What `dashboards/check` looks at. Each file has `faults(folder)`: a list of what is wrong."""
