"""Clusters: what callers can ask for, and the engine that does it."""
