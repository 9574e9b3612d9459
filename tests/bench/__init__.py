"""Benchmarks: decisions, comparisons with Nova and Placement, and server creation over HTTP. `make bench` runs them."""
