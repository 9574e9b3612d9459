"""The documentation, and what writes parts of it."""
