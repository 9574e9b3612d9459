"""Covey keeps servers together, or apart, on purpose: a placement service for OpenStack-style clouds."""
