"""Measurements: how long a decision takes, against Nova's own step, and boots over HTTP. `make bench` runs them."""
