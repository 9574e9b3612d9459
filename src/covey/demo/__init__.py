"""The demo's fleet file."""
