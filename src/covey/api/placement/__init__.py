"""The Placement API."""
