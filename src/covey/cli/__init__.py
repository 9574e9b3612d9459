"""The `covey` command."""
