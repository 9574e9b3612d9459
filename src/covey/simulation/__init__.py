"""Simulation: streams of boots, deletes and failures, replayed through the service's own scheduler."""
