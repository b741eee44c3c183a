"""`dashboards/drill`: each alert, caused on real servers."""
