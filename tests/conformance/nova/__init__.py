"""Covey's policies under a real Nova: a laboratory that comes up by itself, and stories that run in it."""
